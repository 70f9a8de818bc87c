package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// makeAskable declares that the client answers questions and wants progress and logs.
func makeAskable(sub call.Submission) call.Submission {
	sub.Caller = call.Caller{Capabilities: json.RawMessage(`{"elicitation":{}}`), LogLevel: "info", Progress: true}
	return sub
}

var form = tool.Question{Method: "elicitation/create", Params: json.RawMessage(`{"message":"sure?"}`)}

// askQuestion makes the server ask a question and answer the call with the client's answer.
func (w *world) askQuestion() {
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		if r.Caller.Ask == nil {
			return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":{"asked":false}}`)}, nil
		}
		answers, err := r.Caller.Ask(context.Background(), []tool.Question{form})
		if err != nil {
			text, _ := json.Marshal(err.Error())
			answers = []json.RawMessage{text}
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":` + string(answers[0]) + `}`)}, nil
	})
}

// The call, the question and the answer may each pass through another process.
func TestQuestionsReachAnyProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.askQuestion()
	other := w.start()
	ticket, err := w.calls.Submit(t.Context(), makeAskable(w.newSubmission("files__write", `{"n":1}`)))
	check(t, err)
	asked := make(chan []call.Question, 100)
	ended := make(chan *call.Call, 2)
	for _, process := range []*call.Service{w.calls, other} {
		go func() {
			c, err := process.Wait(t.Context(), ticket.ID, call.Listener{Asked: func(open []call.Question) error {
				asked <- open
				return nil
			}})
			if err != nil {
				t.Error(err)
			}
			ended <- c
		}()
	}
	check(t, w.decide(ticket.ID, true))
	for range 2 {
		open := <-asked
		if len(open) != 1 || open[0].Method != form.Method || string(open[0].Params) != string(form.Params) || open[0].Number != 1 || open[0].Key != "question_1" {
			t.Fatalf("asked %+v", open)
		}
	}
	own := call.Viewer{AgentID: w.agent.ID}
	for name, viewer := range map[string]call.Viewer{
		"another agent": {AgentID: uuid.New()}, "another principal": {AgentID: w.agent.ID, PrincipalID: uuid.New()},
	} {
		if err := other.Answer(t.Context(), viewer, ticket.ID, 1, call.Answer{Result: json.RawMessage(`{}`)}); !errors.Is(err, call.ErrNotFound) {
			t.Errorf("%s answers: %v", name, err)
		}
		if _, err := other.Questions(t.Context(), viewer, ticket.ID); !errors.Is(err, call.ErrNotFound) {
			t.Errorf("%s sees the question: %v", name, err)
		}
	}
	answer := `{"action":"accept","content":{"n":9007199254740993}}`
	check(t, other.Answer(t.Context(), own, ticket.ID, 1, call.Answer{Result: json.RawMessage(answer)}))
	if err := other.Answer(t.Context(), own, ticket.ID, 1, call.Answer{Result: json.RawMessage(`{}`)}); !errors.Is(err, call.ErrNotFound) {
		t.Errorf("a second answer: %v", err)
	}
	check(t, decideQuestion(t, other, w.reviewer, ticket.ID, 1, true))
	for range 2 {
		if c := <-ended; c.Status != call.Succeeded || !strings.Contains(string(c.Result), answer) {
			t.Errorf("%s %s", c.Status, c.Result)
		}
	}
	if open, err := w.calls.Questions(t.Context(), own, ticket.ID); err != nil || len(open) != 0 {
		t.Errorf("questions are still open: %v %v", open, err)
	}
	if got := w.db.Actions(ticket.ID); !strings.Contains(got, "call.asked call.answered question.approved") {
		t.Errorf("audited %s", got)
	}
}

func TestWhoCannotBeAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.askQuestion()
	ticket := w.submit("open__write", `{"n":1}`)
	if c := w.waitForEnd(ticket.ID); !strings.Contains(string(c.Result), `"asked":false`) {
		t.Errorf("%s", c.Result)
	}
}

// If a client answers with an error, the server gets an error without the client's text.
func TestRefusedQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.askQuestion()
	ticket, err := w.calls.Submit(t.Context(), makeAskable(w.newSubmission("open__write", `{"n":1}`)))
	check(t, err)
	asked := make(chan struct{}, 10)
	var answered sync.WaitGroup
	defer answered.Wait()
	defer close(asked)
	answered.Go(func() {
		if _, ok := <-asked; !ok {
			return
		}
		err := w.calls.Answer(t.Context(), call.Viewer{AgentID: w.agent.ID}, ticket.ID, 1, call.Answer{Error: json.RawMessage(`{"code":-1,"message":"no"}`)})
		if err != nil {
			t.Error(err)
		}
	})
	c, err := w.calls.Wait(t.Context(), ticket.ID, call.Listener{Asked: func([]call.Question) error {
		asked <- struct{}{}
		return nil
	}})
	check(t, err)
	if !strings.Contains(string(c.Result), "the client answered with an error") {
		t.Errorf("%s", c.Result)
	}
}

