package mcpserver

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// Texts for models. Text from outside (reasons, causes) is limited in length, its
// invisible characters are made visible, and it is quoted where it could be
// mistaken for Holdpoint's.

const (
	maxReason = 2000 // characters of a reviewer's reason or a server's complaint
	maxList   = 8000 // characters of a list of failing paths
)

// The members of _meta that Holdpoint adds.
const (
	metaCall     = wire.MetaPrefix + "call"
	metaError    = wire.MetaPrefix + "error" // the JSON-RPC error of a gated call's server, in the result of its task
	metaProblems = wire.MetaPrefix + "problems"
)

// The codes of answers while a call is open or was not made.
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

// modelIntroduction is the text that a model reads before its first call.
func modelIntroduction(problems []catalog.Problem) string {
	if len(problems) == 0 {
		return instructions
	}
	var text strings.Builder
	text.WriteString(instructions + "\n\nThe tools of these skills are missing, or need the stated action of a person first; tell the user if you need them:")
	for _, p := range problems {
		fmt.Fprintf(&text, "\n- %s (%s): %s", plain.Visible(p.Skill, wire.MaxShown), plain.Visible(p.Kind, wire.MaxShown), plain.Quoted(p.Error, maxReason))
	}
	return text.String()
}

// nobodyDecides is added to the pending answer of a call that no reviewer can decide.
const nobodyDecides = " At present no reviewer may decide it: tell the user that an operator has to appoint one."

// resultForAgent returns a call's result for its agent: the first page, after a note and one on edits.
func resultForAgent(c *call.Call, note string) []byte {
	result := firstPage(c.Result, c.ID)
	if note += c.ExplainEdits(); note != "" {
		return wire.PrependText(result, strings.TrimSuffix(note, "\n\n"))
	}
	return result
}

// pendingText tells a client that stops waiting that its call continues. The deadline is that of the people that it waits for; zero:
// none, or not known.
func pendingText(id uuid.UUID, status call.Status, deadline time.Time, gated bool) string {
	var text strings.Builder
	switch status {
	case call.Parked:
		text.WriteString("This call was not executed yet: it is waiting for approval by a person")
		if !deadline.IsZero() {
			text.WriteString(" until " + deadline.UTC().Format(time.RFC3339))
		}
		text.WriteString(".")
	case call.NeedsConnection:
		text.WriteString("This call was not executed yet: it is waiting for a person to connect the account that it needs")
		if !deadline.IsZero() {
			text.WriteString(", until " + deadline.UTC().Format(time.RFC3339) + " at the latest")
		}
		text.WriteString(".")
	default:
		if deadline.IsZero() {
			text.WriteString("This call is executing and has not ended yet.")
			break
		}
		text.WriteString("This call is executing. Its server asked a question, and a reviewer decides until " +
			deadline.UTC().Format(time.RFC3339) + " whether it gets the answer.")
	}
	fmt.Fprintf(&text, ` Its id is %s. To get its outcome, call %s with {"call_id": "%s"}`, id, awaitTool, id)
	if gated || status == call.NeedsConnection {
		text.WriteString(", or repeat the same call: it is not executed twice.")
	} else {
		text.WriteString("; do not repeat the call.")
	}
	return text.String()
}

// waitingFor is the text of a progress notification, and the message of a task.
func waitingFor(status call.Status, deadline, now time.Time) string {
	text, until := "waiting for the outcome", ", until "
	switch {
	case status == call.Executing || status == call.Approved:
		return "executing"
	case !deadline.IsZero() && !now.Before(deadline):
		return text
	case status == call.NeedsConnection:
		text = "waiting for a person to connect the skill"
	case status == call.Parked:
		text, until = "waiting for approval", " until "
	}
	if deadline.IsZero() {
		return text
	}
	return text + until + deadline.UTC().Format("15:04:05Z")
}

// waitingForReview is the text of a progress notification while a reviewer decides about a question of the skill's server.
func waitingForReview(until time.Time) string {
	return "waiting until a reviewer decides about an answer to the tool's server, until " + until.UTC().Format("15:04:05Z")
}

// callMeta returns the member of a result's _meta that describes the call to programs.
func callMeta(id uuid.UUID, status call.Status, code string, c *call.Call, attached bool) []byte {
	if code == "" {
		code = string(status)
	}
	meta := append(make([]byte, 0, 192), `"`+metaCall+`":{"id":"`...)
	meta = append(append(meta, id.String()...), `","status":`...)
	meta = rawjson.AppendString(meta, string(status))
	meta = rawjson.AppendString(append(meta, `,"code":`...), code)
	if c != nil && c.Failure != "" {
		meta = rawjson.AppendString(append(meta, `,"failure":`...), string(c.Failure))
	}
	if c != nil && c.Effect != "" {
		meta = rawjson.AppendString(append(meta, `,"effect":`...), string(c.Effect))
	}
	if attached {
		meta = append(meta, `,"attached":true`...)
	}
	if c != nil && c.WasEdited() {
		meta = append(meta, `,"edited":true`...)
	}
	return append(meta, '}')
}

// pendingMeta is [callMeta] of a call that is pending, with the deadline of the people that it waits for; zero: none, or not known.
func pendingMeta(w *waiting, status call.Status, deadline time.Time) []byte {
	meta := callMeta(w.id, status, codePending, nil, w.attached)
	if deadline.IsZero() {
		return meta
	}
	meta = append(meta[:len(meta)-1], `,"deadline":"`...)
	return append(deadline.UTC().AppendFormat(meta, time.RFC3339), `"}`...)
}

// toolError returns an error result with a text. Meta is the inside of its _meta.
func toolError(text string, meta []byte, typed bool) []byte {
	result := make([]byte, 0, len(text)+len(meta)+128)
	result = append(result, '{')
	if typed {
		result = append(result, `"resultType":"complete",`...)
	}
	result = wire.AppendText(append(result, `"content":[`...), text)
	result = append(append(result, `],"isError":true,"_meta":{`...), meta...)
	return append(result, "}}"...)
}

// toolText returns a result with a text. Meta is the inside of its _meta.
func toolText(text string, meta []byte, typed bool) []byte {
	result := []byte("{")
	if typed {
		result = append(result, `"resultType":"complete",`...)
	}
	result = wire.AppendText(append(result, `"content":[`...), text)
	return append(append(append(result, `],"_meta":{`...), meta...), "}}"...)
}
