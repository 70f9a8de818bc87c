package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// toolCall is a tools/call request.
type toolCall struct{ *exchange }

// callTool submits a call and holds the response open until its outcome.
func (x *toolCall) callTool() {
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	if x.msg.Name == awaitTool {
		x.can, _ = x.readAbilities(conversation)
		x.awaitCall(conversation.ID)
		return
	}
	entry, ok := conversation.Catalog.Lookup(x.msg.Name)
	if !ok {
		x.fail(x.unknownTool())
		return
	}
	x.spanTool(entry.Name)
	arguments, fault := x.cleanArguments(entry)
	if fault != nil {
		x.fail(fault)
		return
	}
	if x.modern && x.msg.RequestState != nil {
		x.can, _ = x.readAbilities(conversation)
		x.continueCall(conversation, arguments)
		return
	}
	switch {
	case entry.SkillID != agent.BuiltinSkill:
	case entry.Name == catalog.SubmitPlanTool:
		x.submitPlan(conversation, arguments)
		return
	case entry.Name == catalog.CheckPlanTool:
		x.checkPlan(arguments)
		return
	default:
		x.askAgent(conversation, entry, arguments)
		return
	}
	x.submitCall(conversation, entry, arguments)
}

// cleanArguments validates the argument bytes and takes the idempotency key out.
func (x *toolCall) cleanArguments(entry *catalog.Entry) (json.RawMessage, *jsonrpc.Error) {
	raw := x.msg.Arguments
	if raw == nil {
		raw = []byte("{}")
	}
	arguments, err := call.CleanArguments(raw) // before anything else looks at them
	if refused := (*call.DoorError)(nil); errors.As(err, &refused) {
		return nil, invalidArgument(refused.Pointer, refused.Reason)
	} else if err != nil {
		return nil, wire.InvalidParams("/params/arguments: " + err.Error())
	}
	arguments, fault := x.takeIdempotencyKey(entry, arguments)
	if fault != nil {
		return nil, fault
	}
	if x.modern {
		return arguments, wire.CheckParamHeaders(x.r.Header, entry.Tool.InputSchema, arguments)
	}
	return arguments, nil
}

func (x *toolCall) submitCall(conversation *catalog.Conversation, entry *catalog.Entry, arguments json.RawMessage) {
	key := x.msg.Meta.IdempotencyKey
	advance, fault := x.readResponses()
	if fault != nil {
		x.fail(fault)
		return
	}
	can, askable := x.readAbilities(conversation)
	x.can = can
	caller := x.newCaller(conversation, askable)
	x.wantsLog = caller.LogLevel != ""
	// From here on the call continues even if its client leaves.
	ticket, err := x.Calls.Submit(context.WithoutCancel(x.r.Context()), call.Submission{
		Agent: x.agent, PrincipalID: x.principal, ConversationID: conversation.ID,
		Entry: entry, Arguments: arguments, IdempotencyKey: key,
		Caller: caller, Advance: advance, Awaited: can.Tasks,
	})
	refused, full := (*file.AttachmentError)(nil), (*call.PendingError)(nil)
	switch {
	case errors.As(err, &full):
		x.tooManyPending(full)
		return
	case errors.Is(err, call.ErrKeyReused):
		x.fail(keyReused())
		return
	case errors.As(err, &refused):
		x.fail(invalidArgument(refused.Pointer, refused.Expected))
		return
	case err != nil:
		x.failInternal("submit call", err)
		return
	}
	x.waitForOutcome(conversation.ID, waiting{
		id: ticket.ID, status: ticket.Status, deadline: ticket.Deadline,
		gated: ticket.Gated, attached: ticket.Attached, keyed: key != "", alone: ticket.Alone, task: can.Tasks,
	})
}

// invalidArgument returns the error for a part of the arguments.
func invalidArgument(pointer, expected string) *jsonrpc.Error {
	where := "/params/arguments" + pointer
	fault := wire.InvalidParams(plain.Visible(where, wire.MaxShown) + ": " + expected)
	fault.Data = marshal(map[string]string{"pointer": where})
	return fault
}

