package mcpserver

import (
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
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// callTool takes a call in, and stays for its outcome as long as it is of use.
func (x *exchange) callTool() {
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	if x.msg.name == awaitTool {
		x.can, _ = x.able(conversation)
		x.awaitCall(conversation.ID)
		return
	}
	entry, ok := conversation.Catalog.Lookup(x.msg.name)
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
	if x.modern && x.msg.requestState != nil {
		x.can, _ = x.able(conversation)
		x.goOn(conversation, arguments)
		return
	}
	if entry.SkillID == agent.BuiltinSkill {
		x.askAgent(conversation, entry, arguments)
		return
	}
	x.submit(conversation, entry, arguments)
}

// cleanArguments hands the argument bytes to the door.
func (x *exchange) cleanArguments(entry *catalog.Entry) (json.RawMessage, *jsonrpc.Error) {
	raw := x.msg.arguments
	if raw == nil {
		raw = []byte("{}")
	}
	arguments, err := call.CleanArguments(raw) // before anything else looks at them
	if refused := (*call.DoorError)(nil); errors.As(err, &refused) {
		where := "/params/arguments" + refused.Pointer
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: plain.Visible(where, maxShown) + ": " + refused.Reason,
			Data: marshal(map[string]string{"pointer": where}),
		}
	} else if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/arguments: " + err.Error()}
	}
	arguments, fault := x.takeKey(entry, arguments)
	if fault != nil {
		return nil, fault
	}
	if x.modern {
		return arguments, checkParamHeaders(x.r.Header, entry.Tool.InputSchema, arguments)
	}
	return arguments, nil
}

func (x *exchange) submit(conversation *catalog.Conversation, entry *catalog.Entry, arguments json.RawMessage) {
	key := x.msg.meta.idempotencyKey
	advance, fault := x.responses()
	if fault != nil {
		x.fail(fault)
		return
	}
	can, askable := x.able(conversation)
	x.can = can
	caller := x.meets(conversation, askable)
	x.wantsLog = caller.LogLevel != ""
	// From here on the call goes its way even if its client leaves.
	ticket, err := x.Calls.Submit(context.WithoutCancel(x.r.Context()), call.Submission{
		Agent: x.agent, PrincipalID: x.principal, ConversationID: conversation.ID,
		Entry: entry, Arguments: arguments, IdempotencyKey: key,
		Caller: caller, Advance: advance, Awaited: can.tasks,
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
		x.fail(notAttached(refused))
		return
	case err != nil:
		x.internal("submit call", err)
		return
	}
	x.wait(conversation.ID, waiting{
		id: ticket.ID, status: ticket.Status, deadline: ticket.Deadline,
		gated: ticket.Gated, attached: ticket.Attached, keyed: key != "", alone: ticket.Alone, task: can.tasks,
	})
}

// notAttached says what is wrong with a file that was to be attached.
func notAttached(refused *file.AttachmentError) *jsonrpc.Error {
	where := "/params/arguments" + refused.Pointer
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: plain.Visible(where, maxShown) + ": " + refused.Expected,
		Data: marshal(map[string]string{"pointer": where}),
	}
}

