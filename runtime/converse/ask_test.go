package converse_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// newQuestion returns a question from a client in its own session.
func (w *world) newQuestion(handle, message, key string) converse.Question {
	w.t.Helper()
	c, err := w.registry.Catalog.StartConversation(w.t.Context(), w.agent, uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	entry, there := c.Catalog.Lookup(catalog.AskTool)
	if !there {
		w.t.Fatal("an agent with a model cannot be asked")
	}
	raw, err := json.Marshal(map[string]string{"message": message})
	check(w.t, err)
	return converse.Question{Agent: w.agent, Conversation: c.ID, Handle: handle, Entry: entry, Arguments: raw, IdempotencyKey: key}
}

func (w *world) askAgent(q converse.Question) call.Ticket {
	w.t.Helper()
	ticket, err := w.converse.Ask(w.t.Context(), q)
	check(w.t, err)
	return ticket
}

// waitForAnswer waits until a question has ended.
func (w *world) waitForAnswer(ticket call.Ticket) (text string, c *call.Call) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	c, err := w.calls.Wait(ctx, ticket.ID, call.Listener{})
	if err != nil {
		list, _, _ := w.registry.Catalog.Conversations(w.t.Context(), catalog.ConversationFilter{AgentID: w.agent.ID}, 10)
		for _, found := range list {
			if now, err := w.converse.Get(w.t.Context(), w.newViewer(), found.ID); err == nil {
				w.t.Logf("%+v\n%s", now, w.transcript(found.ID))
			}
		}
		w.t.Fatal(err)
	}
	var result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	check(w.t, json.Unmarshal(c.Result, &result))
	if result.IsError != (c.Status == call.Failed) {
		w.t.Errorf("result %s of a call that is %s", c.Result, c.Status)
	}
	return result.Content[0].Text, c
}

// echoMessages answers with the messages so far.
func echoMessages(_ context.Context, r *model.Request, _ func(string)) (*model.Response, error) {
	var said []string
	for _, m := range r.Messages {
		if m.Role == model.User {
			said = append(said, joinTexts(m.Parts))
		}
	}
	return answerText("You said: " + strings.Join(said, "; ")), nil
}

func TestAskSharesContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = echoMessages
	for _, test := range []struct{ handle, message, want string }{
		{"session:1", "One", "You said: One"},
		{"session:1", "Two", "You said: One; Two"},
		{"session:2", "Three", "You said: Three"},
		{"", "Four", "You said: Four"},
		{"", "Five", "You said: Five"},
	} {
		if got, c := w.waitForAnswer(w.askAgent(w.newQuestion(test.handle, test.message, ""))); got != test.want || c.Status != call.Succeeded {
			t.Errorf("%s in %q: %q (%s), want %q", test.message, test.handle, got, c.Status, test.want)
		}
	}
}

func TestQuestionsOfOneContextAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = echoMessages
	var tickets []call.Ticket
	for _, message := range []string{"One", "Two", "Three"} {
		tickets = append(tickets, w.askAgent(w.newQuestion("session:1", message, "")))
	}
	for i, want := range []string{"One", "One; Two", "One; Two; Three"} {
		if got, _ := w.waitForAnswer(tickets[i]); got != "You said: "+want {
			t.Errorf("answer %d: %q", i+1, got)
		}
	}
}

func TestAskWithKeyIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = echoMessages
	for _, handle := range []string{"session:1", ""} {
		before := w.mind.countRequests()
		first := w.askAgent(w.newQuestion(handle, "Once", "key"+handle))
		again := w.askAgent(w.newQuestion(handle, "Once", "key"+handle))
		if first.ID != again.ID || !again.Attached {
			t.Errorf("with handle %q: %+v, then %+v", handle, first, again)
		}
		w.waitForAnswer(again)
		if n := w.mind.countRequests() - before; n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
		if _, err := w.converse.Ask(t.Context(), w.newQuestion(handle, "Other", "key"+handle)); !errors.Is(err, call.ErrKeyReused) {
			t.Errorf("another message with the key: %v", err)
		}
	}
}