// awaitCall serves the synthetic tool, which waits for an earlier call.
func (x *toolCall) awaitCall(conversation uuid.UUID) {
	var arguments struct {
		CallID *string `json:"call_id"`
		Page   int     `json:"page"`
	}
	if err := json.Unmarshal(x.msg.Arguments, &arguments); err != nil || arguments.CallID == nil || arguments.Page < 0 {
		x.replyText("The arguments of "+awaitTool+" are not valid. Correct these and call again:\n/call_id: must be the id of a call, as a string"+
			"\n/page: must be a number from 1 on, or left out",
			[]byte(`"`+metaCall+`":{"code":"`+call.CodeInvalidArguments+`"}`))
		return
	}
	found := call.Call{}
	id, err := uuid.Parse(*arguments.CallID)
	if err == nil {
		found, err = x.Calls.Get(x.r.Context(), x.viewer(), id)
	} else {
		err = call.ErrNotFound
	}
	switch {
	case errors.Is(err, call.ErrNotFound):
		x.replyText("There is no such call.", []byte(`"`+metaCall+`":{"code":"`+codeCallNotFound+`"}`))
	case err != nil:
		x.failInternal("get call", err)
	case arguments.Page > 1 && found.Status.Final():
		x.answerPage(&found, arguments.Page)
	default:
		x.awaitFound(conversation, &found)
	}
}

// awaitFound submits the client's answers to the call's questions, then waits.
func (x *toolCall) awaitFound(conversation uuid.UUID, found *call.Call) {
	fault := error(nil)
	if state := x.msg.RequestState; x.modern && state != nil {
		if id, _, ok := parseQuestion(state, ""); !ok || id != found.ID {
			fault = call.ErrNotFound
		} else {
			fault = x.takeAnswers(id)
		}
	}
	switch {
	case errors.Is(fault, call.ErrNotFound):
		x.fail(unknownState())
	case fault != nil:
		x.failWith("continue call", fault)
	default:
		w := waiting{id: found.ID, status: found.Status, gated: found.Gated, attached: true}
		if !w.status.Final() {
			w.deadline = x.waitDeadline(w.id, w.status)
		}
		x.waitForOutcome(conversation, w)
	}
}

func (x *exchange) viewer() call.Viewer {
	return call.Viewer{AgentID: x.agent.ID, PrincipalID: x.principal}
}

// waitForOutcome holds the response open and answers. It retains nothing of the request's body.
func (x *toolCall) waitForOutcome(conversation uuid.UUID, w waiting) {
	if x.modern || x.r.Header.Get(wire.HeaderSession) == "" {
		conversation = uuid.Nil // ids of requests are not unique there, and none is ever cancelled by id
	}
	x.msg = wire.Message{
		ID:   bytes.Clone(x.msg.ID),
		Meta: wire.Meta{ProgressToken: bytes.Clone(x.msg.Meta.ProgressToken), LogLevel: strings.Clone(x.msg.Meta.LogLevel)},
	}
	x.w.Header().Set(wire.HeaderCall, w.id.String())
	x.spanCall(w.id, w.attached)
	ended, err := x.awaitOutcome(conversation, w)
	if asked, ok := errors.AsType[*askedError](err); ok {
		x.answerAsked(w, asked.questions)
		return
	}
	switch {
	case err == nil:
		x.deliverOutcome(ended, w)
	case errors.Is(err, errGone):
		x.noteClientLeft(err)
	case errors.Is(err, errDropped):
		x.abandonResponse()
	case errors.Is(err, errDrain):
		x.answerPending(w)
	case errors.Is(err, errTask):
		x.answerTask(w)
	case errors.Is(err, errBudget):
		x.answerAtDeadline(w, x.answerPending)
	case errors.Is(err, errReply):
		x.answerAtDeadline(w, x.answerLate)
	default:
		x.Logger.Error("wait for call", "agent", x.agent.Name, "call_id", w.id, "error", err)
		x.answerPending(w)
	}
}

// answerAtDeadline checks the call once more when the time of the response is up: it may have ended since.
func (x *toolCall) answerAtDeadline(w waiting, answer func(waiting)) {
	now, err := x.Calls.Get(x.r.Context(), x.viewer(), w.id)
	switch {
	case err != nil:
		x.Logger.Warn("get call", "agent", x.agent.Name, "call_id", w.id, "error", err)
	case now.Status.Final():
		x.deliverOutcome(&now, w)
		return
	default:
		w.status = now.Status
	}
	answer(w)
}

func (x *toolCall) answerPending(w waiting) {
	status := w.shownStatus()
	deadline := x.waitDeadline(w.id, status)
	text := pendingText(w.id, status, deadline, w.gated)
	if w.alone && status == call.Parked {
		text += nobodyDecides
	}
	answer := toolError
	if x.agent.PendingAs == agent.PendingAsResult {
		answer = toolText
	}
	x.reply(answer(text, pendingMeta(&w, status, deadline), x.modern))
}

