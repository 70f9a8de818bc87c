package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// DefaultAskTimeout is how long an agent may take to answer a client, unless its reply timeout is set.
const DefaultAskTimeout = 60 * time.Second

// Question is a client's question to the agent itself.
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

// askAgent submits a question to the agent itself and waits for its answer.
func (x *toolCall) askAgent(conversation *catalog.Conversation, entry *catalog.Entry, arguments json.RawMessage) {
	can, askable := x.readAbilities(conversation)
	x.can = can
	key := x.msg.Meta.IdempotencyKey
	var handle string // "" without a session: the conversation of a day is shared by all clients
	switch {
	case !x.modern && x.r.Header.Get(wire.HeaderSession) != "":
		handle = "session:" + conversation.ID.String()
	case x.msg.Meta.Conversation != "":
		handle = "conversation:" + conversation.ID.String()
	}
	ticket, err := x.Ask(context.WithoutCancel(x.r.Context()), Question{
		Agent: x.agent, Principal: x.principal, Conversation: conversation.ID, Handle: handle,
		Entry: entry, Arguments: arguments, IdempotencyKey: key, Depth: x.msg.Meta.Depth,
		Caller: x.newCaller(conversation, askable),
	})
	refused, invalid := (*file.AttachmentError)(nil), (*fault.InvalidError)(nil)
	switch {
	case errors.Is(err, call.ErrKeyReused):
		x.fail(keyReused())
	case errors.As(err, &refused):
		x.fail(invalidArgument(refused.Pointer, refused.Expected))
	case errors.As(err, &invalid):
		x.fail(invalidArgument("/"+invalid.Fields[0].Name, invalid.Fields[0].Expected))
	case errors.Is(err, ErrNoModel):
		x.replyText("This agent was not asked: it no longer has a model.", []byte(`"`+metaCall+`":{"code":"`+codeNoModel+`"}`))
	case errors.Is(err, ErrDepth):
		x.replyText("This agent was not asked: "+err.Error()+". Answer with what you know, or say that the agents ask each other in a circle.",
			[]byte(`"`+metaCall+`":{"code":"`+codeDepth+`"}`))
	case err != nil:
		x.failInternal("ask agent", err)
	default:
		x.waitForOutcome(conversation.ID, waiting{
			id: ticket.ID, status: ticket.Status, attached: ticket.Attached, keyed: key != "", task: can.Tasks, ask: true,
		})
	}
}

// addAskedConversation adds the conversation in which the agent answered to the result's _meta.
func addAskedConversation(c *call.Call, meta []byte) []byte {
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
	return rawjson.AppendString(append(meta, `,"`+wire.MetaPrefix+`asked_conversation":`...), said.Meta.Conversation)
}
