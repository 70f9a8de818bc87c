package ui

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// presentOutcome tells what became of a call that was, or was to be, sent; nil while there is
// nothing to tell beyond the decision.
func presentOutcome(s *subject) *view.Outcome {
	c := &s.call
	o := &view.Outcome{Level: statusBadge(c.Status).Level, Text: outcomeWords(c)}
	if c.Failure != tool.ToolError {
		o.Message = c.Message
	}
	switch c.Status {
	case call.Parked, call.NeedsConnection, call.Rejected:
		return nil
	case call.Expired, call.Cancelled:
		if s.approval != nil && s.approval.Status != approval.Approved {
			return nil // the decision says it
		}
	default:
	}
	if words := askedWords(s.questions); words != "" && c.Status.Final() {
		o.Text = strings.TrimSpace(o.Text + " " + words)
	}
	if len(c.Result) > 0 {
		o.RawURL = callURL(c.ID) + "/result"
		presentResult(o, c)
	}
	if len(c.Late) > 0 {
		if late, err := hostile.ReadPretty(c.Late, hostile.Folded()); err == nil {
			o.Late = &late
		} else {
			o.LateRaw = folded(c.Late)
		}
	}
	if r := c.Resolution; r != nil {
		o.Resolution = &view.Decision{Word: resolutionWords(r.Outcome), By: personName(r.By, s.names), At: r.At, Note: r.Note}
	}
	return o
}

// askedWords say how many questions the call's server asked, and on whose word it got answers; "" for none.
func askedWords(questions []call.AskedQuestion) string {
	approved, unreviewed := 0, 0
	for i := range questions {
		switch q := &questions[i]; {
		case q.Status != call.QuestionAnswered:
		case q.Review == call.ReviewNone:
			unreviewed++
		default:
			approved++
		}
	}
	if len(questions) == 0 {
		return ""
	}
	return fmt.Sprintf("Questions of its server: %d. Answers that it got: %d approved by a reviewer, %d that need no approval.",
		len(questions), approved, unreviewed)
}

func presentResult(o *view.Outcome, c *call.Call) {
	if c.Failure != tool.JSONRPCError {
		if result, err := hostile.ReadResult(c.Result, hostile.Folded()); err == nil && (len(result.Blocks) > 0 || result.Structured != nil) {
			o.Result = &result
			return
		}
	}
	if pretty, err := hostile.ReadPretty(c.Result, hostile.Folded()); err == nil {
		o.Result = &hostile.Result{Structured: &pretty}
		return
	}
	o.Raw = folded(c.Result)
}

func folded(text json.RawMessage) *hostile.Value {
	v := hostile.Fold(string(text), hostile.Folded())
	return &v
}

func resolutionWords(outcome string) string {
	if outcome == call.ResolvedSucceeded {
		return "It was executed"
	}
	return "It was not executed, or failed"
}

// outcomeWords say what happened and, above all, whether anything was done.
func outcomeWords(c *call.Call) string {
	switch c.Status {
	case call.Approved:
		return "It will be sent in a moment."
	case call.Executing:
		return "It was sent; the answer is not there yet."
	case call.Succeeded:
		return "The server answered."
	case call.Unknown:
		return "It was sent, and nobody knows what became of it. It may have been executed: do not repeat it blindly."
	case call.Denied:
		return "It was not sent: " + denialWords(c.Code) + "."
	case call.Invalid:
		if c.Code == call.CodeTooComplex {
			return "It was not sent: its arguments are too complex to check against the tool's schema."
		}
		return "It was not sent: its arguments do not fit the tool's schema."
	case call.Expired:
		if c.Code == call.CodeApprovalLapsed {
			return "It was not sent: the approval lapsed before it could be sent."
		}
		return "It was not sent: its time was up before its skill was connected."
	case call.Cancelled:
		return "It was not sent: it was cancelled before that."
	case call.Failed:
		return failureWords(c.Failure) + effectWords(c)
	default:
		return ""
	}
}

func failureWords(kind tool.FailureKind) string {
	switch kind {
	case tool.ToolError:
		return "The tool ran, and reported an error."
	case tool.JSONRPCError:
		return "The server refused the request."
	case tool.TransportFailure:
		return "The connection to the server failed."
	case tool.ProtocolFailure:
		return "The server's answer is not one that can be used."
	case tool.SessionInvalid:
		return "The server refused the session, and a new one too."
	}
	return "It failed."
}

func effectWords(c *call.Call) string {
	switch {
	case c.Effect == tool.EffectPossible:
		return " It may have been executed: do not repeat it blindly."
	case c.Failure == tool.TransportFailure, c.Failure == tool.SessionInvalid:
		return " Nothing was executed."
	}
	return ""
}

func denialWords(code string) string {
	switch code {
	case call.CodeDefinitionChanged:
		return "the tool's definition changed since the call was made"
	case call.CodeAssignmentRevoked:
		return "the agent may no longer use this tool"
	case call.CodeSkillChanged:
		return "the skill was changed since the call was made"
	case call.CodeToolDisabled:
		return "an operator switched the tool off"
	case call.CodeNoPrincipal:
		return "its skill needs a person's own connection, and the call was made on nobody's behalf"
	case call.CodeEnvelopeChanged:
		return "what was stored is no longer what was approved"
	case call.CodePersonBlocked:
		return "a person whom it depended on was blocked since"
	case call.CodeReviewerRemoved:
		return "the person who approved it is no reviewer any more"
	case call.CodeCredentialRevoked:
		return "a credential that it depended on was revoked since"
	case call.CodeFileChanged:
		return "a file that was attached is not stored any more as it was"
	}
	return code
}
