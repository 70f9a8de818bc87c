package conversations

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

// The statuses of conversations in the API.
const (
	loopIdle    = "idle"
	loopWorking = "working"
	loopWaiting = "waiting"
	loopEnded   = "ended"
)

// Loop is the state of a conversation that Holdpoint runs.
type Loop struct {
	Status       string                `json:"status" enum:"idle,working,waiting,ended" doc:"idle: waits for a message; working: the model or its calls are running; waiting: for calls to end."`
	Code         *string               `json:"code" doc:"Why it ended: closed, turn_limit, token_limit, cost_limit, time_limit; null while it is open."`
	Stopping     bool                  `json:"stopping" doc:"It was cancelled, and the current work has not ended yet."`
	LastSeq      int64                 `json:"last_seq" doc:"The number of its last entry; 0: no entries."`
	OpenCalls    int                   `json:"open_calls" doc:"The number of open calls of its last reply."`
	Turns        int                   `json:"turns" doc:"The number of model requests."`
	InputTokens  int64                 `json:"input_tokens"`
	OutputTokens int64                 `json:"output_tokens"`
	Cost         float64               `json:"cost" doc:"In the currency of the model's prices; 0 if it has none."`
	ForkedFrom   *uuid.UUID            `json:"forked_from" format:"uuid" doc:"The conversation that it was forked from."`
	Pending      []ConversationMessage `json:"pending" doc:"Messages that wait for the current work; null in lists."`
}

// newLoop returns null for a conversation that its client runs.
func newLoop(c converse.Conversation, there bool) *Loop {
	if !there {
		return nil
	}
	status := loopWorking
	switch c.Status {
	case converse.Idle:
		status = loopIdle
	case converse.Waiting:
		status = loopWaiting
	case converse.Ended:
		status = loopEnded
	case converse.Due, converse.Queued, converse.Running:
	}
	return &Loop{
		Status: status, Code: rest.OrNull(c.Code), Stopping: c.Stopping, LastSeq: c.Seq, OpenCalls: c.OpenCalls, Turns: c.Turns,
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, Cost: c.Cost, ForkedFrom: rest.IDOrNull(c.ForkedFrom),
	}
}

// withPending is newLoop with the pending messages.
func withPending(c *converse.Conversation) *Loop {
	l := newLoop(*c, true)
	l.Pending = make([]ConversationMessage, len(c.Pending))
	for i := range c.Pending {
		l.Pending[i] = newConversationMessage(&c.Pending[i])
	}
	return l
}

// ConversationMessage is a message to an agent.
type ConversationMessage struct {
	ID     uuid.UUID     `json:"id" format:"uuid"`
	Text   string        `json:"text"`
	Files  []MessageFile `json:"files" nullable:"false" doc:"The files of the message."`
	CallID *uuid.UUID    `json:"call_id" format:"uuid" doc:"The call of the tool ask that sent it."`
}

// MessageFile is one that came with a message.
type MessageFile struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type" doc:"The declared media type."`
	Size      int64  `json:"size" doc:"Bytes."`
}

func newConversationMessage(m *converse.Message) ConversationMessage {
	view := ConversationMessage{ID: m.ID, Text: m.Text, Files: []MessageFile{}, CallID: rest.IDOrNull(m.Asked)}
	for _, f := range m.Files {
		view.Files = append(view.Files, MessageFile(f))
	}
	return view
}

// ConversationEntry is one element of a conversation: the member of its kind is there, the others are not.
type ConversationEntry struct {
	Seq       int64                `json:"seq" doc:"From 1, without gaps."`
	Kind      string               `json:"kind" enum:"user,assistant,tools,call,notice"`
	At        time.Time            `json:"at"`
	User      *ConversationMessage `json:"user,omitempty" doc:"A message to the model."`
	Assistant *ConversationReply   `json:"assistant,omitempty" doc:"A reply of the model."`
	Tools     *ConversationResults `json:"tools,omitempty" doc:"The results of the calls that the model got."`
	Call      *ConversationCall    `json:"call,omitempty" doc:"The state of a call."`
	Notice    *ConversationNotice  `json:"notice,omitempty" doc:"Another event."`
}

