package converse

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// Status is the state of a conversation.
type Status string

// The statuses of conversations.
const (
	Idle    Status = "idle"    // waits for a message
	Due     Status = "due"     // the next turn has no job yet
	Queued  Status = "queued"  // the turn has a job
	Running Status = "running" // the model is asked, or calls are being made
	Waiting Status = "waiting" // waits for calls to end; nothing runs
	Ended   Status = "ended"
)

// The stable codes that say why a conversation or a run of turns ended.
const (
	CodeClosed      = "closed"       // a person or client ended it
	CodeTurnLimit   = "turn_limit"   // the conversation reached this limit and ended
	CodeTokenLimit  = "token_limit"  // the same
	CodeCostLimit   = "cost_limit"   // the same
	CodeTimeLimit   = "time_limit"   // the same
	CodeStopped     = "stopped"      // a person stopped the run; it continues with the next message
	CodeModelFailed = "model_failed" // the model gave no answer; it continues with the next message
	CodeTooLong     = "too_long"     // the conversation is too long for the model
	CodeRefused     = "refused"      // the model refused to answer
	CodeCut         = "cut"          // the answer reached the model's limit
	CodeNoModel     = "no_model"     // the agent's model was removed
	CodeBlocked     = "blocked"      // an operator blocked the principal
)

// Conversation is the state of a conversation. Package catalog owns the parts that every conversation has.
type Conversation struct {
	ID           uuid.UUID
	AgentID      uuid.UUID
	PrincipalID  uuid.UUID // uuid.Nil: none
	Status       Status
	Code         string // why it ended; empty: it is open
	Stopping     bool   // stopped; work in progress has yet to end
	Seq          int64  // of the last entry
	OpenCalls    int    // calls that it waits for
	Turns        int    // requests to the model
	InputTokens  int64
	OutputTokens int64
	Cost         float64 // in the currency of the model's prices
	Depth        int     // agents that asked each other before this one
	ForkedFrom   uuid.UUID
	CreatedAt    time.Time
	Pending      []Message // messages in the inbox; set by [Service.Get] only
}

// Kind is the kind of an entry.
type Kind string

// The kinds of entries. Each has a field of [Entry] with its name.
const (
	KindUser      Kind = "user"      // a message
	KindAssistant Kind = "assistant" // a reply
	KindTools     Kind = "tools"     // the results of the last reply's calls, for the model
	KindCall      Kind = "call"      // the status of a call; not for the model
	KindNotice    Kind = "notice"    // another event, in plain words; not for the model
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

// Message is a message to the agent. It is hostile text.
type Message struct {
	ID    uuid.UUID `json:"id"`
	Text  string    `json:"text"`
	Files []File    `json:"files,omitempty"`
	// FilesOf is the call that has the files.
	FilesOf uuid.UUID `json:"files_of,omitzero"`
	// By is the person who sent it, or uuid.Nil for the agent's client.
	By uuid.UUID `json:"by,omitzero"`
	// Asked is the call of the tool ask that sent it, or uuid.Nil.
	Asked uuid.UUID `json:"asked,omitzero"`
	// Key is its idempotency key in this conversation, or empty.
	Key string `json:"key,omitempty"`
	// Trace is the span reserved for its run. Nil: it has no trace, or its run has begun.
	Trace []byte `json:"trace,omitempty"`
	// Pending reports whether it waits in the inbox. Set by [Service.Say] and [Service.SayOnce] only.
	Pending bool `json:"-"`
}

// File is a file that came with a message.
type File struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
}

// Reply is a model's reply. It is hostile text.
type Reply struct {
	Parts []model.Part     `json:"parts"`
	Calls []MadeCall       `json:"calls,omitempty"` // for each call among the parts, in order
	Stop  model.StopReason `json:"stop"`
	Usage model.Usage      `json:"usage"`
	Cost  float64          `json:"cost,omitempty"`
	Model string           `json:"model,omitempty"`
}

// MadeCall is a tool call in a reply.
type MadeCall struct {
	ModelID string          `json:"model_id"`          // the model's id for it
	Name    string          `json:"name"`              // the tool's name, as the model wrote it
	ID      uuid.UUID       `json:"id,omitzero"`       // uuid.Nil: no call was made, for the reason in Refused
	Refused string          `json:"refused,omitempty"` // the text for the model instead of a result
	Builtin json.RawMessage `json:"builtin,omitempty"` // arguments of a built-in tool, which makes no call
}

// Results are the results of a reply's calls, as given to the model.
type Results struct {
	Results []Result `json:"results"`
}

// Result is the result of one call, as given to the model.
type Result struct {
	ModelID string    `json:"model_id"`
	CallID  uuid.UUID `json:"call_id,omitzero"`
	IsError bool      `json:"is_error,omitempty"`
	Text    string    `json:"text"`
	Images  []int     `json:"images,omitempty"` // elements of the call's content that are images for the model
}

// CallNews is the status of a call.
type CallNews struct {
	ID     uuid.UUID `json:"id"`
	Tool   string    `json:"tool"`   // the agent's name for it
	Status string    `json:"status"` // a call.Status
	Code   string    `json:"code,omitempty"`
}

// Notice is an event in plain words.
type Notice struct {
	Code string    `json:"code"`
	Text string    `json:"text"`
	By   uuid.UUID `json:"by,omitzero"` // the person, or uuid.Nil
}

// Viewer identifies a reader. A conversation's agent may read it and speak in it for the same principal. People may read it if
// their role permits it.
type Viewer struct {
	AgentID     uuid.UUID // uuid.Nil: a reviewer or operator
	PrincipalID uuid.UUID
}

// Draft is the text so far of the present reply.
type Draft struct {
	Step int64 // of the turn; another step has another reply
	Text string
	Seq  int64 // of the entry before it
}

// Event is an event of [Service.Follow]. One field is set; an empty event ends a batch.
type Event struct {
	Entry        *Entry
	Conversation *Conversation // its state has changed
	Draft        *Draft        // the whole text so far
}

// Context has the message and the reply that led to a call, for its reviewer. All of it is untrusted.
type Context struct {
	ConversationID uuid.UUID
	Message        *Message // the last message before the call; nil: none
	MessageAt      time.Time
	Reason         string // the reply's text; may be empty
	Seq            int64  // of the reply
}

// Errors of this package.
var (
	ErrNotFound = fault.NotFound("conversation not found")
	// ErrEnded: the conversation has ended and takes no messages.
	ErrEnded = errors.New("the conversation has ended")
	// ErrIdle: there is nothing to stop.
	ErrIdle = errors.New("the conversation is idle")
	// ErrNoModel: the agent has no model.
	ErrNoModel = errors.New("the agent has no model")
	// ErrReadOnly: the viewer may not speak in the conversation.
	ErrReadOnly = errors.New("only the agent and principal of a conversation may speak in it")
	// ErrKeyReused: the idempotency key belongs to a message with another text.
	ErrKeyReused = errors.New("the idempotency key was used for another message")
	// ErrDepth: too many agents ask each other in a chain.
	ErrDepth = errors.New("too many agents ask each other in a chain")
)