// awaitCall is the synthetic tool: it waits for a call that was made before.
func (x *exchange) awaitCall(conversation uuid.UUID) {
	var arguments struct {
		CallID *string `json:"call_id"`
		Page   int     `json:"page"`
	}
	if err := json.Unmarshal(x.msg.arguments, &arguments); err != nil || arguments.CallID == nil || arguments.Page < 0 {
		x.say("The arguments of "+awaitTool+" are not valid. Correct these and call again:\n/call_id: want the id of a call, as a string"+
			"\n/page: want a number from 1 on, or nothing",
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
		x.say("There is no such call.", []byte(`"`+metaCall+`":{"code":"`+codeCallNotFound+`"}`))
	case err != nil:
		x.internal("get call", err)
	case arguments.Page > 1 && found.Status.Final():
		x.answerPage(&found, arguments.Page)
	default:
		x.awaitFound(conversation, &found)
	}
}

// awaitFound hands on what the client answers to what the call asked, and waits.
func (x *exchange) awaitFound(conversation uuid.UUID, found *call.Call) {
	fault := error(nil)
	if state := x.msg.requestState; x.modern && state != nil {
		if id, ok := readState(state); !ok || id != found.ID {
			fault = call.ErrNotFound
		} else {
			fault = x.takeAnswers(id)
		}
	}
	switch {
	case errors.Is(fault, call.ErrNotFound):
		x.fail(unknownState())
	case fault != nil:
		x.refuse("continue call", fault)
	default:
		x.wait(conversation, waiting{id: found.ID, status: found.Status, gated: found.Gated, attached: true})
	}
}

func (x *exchange) viewer() call.Viewer {
	return call.Viewer{AgentID: x.agent.ID, PrincipalID: x.principal}
}

// wait holds the response open and answers. It keeps nothing of the request's body.
func (x *exchange) wait(conversation uuid.UUID, w waiting) {
	if x.modern || x.r.Header.Get(headerSession) == "" {
		conversation = uuid.Nil // ids of requests are not unique there, and none is ever cancelled by id
	}
	x.msg = message{
		id:   cloneRaw(x.msg.id),
		meta: meta{progressToken: cloneRaw(x.msg.meta.progressToken), logLevel: strings.Clone(x.msg.meta.logLevel)},
	}
	x.w.Header().Set(headerCall, w.id.String())
	x.spanCall(w.id, w.attached)
	ended, err := x.await(conversation, w)
	if asked, ok := errors.AsType[*askedError](err); ok {
		x.answerAsked(w, asked.questions)
		return
	}
	switch {
	case err == nil:
		x.deliver(&ended, w)
	case errors.Is(err, errGone):
		x.left(err)
	case errors.Is(err, errDropped):
		x.abandon()
	case errors.Is(err, errDrain):
		x.answerPending(w)
	case errors.Is(err, errTask):
		x.answerTask(w)
	case errors.Is(err, errBudget):
		x.spent(w, x.answerPending)
	case errors.Is(err, errReply):
		x.spent(w, x.answerLate)
	default:
		x.Logger.Error("wait for call", "agent", x.agent.Name, "call_id", w.id, "error", err)
		x.answerPending(w)
	}
}

func cloneRaw(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	return append(make([]byte, 0, len(raw)), raw...)
}

// spent looks once more when the time of a response is: the call may have moved on since.
func (x *exchange) spent(w waiting, answer func(waiting)) {
	now, err := x.Calls.Get(x.r.Context(), x.viewer(), w.id)
	switch {
	case err != nil:
		x.Logger.Warn("get call", "agent", x.agent.Name, "call_id", w.id, "error", err)
	case now.Status.Final():
		x.deliver(&now, w)
		return
	default:
		w.status = now.Status
	}
	answer(w)
}

func (x *exchange) answerPending(w waiting) {
	status := w.running()
	text := pending(w.id, status, w.deadline, x.reviewing(w.id, status), w.gated)
	if w.alone && status == call.Parked {
		text += nobodyDecides
	}
	x.say(text, callMeta(w.id, status, codePending, nil, w.attached))
}

// reviewing is until when a reviewer decides about a question of a call; zero: none is known.
func (x *exchange) reviewing(id uuid.UUID, status call.Status) time.Time {
	if status != call.Executing {
		return time.Time{}
	}
	until, err := x.Calls.Reviewing(x.r.Context(), x.viewer(), id)
	if err != nil {
		x.Logger.Warn("look for questions under review", "agent", x.agent.Name, "call_id", id, "error", err)
	}
	return until
}

// say answers with an error result in our own words.
func (x *exchange) say(text string, meta []byte) {
	x.reply(toolError(text, meta, x.modern))
}

// abandon ends a response that its client no longer wants, without an answer.
func (x *exchange) abandon() {
	switch {
	case x.streaming:
	case x.stream:
		if err := x.beginStream(); err != nil {
			x.left(err)
		}
	default:
		x.w.WriteHeader(http.StatusNoContent)
	}
}

// deliver answers with a call's outcome, and says so when it was sent.
func (x *exchange) deliver(c *call.Call, w waiting) {
	if c.Status == call.Invalid && x.codes() {
		x.fail(invalidArguments(c))
		return
	}
	x.spanEnded(c)
	told := x.tellOutcome(c, w, x.modern)
	member := `,"result":`
	if told.fault {
		member = `,"error":`
	}
	if err := x.answer(told.status, member, told.pieces); err != nil {
		x.left(err)
		return
	}
	if !w.gated && !w.attached && !w.keyed {
		return
	}
	if err := x.flush(); err != nil {
		x.left(err)
		return
	}
	x.markDelivered(c)
}

func (x *exchange) markDelivered(c *call.Call) {
	// A client that closes as soon as it has its answer has it: only a failed write counts as not delivered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), deliveryTimeout)
	defer cancel()
	if err := x.Calls.Delivered(ctx, c.ID); err != nil {
		x.Logger.Error("mark call delivered", "agent", x.agent.Name, "call_id", c.ID, "error", err)
	}
}

const deliveryTimeout = 30 * time.Second

// outcome is what became of a call, as its client is told.
type outcome struct {
	fault  bool // a JSON-RPC error, not a result
	status int  // HTTP's
	pieces [][]byte
}

// tellOutcome says what became of a call.
func (x *exchange) tellOutcome(c *call.Call, w waiting, typed bool) outcome {
	if c.Failure == tool.JSONRPCError && len(c.Result) > 0 {
		return outcome{fault: true, status: x.faultStatus(c.Result), pieces: [][]byte{c.Result}}
	}
	var meta []byte
	if w.gated || w.attached {
		meta = callMeta(c.ID, c.Status, c.Code, c, w.attached)
	}
	if (c.Status == call.Succeeded || c.Failure == tool.ToolError) && len(c.Result) > 0 {
		pieces, err := dress(told(c), answering(c, meta), typed)
		if err == nil {
			return outcome{status: http.StatusOK, pieces: pieces}
		}
		x.Logger.Error("pass result on", "agent", x.agent.Name, "call_id", c.ID, "error", err)
	}
	text := toolError(c.TellEdits()+c.Tell(), callMeta(c.ID, c.Status, c.Code, c, w.attached), typed)
	return outcome{status: http.StatusOK, pieces: [][]byte{text}}
}

// faultStatus is the HTTP status of a skill server's error: what it lacks of the client, the client is to notice.
func (x *exchange) faultStatus(raw json.RawMessage) int {
	var fault struct {
		Code int64 `json:"code"`
	}
	if json.Unmarshal(raw, &fault) == nil && fault.Code == mcp.CodeMissingRequiredClientCapabilities && x.modern {
		return x.httpStatus(fault.Code)
	}
	return http.StatusOK
}