// The context of a single question is closed with it.
func TestQuestionsLeaveNothingOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = echoMessages
	for _, key := range []string{"", "a", "a"} {
		w.waitForAnswer(w.askAgent(w.newQuestion("", "Once", key)))
	}
	_, err := w.converse.Ask(t.Context(), w.newQuestion("", "Twice", "a"))
	if !errors.Is(err, call.ErrKeyReused) {
		t.Error(err)
	}
	q := w.newQuestion("", "x", "")
	q.Arguments = json.RawMessage(`{"message":"x","more":1}`)
	w.askAgent(q)
	list, _, err := w.registry.Catalog.Conversations(t.Context(), catalog.ConversationFilter{AgentID: w.agent.ID}, 100)
	check(t, err)
	for _, c := range list {
		if _, err := w.converse.Get(t.Context(), w.newViewer(), c.ID); err == nil {
			w.waitForStatus(c.ID, converse.Ended)
		}
	}
}

// Calls of a question are gated. No process holds them while they wait for people.
func TestAskWaitsForPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("Written."))
	ticket := w.askAgent(w.newQuestion("session:1", "Write.", ""))
	waiting := w.waitForParked(1)
	other := w.start()
	w.stop()
	w.process = other
	t.Cleanup(other.stop)
	w.decideCall(waiting[0], true, "")
	if got, _ := w.waitForAnswer(ticket); got != "Written." {
		t.Errorf("answered %q", got)
	}
}

func TestAskFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = func(context.Context, *model.Request, func(string)) (*model.Response, error) {
		return nil, &model.Error{Status: 401, Message: "wrong key"}
	}
	got, c := w.waitForAnswer(w.askAgent(w.newQuestion("", "Hello", "")))
	if c.Status != call.Failed || !strings.Contains(got, "The model could not be asked") {
		t.Errorf("%s: %q", c.Status, got)
	}
	q := w.newQuestion("", "x", "")
	for _, arguments := range []string{`{}`, `{"message":""}`, `{"message":7}`, `{"message":"x","more":1}`} {
		q.Arguments = json.RawMessage(arguments)
		if ticket := w.askAgent(q); ticket.Status != call.Invalid {
			t.Errorf("%s is %s", arguments, ticket.Status)
		}
	}
	q = w.newQuestion("", "x", "")
	q.Depth = converse.DefaultMaxDepth
	if _, err := w.converse.Ask(t.Context(), q); !errors.Is(err, converse.ErrDepth) {
		t.Errorf("too deep: %v", err)
	}
}

func TestQuestionsAreCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("Hello."))
	first := w.askAgent(w.newQuestion("session:1", "Write.", ""))
	w.waitForParked(1)
	second := w.askAgent(w.newQuestion("session:1", "Never mind.", ""))
	third := w.askAgent(w.newQuestion("session:1", "Hello?", ""))
	viewer := call.Viewer{AgentID: w.agent.ID}
	check(t, w.calls.RequestCancel(t.Context(), viewer, second.ID))
	if got, _ := w.waitForAnswer(second); !strings.Contains(got, "cancelled before") {
		t.Errorf("the second: %q", got)
	}
	check(t, w.calls.RequestCancel(t.Context(), viewer, first.ID))
	if got, _ := w.waitForAnswer(first); !strings.Contains(got, "stopped") {
		t.Errorf("the first: %q", got)
	}
	if got, _ := w.waitForAnswer(third); got != "Hello." {
		t.Errorf("the third: %q", got)
	}
}

func TestEndAnswersWaitingQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`))
	first, second := w.askAgent(w.newQuestion("session:1", "Write.", "")), w.askAgent(w.newQuestion("session:1", "More.", ""))
	id := w.waitForParked(1)[0].Call.ConversationID
	check(t, w.converse.End(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), id))
	for _, ticket := range []call.Ticket{first, second} {
		if got, c := w.waitForAnswer(ticket); c.Status != call.Failed || !strings.Contains(got, "closed") {
			t.Errorf("%s: %q", c.Status, got)
		}
	}
	w.mind.think = echoMessages
	if got, _ := w.waitForAnswer(w.askAgent(w.newQuestion("session:1", "Anew", ""))); got != "You said: Anew" {
		t.Errorf("answered %q", got)
	}
}
