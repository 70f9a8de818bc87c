package mcptool

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

const elicitMethod = "elicitation/create"

// maxOpen bounds the questions of one server that are open at once.
const maxOpen = 8

// asked are the questions that one server asks while it works on calls, in the
// revisions before 2026-07-28, where they are requests of its own. nil: the
// server may not ask.
type asked struct {
	elicit func(context.Context, Elicitation) (ElicitationAnswer, error)
	log    *slog.Logger
	tasks  *tasks
	// send sends an answer, later a refusal, which may be dropped.
	send  func(context.Context, []byte)
	later func([]byte)

	mu     sync.Mutex
	calls  int             // on their way
	during context.Context // ends when none is
	stop   context.CancelFunc
	open   map[string]context.CancelFunc // by the request's id
}

func newAsked(config Config, server tool.Server, tasks *tasks, send func(context.Context, []byte), later func([]byte)) *asked {
	if config.Elicit == nil {
		return nil
	}
	return &asked{
		elicit: func(ctx context.Context, question Elicitation) (ElicitationAnswer, error) {
			return config.Elicit(ctx, server.SkillID, question)
		},
		log: config.Logger.With("skill", server.Skill), tasks: tasks, send: send, later: later,
		open: map[string]context.CancelFunc{},
	}
}

// begin notes that a request is on its way, until end is called. Only calls
// before 2026-07-28 count: nothing else may lead to questions.
func (a *asked) begin(r *request, agreed negotiated) (end func()) {
	if a == nil || r.method != "tools/call" || agreed.modern() {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls++; a.calls == 1 {
		a.during, a.stop = context.WithCancel(context.Background())
	}
	return a.end
}

func (a *asked) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls--; a.calls == 0 {
		a.stop()
	}
}

// takes reports whether a message is about a question.
func (a *asked) takes(e envelope) bool {
	return a != nil && (e.method == elicitMethod && e.isCall() || e.method == "notifications/cancelled" && e.id == nil)
}

// received acts on a message that takes accepted. A question lasts as long as
// ctx, and as long as a call is on its way.
func (a *asked) received(ctx context.Context, e envelope) {
	if e.method != elicitMethod {
		a.withdraw(e.params)
		return
	}
	question, err := readElicitation(e.params)
	if err != nil {
		a.later(refusal(e.id, -32602, plain(err.Error(), 300)))
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := string(e.id)
	switch {
	case a.open[id] != nil: // heard twice
		return
	case a.calls == 0:
		a.later(refusal(e.id, -32600, "no call is on its way that this could be about"))
		return
	case len(a.open) == maxOpen:
		a.later(refusal(e.id, -32603, "too many questions at once"))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	untie := context.AfterFunc(a.during, cancel)
	a.open[id] = func() { untie(); cancel() }
	started := a.tasks.run(func() {
		a.answer(ctx, e.id, question)
		a.close(id)
	})
	if !started {
		a.open[id]()
		delete(a.open, id)
	}
}

// answer has a question answered and sends the answer, if it is still wanted.
func (a *asked) answer(ctx context.Context, id json.RawMessage, question Elicitation) {
	answer, err := a.elicit(ctx, question)
	if ctx.Err() != nil {
		return
	}
	var text json.RawMessage
	if err == nil {
		text, err = question.result(answer)
	}
	if err != nil {
		a.log.Warn("server's question not answered", "error", err)
		a.send(ctx, refusal(id, -32603, "there was no answer to be had"))
		return
	}
	a.send(ctx, respond(id, text))
}

func (a *asked) close(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[id]()
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
	if cancel := a.open[id]; cancel != nil {
		cancel()
	}
}
