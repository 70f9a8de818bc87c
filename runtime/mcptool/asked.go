package mcptool

import (
	"context"
	"encoding/json"
	"maps"
	"sync"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds of the questions that are open at once.
const (
	maxOpen       = 8    // of one errand
	maxOpenOfPeer = 1000 // of one server
)

// asked are the errands that are on their way to one server, and what the server asks while it works
// on them, in the revisions before 2026-07-28, where questions are requests of its own.
type asked struct {
	tasks *tasks
	// send sends an answer, later a refusal.
	send  func(context.Context, []byte)
	later func([]byte)

	mu     sync.Mutex
	legacy bool            // the server's questions are requests of its own
	onWay  map[*errand]int // their exchanges under way
	open   map[string]*openQuestion
}

// openQuestion is one that is being answered.
type openQuestion struct {
	errand *errand
	cancel context.CancelFunc
}

func newAsked(tasks *tasks, send func(context.Context, []byte), later func([]byte)) *asked {
	return &asked{
		tasks: tasks, send: send, later: later,
		onWay: map[*errand]int{}, open: map[string]*openQuestion{},
	}
}

// leadsToQuestions tells the methods during which a server may ask, and say what is to be logged.
func leadsToQuestions(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "tasks/result":
		return true
	}
	return false
}

// begin notes that a request is on its way, until end is called.
func (a *asked) begin(r *request, agreed negotiated) (end func()) {
	e := r.errand
	if e == nil || !leadsToQuestions(r.method) {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.legacy = !agreed.modern()
	a.onWay[e]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.onWay[e]--; a.onWay[e] == 0 {
			delete(a.onWay, e)
		}
	}
}

// only is the errand that is on its way, if it is the only one.
func (a *asked) only() *errand {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.theOnly()
}

func (a *asked) theOnly() *errand {
	if len(a.onWay) != 1 {
		return nil
	}
	for e := range maps.Keys(a.onWay) {
		return e
	}
	return nil
}

// takes reports whether a message is about a question.
func (a *asked) takes(e envelope) bool {
	return isQuestion(e.method) && e.isCall() || e.method == "notifications/cancelled" && e.id == nil
}

// received acts on a message that takes accepted. about is the errand that the message is about; nil:
// the server did not say. A question lasts as long as ctx, and as long as its errand.
func (a *asked) received(ctx context.Context, about *errand, e envelope) {
	if !e.isCall() {
		a.withdraw(e.params)
		return
	}
	if refused := a.take(ctx, about, e); refused != nil {
		a.later(refused.refusal(e.id))
	}
}

// take begins to answer a question, or says why it is not answered.
func (a *asked) take(ctx context.Context, about *errand, e envelope) *notAnswered {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := string(e.id)
	if a.open[id] != nil { // heard twice
		return nil
	}
	about, refused := a.attribute(about, e.method)
	if refused != nil {
		return refused
	}
	open := 0
	for _, q := range a.open {
		if q.errand == about {
			open++
		}
	}
	if open >= maxOpen || len(a.open) >= maxOpenOfPeer {
		return &notAnswered{code: codeInternal, message: "too many questions at once"}
	}
	question := tool.Question{Method: e.method, Params: e.params}
	if refused := about.mayAsk(question); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancel(ctx)
	untie := context.AfterFunc(about.ctx, cancel)
	a.open[id] = &openQuestion{errand: about, cancel: func() { untie(); cancel() }}
	started := a.tasks.run(func() {
		a.answer(ctx, about, e.id, question)
		a.close(id)
	})
	if !started {
		a.open[id].cancel()
		delete(a.open, id)
	}
	return nil
}

// attribute finds the errand that a question is about. What the session's state may come to depend on
// is told only where the server says on whose behalf it asks: a server of files takes the roots of
// whoever answers for those of all.
func (a *asked) attribute(about *errand, method string) (*errand, *notAnswered) {
	switch {
	case !a.legacy && len(a.onWay) > 0:
		return nil, &notAnswered{code: codeMethodNotFound, message: "not offered by this client: " + plain(method, 64)}
	case about != nil:
		return about, nil
	case len(a.onWay) == 0:
		return nil, &notAnswered{code: codeInvalidRequest, message: "no call is on its way that this could be about"}
	case method == rootsMethod:
		return nil, &notAnswered{code: codeInvalidRequest, message: "several clients share this session: roots are told only on the stream of a call"}
	case len(a.onWay) > 1:
		return nil, &notAnswered{code: codeInvalidRequest, message: "several calls are on their way, and it cannot be told which one this is about"}
	}
	return a.theOnly(), nil
}

// answer has a question answered and sends the answer, if it is still wanted.
func (a *asked) answer(ctx context.Context, about *errand, id json.RawMessage, question tool.Question) {
	answer, refused := about.ask(ctx, question)
	switch {
	case ctx.Err() != nil:
	case refused != nil:
		a.send(ctx, refused.refusal(id))
	default:
		a.send(ctx, respond(id, answer))
	}
}

func (a *asked) close(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[id].cancel()
	delete(a.open, id)
}

// withdraw ends a question that the server does not want answered any more.
func (a *asked) withdraw(params json.RawMessage) {
	var id string
	err := eachMember(params, func(name string, value json.RawMessage) error {
		if name == "requestId" {
			id = string(value)
		}
		return nil
	})
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.open[id]; q != nil {
		q.cancel()
	}
}