// A notification may bring progress after later progress was delivered within the process.
func TestLateProgressIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	finish := make(chan struct{})
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		<-finish
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	ticket, err := w.calls.Submit(t.Context(), makeAskable(w.newSubmission("open__write", `{"n":1}`)))
	check(t, err)
	notify := func(number int) {
		w.calls.HandleEvent(fmt.Sprintf(`{"call":%q,"kind":"progress","params":{"progress":%d},"number":%[2]d}`, ticket.ID, number))
	}
	var told []int64
	go func() { // until the listener is there
		for {
			notify(2)
			select {
			case <-finish:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	_, err = w.calls.Wait(t.Context(), ticket.ID, call.Listener{Event: func(e call.Event) {
		told = append(told, e.Number)
		switch e.Number {
		case 2:
			notify(1)
			notify(3)
		case 3:
			close(finish)
		}
	}})
	check(t, err)
	if !slices.Equal(told, []int64{2, 3}) {
		t.Errorf("progress %v arrived, want 2 and 3", told)
	}
}

// All processes see a call's events, and its progress in order.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.start()
	for name, process := range map[string]*call.Service{"here": w.calls, "elsewhere": other} {
		heard := make(chan struct{})
		w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
			for n := 1; ; n++ {
				r.Caller.Progress(json.RawMessage(fmt.Sprintf(`{"progress":%d}`, n)))
				select {
				case <-heard:
					return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
		ticket, err := w.calls.Submit(t.Context(), makeAskable(w.newSubmission("open__write", `{"n":1}`)))
		check(t, err)
		last := 0
		_, err = process.Wait(t.Context(), ticket.ID, call.Listener{Event: func(e call.Event) {
			var told struct{ Progress int }
			check(t, json.Unmarshal(e.Params, &told))
			if e.Kind != call.EventProgress || e.CallID != ticket.ID || told.Progress <= last {
				t.Errorf("%s: %s %s after %d", name, e.Kind, e.Params, last)
			}
			if last == 0 {
				close(heard)
			}
			last = told.Progress
		}})
		check(t, err)
		if last == 0 {
			t.Errorf("%s: no event arrived", name)
		}
	}
}

// Any process can cancel a task that another process sent.
func TestRequestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.start()
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		<-r.Caller.Cancel
		return tool.Result{}, &tool.Failure{Kind: tool.JSONRPCError, Message: "cancelled", RPC: json.RawMessage(`{"code":-1,"message":"cancelled"}`)}
	})
	own := call.Viewer{AgentID: w.agent.ID}
	for name, process := range map[string]*call.Service{"here": w.calls, "elsewhere": other} {
		sub := w.newSubmission("open__write", `{"n":1}`)
		sub.Awaited = true
		ticket, err := w.calls.Submit(t.Context(), sub)
		check(t, err)
		if err := process.RequestCancel(t.Context(), call.Viewer{AgentID: uuid.New()}, ticket.ID); !errors.Is(err, call.ErrNotFound) {
			t.Errorf("%s: another agent: %v", name, err)
		}
		check(t, process.RequestCancel(t.Context(), own, ticket.ID))
		if c := w.waitForEnd(ticket.ID); c.Status != call.Failed {
			t.Errorf("%s: %s", name, c.Status)
		}
	}
	// An approved call is not cancelled.
	ends := make(chan struct{})
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		select {
		case <-r.Caller.Cancel:
			t.Error("the server of an approved call is asked to cancel it")
		case <-ends:
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	approved := w.submit("files__write", `{"n":2}`)
	check(t, w.decide(approved.ID, true))
	for {
		c, err := w.calls.Get(t.Context(), own, approved.ID)
		check(t, err)
		if c.Status == call.Executing {
			break
		}
	}
	check(t, w.calls.RequestCancel(t.Context(), own, approved.ID))
	close(ends)
	if c := w.waitForEnd(approved.ID); c.Status != call.Succeeded {
		t.Errorf("an approved call: %s", c.Status)
	}
	parked := w.submit("files__write", `{"n":1}`)
	check(t, w.calls.RequestCancel(t.Context(), own, parked.ID))
	if c := w.waitForEnd(parked.ID); c.Status != call.Cancelled {
		t.Errorf("a parked call: %s", c.Status)
	}
	check(t, w.calls.RequestCancel(t.Context(), own, parked.ID)) // has no effect: the call has ended
}

// Questions that a server asks together are open together, each with its own key. All answers return together.
func TestAskedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan []json.RawMessage, 1)
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		answers, err := r.Caller.Ask(t.Context(), []tool.Question{
			{Key: "user_name", Method: form.Method}, {Key: "b\u0000d", Method: form.Method}, {Key: "user_name", Method: form.Method},
		})
		if err != nil {
			t.Error(err)
		}
		got <- answers
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	ticket, err := w.calls.Submit(t.Context(), makeAskable(w.newSubmission("open__write", `{"n":1}`)))
	check(t, err)
	own := call.Viewer{AgentID: w.agent.ID}
	var keys []string
	_, err = w.calls.Wait(t.Context(), ticket.ID, call.Listener{Asked: func(open []call.Question) error {
		if keys == nil {
			for _, q := range open {
				keys = append(keys, q.Key)
			}
		}
		q := open[len(open)-1] // from the last to the first
		return w.calls.Answer(t.Context(), own, ticket.ID, q.Number, call.Answer{Result: fmt.Appendf(nil, `{"n":%d}`, q.Number)})
	}})
	check(t, err)
	if strings.Join(keys, " ") != "user_name question_2 question_3" {
		t.Errorf("asked as %v", keys)
	}
	if answers := fmt.Sprintf("%s", <-got); answers != `[{"n":1} {"n":2} {"n":3}]` {
		t.Errorf("answered %s", answers)
	}
}

