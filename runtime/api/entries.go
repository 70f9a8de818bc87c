package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/converse"
)

// The statuses of conversations, as clients are told them.
const (
	loopIdle    = "idle"
	loopWorking = "working"
	loopWaiting = "waiting"
	loopEnded   = "ended"
)

// Loop is how a conversation stands that Holdpoint runs itself.
type Loop struct {
	Status       string                `json:"status" enum:"idle,working,waiting,ended" doc:"idle: it waits for a message; working: the model is asked, or about to be, or its calls are being made; waiting: for calls to end."`
	Code         *string               `json:"code" doc:"Why it ended: closed, turn_limit, token_limit, cost_limit, time_limit; null while it has not."`
	Stopping     bool                  `json:"stopping" doc:"It was cancelled, and what is under way has still to end."`
	LastSeq      int64                 `json:"last_seq" doc:"The number of its last entry; 0: there is none."`
	OpenCalls    int                   `json:"open_calls" doc:"How many calls of its last reply have not ended."`
	Turns        int                   `json:"turns" doc:"How often the model was asked."`
	InputTokens  int64                 `json:"input_tokens"`
	OutputTokens int64                 `json:"output_tokens"`
	Cost         float64               `json:"cost" doc:"In the currency of the model's prices; 0 where it has none."`
	ForkedFrom   *uuid.UUID            `json:"forked_from" format:"uuid" doc:"The conversation that it is a fork of."`
	Pending      []ConversationMessage `json:"pending" doc:"Messages that wait for what is under way; null in lists."`
}

// newLoop is null for a conversation that its client runs.
func newLoop(c converse.Conversation, there bool) *Loop {
	if !there {
		return nil
	}
	l := &Loop{
		Status: loopStatus(c.Status), Code: orNull(c.Code), Stopping: c.Stopping, LastSeq: c.Seq, OpenCalls: c.OpenCalls, Turns: c.Turns,
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, Cost: c.Cost, ForkedFrom: idOrNull(c.ForkedFrom),
	}
	return l
}

func loopStatus(s converse.Status) string {
	switch s {
	case converse.Idle:
		return loopIdle
	case converse.Waiting:
		return loopWaiting
	case converse.Ended:
		return loopEnded
	case converse.Due, converse.Queued, converse.Running:
	}
	return loopWorking
}

// withPending is newLoop, whole.
func withPending(c *converse.Conversation) *Loop {
	l := newLoop(*c, true)
	l.Pending = make([]ConversationMessage, len(c.Pending))
	for i := range c.Pending {
		l.Pending[i] = newConversationMessage(&c.Pending[i])
	}
	return l
}

// ConversationMessage is what was said to an agent.
type ConversationMessage struct {
	ID     uuid.UUID     `json:"id" format:"uuid"`
	Text   string        `json:"text"`
	Files  []MessageFile `json:"files" nullable:"false" doc:"That came with it."`
	CallID *uuid.UUID    `json:"call_id" format:"uuid" doc:"The call of the tool ask that it came by."`
}

// MessageFile is one that came with a message.
type MessageFile struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type" doc:"As it was declared."`
	Size      int64  `json:"size" doc:"Bytes."`
}

func newConversationMessage(m *converse.Message) ConversationMessage {
	view := ConversationMessage{ID: m.ID, Text: m.Text, Files: []MessageFile{}, CallID: idOrNull(m.Asked)}
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
	User      *ConversationMessage `json:"user,omitempty" doc:"A message."`
	Assistant *ConversationReply   `json:"assistant,omitempty" doc:"A reply of the model."`
	Tools     *ConversationResults `json:"tools,omitempty" doc:"What the model was told of the calls of its last reply."`
	Call      *ConversationCall    `json:"call,omitempty" doc:"How a call stands now."`
	Notice    *ConversationNotice  `json:"notice,omitempty" doc:"What happened besides."`
}

// ConversationReply is an answer of the model.
type ConversationReply struct {
	Text  string      `json:"text"`
	Calls []ReplyCall `json:"calls" nullable:"false" doc:"That the model wants made. None: the reply is an answer."`
	Stop  string      `json:"stop" doc:"Why the model stopped: end, tool_calls, max_tokens, refusal."`
	Usage ReplyUsage  `json:"usage"`
	Cost  float64     `json:"cost"`
	Model string      `json:"model" doc:"That answered, which may be another than was asked."`
}

// ReplyUsage counts tokens, as the model's provider does.
type ReplyUsage struct {
	InputTokens       int64 `json:"input_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens" doc:"Of the input tokens, those that were read from a cache."`
	OutputTokens      int64 `json:"output_tokens"`
	Estimated         bool  `json:"estimated" doc:"The provider said nothing, and these are of an estimate: four bytes a token."`
}

// ReplyCall is a call that the model wants made.
type ReplyCall struct {
	ModelID   string     `json:"model_id" doc:"By which the model knows it."`
	CallID    *uuid.UUID `json:"call_id" format:"uuid" doc:"Null where no call was made of it."`
	Name      string     `json:"name" doc:"Of the tool, as the model wrote it."`
	Arguments string     `json:"arguments" doc:"As the model wrote them, which need not be JSON."`
	Refused   *string    `json:"refused" doc:"Why no call was made of it."`
}

// ConversationResults are what the model was told of its calls.
type ConversationResults struct {
	Results []ReplyResult `json:"results" nullable:"false"`
}

// ReplyResult is what the model was told of one call.
type ReplyResult struct {
	ModelID string     `json:"model_id"`
	CallID  *uuid.UUID `json:"call_id" format:"uuid"`
	IsError bool       `json:"is_error"`
	Text    string     `json:"text"`
	Images  int        `json:"images" doc:"How many images of the call's result the model was shown."`
}

// ConversationCall is how a call stands.
type ConversationCall struct {
	ID     uuid.UUID `json:"id" format:"uuid"`
	Tool   string    `json:"tool" doc:"As the agent calls it."`
	Status string    `json:"status" doc:"As calls have it."`
	Code   *string   `json:"code"`
}

// ConversationNotice says in plain words what happened.
type ConversationNotice struct {
	Code string  `json:"code" doc:"closed, turn_limit, token_limit, cost_limit, time_limit; stopped, model_failed, too_long, refused, cut, no_model, blocked."`
	Text string  `json:"text"`
	By   *string `json:"by" doc:"The person who did it."`
}

// entryViews adds names.
func (a *API) entryViews(ctx context.Context, entries ...converse.Entry) (func(converse.Entry) ConversationEntry, error) {
	var people []uuid.UUID
	for i := range entries {
		if n := entries[i].Notice; n != nil {
			people = append(people, n.By)
		}
	}
	names, err := a.people(ctx, people...)
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
			view.Tools = newConversationResults(e.Tools)
		case e.Call != nil:
			view.Call = &ConversationCall{e.Call.ID, e.Call.Tool, e.Call.Status, orNull(e.Call.Code)}
		case e.Notice != nil:
			view.Notice = &ConversationNotice{e.Notice.Code, e.Notice.Text, orNull(names.of(e.Notice.By))}
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
		view.Calls = append(view.Calls, ReplyCall{made.ModelID, idOrNull(made.ID), made.Name, p.Call.Arguments, orNull(made.Refused)})
	}
	return view
}

func newConversationResults(r *converse.Results) *ConversationResults {
	view := &ConversationResults{Results: make([]ReplyResult, len(r.Results))}
	for i, one := range r.Results {
		view.Results[i] = ReplyResult{one.ModelID, idOrNull(one.CallID), one.IsError, one.Text, len(one.Images)}
	}
	return view
}
