package mcpserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// What models are told, in plain words. Text from outside (reasons, causes) is
// bounded, its invisible characters are made visible, and it is quoted where
// it could be mistaken for ours.

const (
	maxShown  = 200  // characters of a name or a value
	maxReason = 2000 // characters of a reviewer's reason or a server's complaint
	maxList   = 8000 // characters of a list of failing paths
	maxEdited = 8000 // characters of arguments that a reviewer edited
)

// The codes of answers that are no call's end.
const (
	codePending       = "pending"
	codeInputRequired = "input_required"
	codeReplyTimeout  = "reply_timeout"
	codeKeyReused     = "idempotency_key_reused"
	codeCallNotFound  = "call_not_found"
	codeToolNotFound  = "tool_not_found"
)

const instructions = `Some tools here need the approval of a person, who may take minutes. ` +
	`If a call answers that it is still waiting, it is not lost: call ` + awaitTool + ` with its call_id to get the outcome. ` +
	`A call that was rejected must not be repeated unchanged.`

// introduction is what a model reads before its first call.
func introduction(problems []agent.Problem) string {
	if len(problems) == 0 {
		return instructions
	}
	var text strings.Builder
	text.WriteString(instructions + "\n\nThe tools of these skills are missing at present, or cannot be used before somebody did what is said; say so if they are needed:")
	for _, p := range problems {
		fmt.Fprintf(&text, "\n- %s (%s): %s", visible(p.Skill, maxShown), visible(p.Kind, maxShown), quoted(p.Error, maxReason))
	}
	return text.String()
}

const (
	effectPossible = "It may have been executed. Do not repeat it blindly: find out first what it did."
	effectNone     = "It was not executed."
)

// tell says how a call ended that brought no result.
func tell(c *call.Call) string {
	switch c.Status {
	case call.Rejected:
		return "This call was rejected by a reviewer and not executed. Do not repeat it unchanged; try something else." +
			because("Reason", c.Message)
	case call.Expired:
		if c.Message == call.MessageUnconnected {
			return "Nobody connected the account that this call needs in time. It was not executed. " +
				"Say that the skill has to be connected before you try again."
		}
		if c.Code == call.CodeNoReviewer {
			return "There is nobody who may decide about this call, so its time ran out. It was not executed. " +
				"Say that an operator has to appoint a reviewer; trying again before that is of no use."
		}
		return "Nobody decided about this call in time. It was not executed. " +
			"Do not take this for a rejection; say that an approval is needed before you try again."
	case call.Cancelled:
		return "This call was cancelled before anybody decided about it. It was not executed." + because("Note", c.Message)
	case call.Denied:
		return "This call was denied and not executed. " + denial(c.Code) + because("Cause", c.Message)
	case call.Invalid:
		return "The arguments of this call are not valid. It was not executed. Correct these and call again:\n" + visible(c.Message, maxList)
	case call.Unknown:
		return "The outcome of this call is unknown. " + effectPossible + because("What is known", c.Message) + finding(c.Resolution)
	case call.Failed:
		return failure(c)
	default:
		return "This call ended without a result (" + string(c.Status) + ")." + because("Note", c.Message)
	}
}

// nobodyDecides is added where a call waits for a decision that nobody can make.
const nobodyDecides = " Nobody is known at present who may decide about it: say that an operator has to appoint a reviewer."

// edits says that a reviewer changed what was sent; empty: nobody did.
func edits(c *call.Call) string {
	if c.Submitted == nil {
		return ""
	}
	return "A reviewer approved this call with other arguments than yours. Do not repeat it with yours. What was sent: " +
		visible(string(c.Arguments), maxEdited) + "\n\n"
}

// told is a call's result as its agent gets it.
func told(c *call.Call) []byte {
	if note := edits(c); note != "" {
		return remark(c.Result, strings.TrimSuffix(note, "\n\n"))
	}
	return c.Result
}

func denial(code string) string {
	switch code {
	case call.CodeDefinitionChanged:
		return "The tool was changed on its server since the call was made: list the tools again before you call it."
	case call.CodeAssignmentRevoked:
		return "This agent may no longer use this tool."
	case call.CodeSkillChanged:
		return "An operator changed the skill since the call was made; you may make the call again."
	case call.CodeToolDisabled:
		return "This tool is switched off."
	case call.CodeFileChanged:
		return "A file that was attached is not stored any more as it was: upload it again before you call again."
	default:
		return "Do not repeat it unchanged."
	}
}

