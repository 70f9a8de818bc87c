package converse

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// Status is where a conversation stands.
type Status string

// The statuses of conversations.
const (
	Idle    Status = "idle"    // it waits for a message
	Due     Status = "due"     // a turn is to begin
	Queued  Status = "queued"  // the turn has its job
	Running Status = "running" // the model is asked, or its calls are being made
	Waiting Status = "waiting" // for calls to end: nothing runs
	Ended   Status = "ended"
)

// The stable codes that say why a conversation ended, or why a run of turns did.
const (
	CodeClosed      = "closed"       // somebody closed it
	CodeTurnLimit   = "turn_limit"   // ended: it had as many turns as it may have
	CodeTokenLimit  = "token_limit"  // likewise
	CodeCostLimit   = "cost_limit"   //
	CodeTimeLimit   = "time_limit"   //
	CodeStopped     = "stopped"      // somebody stopped the run; it goes on with the next message
	CodeModelFailed = "model_failed" // the model could not be asked, or gave no answer; likewise
	CodeTooLong     = "too_long"     // it is longer than the model can take
	CodeRefused     = "refused"      // the model would not answer
	CodeCut         = "cut"          // the answer was longer than the model may give
	CodeNoModel     = "no_model"     // the agent has no model any more
	CodeBlocked     = "blocked"      // an operator blocked the person on whose behalf it is held
)

// Conversation is how one stands. What belongs to every conversation (name, catalog, end) is package agent's.
type Conversation struct {
	ID           uuid.UUID
	AgentID      uuid.UUID
	PrincipalID  uuid.UUID // uuid.Nil: none
	Status       Status
	Code         string // why it ended; empty: it did not
	Stopping     bool   // somebody stopped it, and it has still to end what is under way
	Seq          int64  // of its last entry
	OpenCalls    int    // that it waits for
	Turns        int    // requests to the model
	InputTokens  int64
	OutputTokens int64
	Cost         float64 // in the currency of the model's prices
	Depth        int     // how many agents asked each other before this one was
	ForkedFrom   uuid.UUID
	CreatedAt    time.Time
	Pending      []Message // that wait for the turn under way to end; only from [Service.Get]
}

// Kind is what an entry tells.
type Kind string

// The kinds of entries. Each has the member of [Entry] of that name.
const (
	KindUser      Kind = "user"      // a message
	KindAssistant Kind = "assistant" // a reply
	KindTools     Kind = "tools"     // what the model was told of the calls of its last reply
	KindCall      Kind = "call"      // how a call stands now; the model is not told
	KindNotice    Kind = "notice"    // what happened besides, in plain words; the model is not told
)

// Entry is one element of a conversation, numbered from 1 without gaps.
type Entry struct {
	Seq       int64
	Kind      Kind
	At        time.Time
	User      *Message
	Assistant *Reply
	Tools     *Results
	Call      *CallNews
	Notice    *Notice
}

// Message is what somebody said to the agent. It is hostile text.
type Message struct {
	ID    uuid.UUID `json:"id"`
	Text  string    `json:"text"`
	Files []File    `json:"files,omitempty"`
	// FilesOf is the call that the files are attached to.
	FilesOf uuid.UUID `json:"files_of,omitzero"`
	// By is the person who said it; uuid.Nil: the agent's client.
	By uuid.UUID `json:"by,omitzero"`
	// Asked is the call (of the tool ask) that it came by; uuid.Nil: none.
	Asked uuid.UUID `json:"asked,omitzero"`
	// Key is by which a repeat of it is known in this conversation; empty: none is.
	Key string `json:"key,omitempty"`
	// Trace is the span of the work on it, reserved when it was said; nil: it is part of no trace, or the work has begun.
	Trace []byte `json:"trace,omitempty"`
	// Pending: it waits for the turn under way. Only from [Service.Say] and [Service.SayOnce].
	Pending bool `json:"-"`
}