// waitDeadline returns until when an open call with a status waits for people; zero: it does not, or that is not known.
func (x *exchange) waitDeadline(id uuid.UUID, status call.Status) time.Time {
	until, err := x.Calls.WaitDeadline(x.r.Context(), x.viewer(), id, status)
	if err != nil {
		x.Logger.Warn("read the deadline of a call", "agent", x.agent.Name, "call_id", id, "error", err)
	}
	return until
}

// replyText answers with an error result with a text for the model.
func (x *response) replyText(text string, meta []byte) {
	x.reply(toolError(text, meta, x.modern))
}

// abandonResponse ends a response that its client cancelled, without an answer.
func (x *toolCall) abandonResponse() {
	switch {
	case x.IsStream:
	case x.Stream:
		if err := x.BeginStream(); err != nil {
			x.noteClientLeft(err)
		}
	default:
		x.w.WriteHeader(http.StatusNoContent)
	}
}

// deliverOutcome answers with a call's outcome and marks it delivered once it is sent.
func (x *toolCall) deliverOutcome(c *call.Call, w waiting) {
	if c.Status == call.Invalid && x.usesErrorCodes() {
		x.fail(invalidArguments(c))
		return
	}
	x.spanEnded(c)
	told := x.tellOutcome(c, w, x.modern)
	member := `,"result":`
	if told.fault {
		member = `,"error":`
	}
	if err := x.writeAnswer(told.status, member, told.pieces); err != nil {
		x.noteClientLeft(err)
		return
	}
	if !w.gated && !w.attached && !w.keyed {
		return
	}
	if err := x.Flush(); err != nil {
		x.noteClientLeft(err)
		return
	}
	x.markDelivered(c)
}

func (x *exchange) markDelivered(c *call.Call) {
	// A client that closes as soon as it has its answer has it: only a failed write counts as not delivered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), deliveryTimeout)
	defer cancel()
	if err := x.Calls.MarkDelivered(ctx, c.ID); err != nil {
		x.Logger.Error("mark call delivered", "agent", x.agent.Name, "call_id", c.ID, "error", err)
	}
}

const deliveryTimeout = 30 * time.Second

// outcome is the outcome of a call in the form of its response.
type outcome struct {
	fault  bool // a JSON-RPC error, not a result
	status int  // HTTP's
	pieces [][]byte
}

// tellOutcome returns the outcome of a call for its client. The task of a gated call never fails: an error of its server becomes an error
// result.
func (x *exchange) tellOutcome(c *call.Call, w waiting, typed bool) outcome {
	if c.Failure == tool.JSONRPCError && len(c.Result) > 0 && (!w.task || !c.Gated) {
		return outcome{fault: true, status: x.faultStatus(c.Result), pieces: [][]byte{c.Result}}
	}
	var meta []byte
	if w.gated || w.attached {
		meta = callMeta(c.ID, c.Status, c.Code, c, w.attached)
	}
	if (c.Status == call.Succeeded || c.Failure == tool.ToolError) && len(c.Result) > 0 {
		meta = x.addDrafts(c, w, addAskedConversation(c, meta))
		pieces, err := wire.DressResult(resultForAgent(c, x.noteApproval(c, w)), meta, typed)
		if err == nil {
			return outcome{status: http.StatusOK, pieces: pieces}
		}
		x.Logger.Error("pass result on", "agent", x.agent.Name, "call_id", c.ID, "error", err)
	}
	meta = callMeta(c.ID, c.Status, c.Code, c, w.attached)
	if c.Failure == tool.JSONRPCError && len(c.Result) > 0 {
		meta = append(append(meta, `,"`+metaError+`":`...), c.Result...)
	}
	meta = x.addDrafts(c, w, meta)
	text := toolError(c.ExplainEdits()+c.Explain(), meta, typed)
	return outcome{status: http.StatusOK, pieces: [][]byte{text}}
}

// faultStatus returns the HTTP status of a skill server's error. Missing client capabilities are an error of the client's
// request too.
func (x *exchange) faultStatus(raw json.RawMessage) int {
	var fault struct {
		Code int64 `json:"code"`
	}
	if json.Unmarshal(raw, &fault) == nil && fault.Code == mcp.CodeMissingRequiredClientCapabilities && x.modern {
		return x.httpStatus(fault.Code)
	}
	return http.StatusOK
}