func failure(c *call.Call) string {
	effect := effectNone
	if c.Effect == tool.EffectPossible {
		effect = effectPossible
	}
	switch c.Failure {
	case tool.TransportFailure:
		return "The tool's server could not be reached, or did not answer. " + effect + because("Cause", c.Message)
	case tool.ProtocolFailure:
		return "The tool's server gave an answer that cannot be used. " + effect + because("Cause", c.Message)
	case tool.SessionInvalid:
		return "The tool's server refused the session. " + effect + because("Cause", c.Message)
	default:
		return "The tool failed. " + effect + because("Cause", c.Message)
	}
}

func finding(r *call.Resolution) string {
	if r == nil {
		return ""
	}
	return " An operator has looked into it since and says: " + quoted(r.Outcome, maxShown) + because("Note", r.Note)
}

func because(label, text string) string {
	if text == "" {
		return ""
	}
	return " " + label + ": " + quoted(text, maxReason)
}

// pending says that a call goes on while its client stops waiting.
func pending(id uuid.UUID, status call.Status, deadline time.Time, gated bool) string {
	var text strings.Builder
	switch status {
	case call.Parked:
		text.WriteString("This call was not executed yet: it is waiting for approval by a person")
		if !deadline.IsZero() {
			text.WriteString(" until " + deadline.UTC().Format(time.RFC3339))
		}
		text.WriteString(".")
	case call.NeedsConnection:
		text.WriteString("This call was not executed yet: it is waiting until somebody connects the account that it needs")
		if !deadline.IsZero() {
			text.WriteString(", until " + deadline.UTC().Format(time.RFC3339) + " at the latest")
		}
		text.WriteString(".")
	default:
		text.WriteString("This call is on its way, and has not ended yet.")
	}
	fmt.Fprintf(&text, ` Its id is %s. To get its outcome, call %s with {"call_id": "%s"}`, id, awaitTool, id)
	if gated || status == call.NeedsConnection {
		text.WriteString(", or repeat the same call: it is not executed twice.")
	} else {
		text.WriteString("; do not repeat the call.")
	}
	return text.String()
}

// waitingFor is the text of a progress notification.
func waitingFor(status call.Status, deadline, now time.Time) string {
	switch {
	case status == call.Executing || status == call.Approved:
		return "executing"
	case deadline.IsZero() || !now.Before(deadline):
		return "waiting for the outcome"
	case status == call.NeedsConnection:
		return "waiting until somebody connects the skill, until " + deadline.UTC().Format("15:04:05Z")
	default:
		return "waiting for approval until " + deadline.UTC().Format("15:04:05Z")
	}
}

// callMeta is what a result's _meta says of the call, for programs.
func callMeta(id uuid.UUID, status call.Status, code string, c *call.Call, attached bool) []byte {
	if code == "" {
		code = string(status)
	}
	meta := append(make([]byte, 0, 192), `"`+metaCall+`":{"id":"`...)
	meta = append(append(meta, id.String()...), `","status":`...)
	meta = appendString(meta, string(status))
	meta = appendString(append(meta, `,"code":`...), code)
	if c != nil && c.Failure != "" {
		meta = appendString(append(meta, `,"failure":`...), string(c.Failure))
	}
	if c != nil && c.Effect != "" {
		meta = appendString(append(meta, `,"effect":`...), string(c.Effect))
	}
	if attached {
		meta = append(meta, `,"attached":true`...)
	}
	if c != nil && c.Submitted != nil {
		meta = append(meta, `,"edited":true`...)
	}
	return append(meta, '}')
}

// toolError is a result in our own words. Meta is the inside of its _meta.
func toolError(text string, meta []byte, typed bool) []byte {
	result := make([]byte, 0, len(text)+len(meta)+128)
	result = append(result, '{')
	if typed {
		result = append(result, `"resultType":"complete",`...)
	}
	result = appendString(append(result, `"content":[{"type":"text","text":`...), text)
	result = append(append(result, `}],"isError":true,"_meta":{`...), meta...)
	return append(result, "}}"...)
}

// quoted shows text from outside between quotation marks, invisible characters
// escaped, so that where it ends is beyond doubt.
func quoted(text string, limit int) string {
	short := clip(text, limit)
	if len(short) < len(text) {
		return strconv.QuoteToGraphic(short) + "…"
	}
	return strconv.QuoteToGraphic(short)
}

// visible shows text from outside as it is, but for characters that cannot be seen.
func visible(text string, limit int) string {
	var shown strings.Builder
	for _, r := range clip(strings.ToValidUTF8(text, "\uFFFD"), limit) {
		if r == '\n' || unicode.IsGraphic(r) {
			shown.WriteRune(r)
		} else {
			fmt.Fprintf(&shown, `\u{%x}`, r)
		}
	}
	return shown.String()
}

// clip keeps the first characters of a text.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for i := range text {
		if limit == 0 {
			return text[:i]
		}
		limit--
	}
	return text
}
