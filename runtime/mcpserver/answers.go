package mcpserver

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// What models are told, in plain words. Text from outside (reasons, causes) is
// bounded, its invisible characters are made visible, and it is quoted where
// it could be mistaken for ours.

const (
	maxShown  = 200  // characters of a name or a value
	maxReason = 2000 // characters of a reviewer's reason or a server's complaint
	maxList   = 8000 // characters of a list of failing paths
)

// The codes of answers that are no call's end.
const (
	codePending       = "pending"
	codeInputRequired = "input_required"
	codeReplyTimeout  = "reply_timeout"
	codeKeyReused     = "idempotency_key_reused"
	codeCallNotFound  = "call_not_found"
	codeToolNotFound  = "tool_not_found"
	codeDepth         = "too_deep"
	codePendingLimit  = "pending_limited"
	codeNoModel       = "no_model"
)

const instructions = `Some tools here need the approval of a person, who may take minutes. ` +
	`If a call answers that it is still waiting, it is not lost: call ` + awaitTool + ` with its call_id to get the outcome. ` +
	`A call that was rejected must not be repeated unchanged.`

// introduction is what a model reads before its first call.
func introduction(problems []catalog.Problem) string {
	if len(problems) == 0 {
		return instructions
	}
	var text strings.Builder
	text.WriteString(instructions + "\n\nThe tools of these skills are missing at present, or cannot be used before somebody did what is said; say so if they are needed:")
	for _, p := range problems {
		fmt.Fprintf(&text, "\n- %s (%s): %s", plain.Visible(p.Skill, maxShown), plain.Visible(p.Kind, maxShown), plain.Quoted(p.Error, maxReason))
	}
	return text.String()
}

// nobodyDecides is added where a call waits for a decision that nobody can make.
const nobodyDecides = " Nobody is known at present who may decide about it: say that an operator has to appoint a reviewer."

// told is a call's result as its agent gets it.
func told(c *call.Call) []byte {
	result := firstPage(c.Result, c.ID)
	if note := c.TellEdits(); note != "" {
		return remark(result, strings.TrimSuffix(note, "\n\n"))
	}
	return result
}

// pending says that a call goes on while its client stops waiting.
// Reviewing is until when a reviewer decides about a question of its server; zero: there is none.
func pending(id uuid.UUID, status call.Status, deadline, reviewing time.Time, gated bool) string {
	var text strings.Builder
	if !reviewing.IsZero() {
		text.WriteString("This call is on its way. Its server asked something, and a reviewer decides until " +
			reviewing.UTC().Format(time.RFC3339) + " whether it gets the answer.")
		status = ""
	}
	switch status {
	case "":
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

// waitingForReview is waitingFor while a reviewer decides about what the skill's server asked.
func waitingForReview(until time.Time) string {
	return "waiting until a reviewer decides about an answer to the tool's server, until " + until.UTC().Format("15:04:05Z")
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
	if c != nil && c.WasEdited() {
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