// Answers given in advance are used, except for gated calls.
func TestAnswersInAdvance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		answers, err := r.Caller.Ask(t.Context(), []tool.Question{{Key: "name", Method: form.Method}})
		if err != nil {
			return tool.Result{}, &tool.Failure{Kind: tool.ProtocolFailure, Message: err.Error()}
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":` + string(answers[0]) + `}`)}, nil
	})
	for name, gated := range map[string]bool{"open__write": false, "files__write": true} {
		sub := makeAskable(w.newSubmission(name, `{"n":1}`))
		sub.Advance = map[string]json.RawMessage{"name": json.RawMessage(`{"action":"accept"}`)}
		ticket, err := w.calls.Submit(t.Context(), sub)
		check(t, err)
		if gated {
			check(t, w.decide(ticket.ID, true))
		}
		asked := false
		c, err := w.calls.Wait(t.Context(), ticket.ID, call.Listener{Asked: func(open []call.Question) error {
			asked = true
			return w.calls.Answer(t.Context(), call.Viewer{AgentID: w.agent.ID}, ticket.ID, open[0].Number, call.Answer{Result: json.RawMessage(`{"action":"cancel"}`)})
		}})
		check(t, err)
		if asked != gated || strings.Contains(string(c.Result), "accept") == gated {
			t.Errorf("%s: asked %t, %s", name, asked, c.Result)
		}
	}
}

// Each answer given in advance is used once, even if a server asks several questions at once.
func TestAnswersInAdvanceToCrowd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const crowd = 64
	advance := map[string]json.RawMessage{}
	for i := range crowd {
		advance[fmt.Sprint("key", i)] = json.RawMessage(`{}`)
	}
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() {
				if _, err := r.Caller.Ask(t.Context(), []tool.Question{{Key: fmt.Sprint("key", i), Method: form.Method}}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	sub := makeAskable(w.newSubmission("open__write", `{"n":1}`))
	sub.Advance = advance
	ticket, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Errorf("%s: %s", c.Status, c.Message)
	}
}

// A server's own request has no key, so no answer can be given in advance.
func TestNoAnswerInAdvanceWithoutKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan string, 1)
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		answers, err := r.Caller.Ask(t.Context(), []tool.Question{{Method: form.Method}})
		got <- fmt.Sprintf("%s %v", answers, err)
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	sub := makeAskable(w.newSubmission("open__write", `{"n":1}`))
	sub.Advance = map[string]json.RawMessage{"": json.RawMessage(`{"action":"accept"}`)}
	ticket, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	_, err = w.calls.Wait(t.Context(), ticket.ID, call.Listener{Asked: func(open []call.Question) error {
		return w.calls.Answer(t.Context(), call.Viewer{AgentID: w.agent.ID}, ticket.ID, open[0].Number, call.Answer{Result: json.RawMessage(`{"action":"decline"}`)})
	}})
	check(t, err)
	if answered := <-got; answered != `[{"action":"decline"}] <nil>` {
		t.Errorf("answered %s", answered)
	}
}
