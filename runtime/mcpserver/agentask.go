package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
)

// DefaultAskTimeout is how long an agent may take to answer a client that asks it, where its reply timeout says nothing else.
const DefaultAskTimeout = 60 * time.Second

// Question is what a client asks an agent itself.
type Question struct {
	Agent        *agent.Agent
	Principal    uuid.UUID
	Conversation uuid.UUID // the client's own, in which it asks
	// Handle names the context that its questions share: its session, or the conversation that it named. Empty: none is shared.
	Handle         string
	Entry          *catalog.Entry
	Arguments      json.RawMessage
	IdempotencyKey string
	Depth          int // how many agents have asked each other before
	Caller         call.Caller
}

// Errors of [Config]'s Ask.
var (
	// ErrDepth: too many agents have asked each other in a row.
	ErrDepth = errors.New("too many agents ask each other")
	// ErrNoModel: the agent had a model when the client's tools were listed, and has none any more.
	ErrNoModel = errors.New("the agent has no model")
)

// RefusedError says why what was asked is no question that an agent takes.
type RefusedError struct{ Field, Expected string }

func (e *RefusedError) Error() string { return e.Field + ": expected " + e.Expected }

// askAgent hands a question in, and stays for its answer as long as it may take.
func (x *exchange) askAgent(conversation *catalog.Conversation, entry *catalog.Entry, arguments json.RawMessage) {
	can, askable := x.able(conversation)
	x.can = can
	key := x.msg.meta.idempotencyKey
	ticket, err := x.Ask(context.WithoutCancel(x.r.Context()), Question{
		Agent: x.agent, Principal: x.principal, Conversation: conversation.ID, Handle: x.handle(conversation),
		Entry: entry, Arguments: arguments, IdempotencyKey: key, Depth: x.msg.meta.depth,
		Caller: x.meets(conversation, askable),
	})
	refused, invalid := (*file.AttachmentError)(nil), (*RefusedError)(nil)
	switch {
	case errors.Is(err, call.ErrKeyReused):
		x.fail(keyReused())
	case errors.As(err, &refused):
		x.fail(notAttached(refused))
	case errors.As(err, &invalid):
		where := "/params/arguments/" + invalid.Field
		x.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: where + ": expected " + invalid.Expected, Data: marshal(map[string]string{"pointer": where}),
		})
	case errors.Is(err, ErrNoModel):
		x.say("This agent was not asked: it has no model any more.", []byte(`"`+metaCall+`":{"code":"`+codeNoModel+`"}`))
	case errors.Is(err, ErrDepth):
		x.say("This agent was not asked: "+err.Error()+". Answer with what you know, or say that the agents ask each other in a circle.",
			[]byte(`"`+metaCall+`":{"code":"`+codeDepth+`"}`))
	case err != nil:
		x.internal("ask agent", err)
	default:
		x.wait(conversation.ID, waiting{
			id: ticket.ID, status: ticket.Status, attached: ticket.Attached, keyed: key != "", task: can.tasks, ask: true,
		})
	}
}

// handle names the context that this client's questions share.
func (x *exchange) handle(conversation *catalog.Conversation) string {
	switch {
	case !x.modern && x.r.Header.Get(headerSession) != "":
		return "session:" + conversation.ID.String()
	case x.msg.meta.conversation != "":
		return "conversation:" + conversation.ID.String()
	}
	return "" // what every client of a day has in common is no context
}

// answering adds to a result of ours in which conversation the agent answered.
func answering(c *call.Call, meta []byte) []byte {
	var said struct {
		Meta struct {
			Conversation string `json:"dev.holdpoint/asked_conversation"`
		} `json:"_meta"`
	}
	if c.SkillID != agent.BuiltinSkill || json.Unmarshal(c.Result, &said) != nil || said.Meta.Conversation == "" {
		return meta
	}
	if meta == nil {
		meta = callMeta(c.ID, c.Status, c.Code, c, false)
	}
	return appendString(append(meta, `,"`+metaOurs+`asked_conversation":`...), said.Meta.Conversation)
}