// File is one that came with a message.
type File struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
}

// Reply is a model's answer. It is hostile text.
type Reply struct {
	Parts []model.Part     `json:"parts"`
	Calls []MadeCall       `json:"calls,omitempty"` // one for each call among the parts, in their order
	Stop  model.StopReason `json:"stop"`
	Usage model.Usage      `json:"usage"`
	Cost  float64          `json:"cost,omitempty"`
	Model string           `json:"model,omitempty"`
}

// MadeCall is a tool call of a reply as a call.
type MadeCall struct {
	ModelID string          `json:"model_id"`          // by which the model knows it
	Name    string          `json:"name"`              // of the tool, as the model wrote it
	ID      uuid.UUID       `json:"id,omitzero"`       // uuid.Nil: no call was made; Refused says why
	Refused string          `json:"refused,omitempty"` // what the model is told instead
	Builtin json.RawMessage `json:"builtin,omitempty"` // the arguments of a built-in tool, which is no call
}

// Results are what the model is told of its calls.
type Results struct {
	Results []Result `json:"results"`
}

// Result is what the model is told of one call.
type Result struct {
	ModelID string    `json:"model_id"`
	CallID  uuid.UUID `json:"call_id,omitzero"`
	IsError bool      `json:"is_error,omitempty"`
	Text    string    `json:"text"`
	Images  []int     `json:"images,omitempty"` // which elements of the call's content are images for the model
}

// CallNews is how a call stands.
type CallNews struct {
	ID     uuid.UUID `json:"id"`
	Tool   string    `json:"tool"`   // as the agent calls it
	Status string    `json:"status"` // a call.Status
	Code   string    `json:"code,omitempty"`
}

// Notice says in plain words what happened.
type Notice struct {
	Code string    `json:"code"`
	Text string    `json:"text"`
	By   uuid.UUID `json:"by,omitzero"` // who did it; uuid.Nil: nobody in particular
}

// Viewer is who asks for a conversation. It is visible to its own agent with the same principal, and to people whose
// role says so, who cannot speak in it.
type Viewer struct {
	AgentID     uuid.UUID // uuid.Nil: a person who looks as reviewer or operator
	PrincipalID uuid.UUID
}

// Draft is what has come so far of the reply that the model is giving.
type Draft struct {
	Step int64 // drafts of another step are of another reply, or of another attempt at it
	Text string
	Seq  int64 // of the last entry before it
}

// Event is what [Service.Follow] tells: exactly one of its members is set.
type Event struct {
	Entry        *Entry
	Conversation *Conversation // it stands otherwise than before
	Draft        *Draft        // the whole text so far
}

// Context is what led to a call, for whoever decides about it. All of it is untrusted.
type Context struct {
	ConversationID uuid.UUID
	Message        *Message // the last one before the call; nil: there is none
	MessageAt      time.Time
	Reason         string // what the model said as it made the call; empty: nothing
	Seq            int64  // of the reply
}

// Errors of this package.
var (
	ErrNotFound = errors.New("conversation not found")
	// ErrEnded: the conversation takes no more messages.
	ErrEnded = errors.New("the conversation has ended")
	// ErrIdle: there is nothing to stop.
	ErrIdle = errors.New("the conversation is not at work")
	// ErrNoModel: the agent has no model to talk with.
	ErrNoModel = errors.New("the agent has no model")
	// ErrReadOnly: the viewer may look at the conversation, and not speak in it.
	ErrReadOnly = errors.New("only its own agent and principal may speak in a conversation")
	// ErrKeyReused: another message was said with the idempotency key.
	ErrKeyReused = errors.New("the idempotency key was used for another message")
	// ErrDepth: too many agents have asked each other.
	ErrDepth = errors.New("too many agents ask each other")
)

// InvalidError says what is wrong with what was given.
type InvalidError struct{ Field, Expected string }

func (e *InvalidError) Error() string { return e.Field + ": expected " + e.Expected }