// ConversationReply is an answer of the model.
type ConversationReply struct {
	Text  string      `json:"text"`
	Calls []ReplyCall `json:"calls" nullable:"false" doc:"The calls that the model requests. None: the reply is an answer."`
	Stop  string      `json:"stop" doc:"Why the model stopped: end, tool_calls, max_tokens, refusal."`
	Usage ReplyUsage  `json:"usage"`
	Cost  float64     `json:"cost"`
	Model string      `json:"model" doc:"The model that answered, which may differ from the requested one."`
}

// ReplyUsage counts tokens, as the model's provider does.
type ReplyUsage struct {
	InputTokens       int64 `json:"input_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens" doc:"The part of the input tokens that was read from a cache."`
	OutputTokens      int64 `json:"output_tokens"`
	Estimated         bool  `json:"estimated" doc:"The provider reported no usage; estimated at four bytes a token."`
}

// ReplyCall is a call that the model wants made.
type ReplyCall struct {
	ModelID   string     `json:"model_id" doc:"The model's id for the call."`
	CallID    *uuid.UUID `json:"call_id" format:"uuid" doc:"Null if no call was made."`
	Name      string     `json:"name" doc:"The tool's name as the model wrote it."`
	Arguments string     `json:"arguments" doc:"As the model wrote them; may not be JSON."`
	Refused   *string    `json:"refused" doc:"Why no call was made."`
}

// ConversationResults are the results of calls that the model got.
type ConversationResults struct {
	Results []ReplyResult `json:"results" nullable:"false"`
}

// ReplyResult is the result of one call that the model got.
type ReplyResult struct {
	ModelID string     `json:"model_id"`
	CallID  *uuid.UUID `json:"call_id" format:"uuid"`
	IsError bool       `json:"is_error"`
	Text    string     `json:"text"`
	Images  int        `json:"images" doc:"The number of images of the result that the model got."`
}

// ConversationCall is the state of a call.
type ConversationCall struct {
	ID     uuid.UUID `json:"id" format:"uuid"`
	Tool   string    `json:"tool" doc:"The agent's name for the tool."`
	Status string    `json:"status" doc:"The status of the call."`
	Code   *string   `json:"code"`
}

// ConversationNotice describes another event.
type ConversationNotice struct {
	Code string  `json:"code" doc:"closed, turn_limit, token_limit, cost_limit, time_limit; stopped, model_failed, too_long, refused, cut, no_model, blocked."`
	Text string  `json:"text"`
	By   *string `json:"by" doc:"The person who caused it."`
}

// entryViews returns a function that adds names.
func (h *Handlers) entryViews(ctx context.Context, entries ...converse.Entry) (func(converse.Entry) ConversationEntry, error) {
	var people []uuid.UUID
	for i := range entries {
		if n := entries[i].Notice; n != nil {
			people = append(people, n.By)
		}
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	return func(e converse.Entry) ConversationEntry {
		view := ConversationEntry{Seq: e.Seq, Kind: string(e.Kind), At: e.At.UTC()}
		switch {
		case e.User != nil:
			m := newConversationMessage(e.User)
			view.User = &m
		case e.Assistant != nil:
			view.Assistant = newConversationReply(e.Assistant)
		case e.Tools != nil:
			view.Tools = &ConversationResults{Results: make([]ReplyResult, len(e.Tools.Results))}
			for i, r := range e.Tools.Results {
				view.Tools.Results[i] = ReplyResult{r.ModelID, rest.IDOrNull(r.CallID), r.IsError, r.Text, len(r.Images)}
			}
		case e.Call != nil:
			view.Call = &ConversationCall{e.Call.ID, e.Call.Tool, e.Call.Status, rest.OrNull(e.Call.Code)}
		case e.Notice != nil:
			view.Notice = &ConversationNotice{e.Notice.Code, e.Notice.Text, rest.OrNull(names.NameOf(e.Notice.By))}
		}
		return view
	}, nil
}

func newConversationReply(r *converse.Reply) *ConversationReply {
	view := &ConversationReply{
		Text: r.Text(), Calls: []ReplyCall{}, Stop: string(r.Stop), Usage: ReplyUsage(r.Usage), Cost: r.Cost, Model: r.Model,
	}
	n := 0
	for _, p := range r.Parts {
		if p.Call == nil || n == len(r.Calls) {
			continue
		}
		made := r.Calls[n]
		n++
		view.Calls = append(view.Calls, ReplyCall{made.ModelID, rest.IDOrNull(made.ID), made.Name, p.Call.Arguments, rest.OrNull(made.Refused)})
	}
	return view
}
