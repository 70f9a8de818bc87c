package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// Why a wait ended before its call did.
var (
	errBudget  = errors.New("the agent's wait budget is spent")
	errReply   = errors.New("the agent's reply timeout has passed")
	errDropped = errors.New("the client cancelled its request")
	errDrain   = errors.New("this process is stopping")
	errGone    = errors.New("the client left")
	errTask    = errors.New("the client can take a task")
)

// wait is one response that is held open for a call. The request's own goroutine
// sits in Calls.Wait; one timer does everything else, so that a waiting
// client costs no second goroutine.
type wait struct {
	x       *exchange
	key     waiterKey // of a session's request
	attends waiting
	began   time.Time
	ends    time.Time // of the wait budget, or of the reply timeout if that is sooner
	late    error     // which of both
	cancel  context.CancelCauseFunc

	mu    sync.Mutex // guards the response, and what follows
	timer *time.Timer
	held  bool // among the server's waiters
	over  bool

	lastAsked int       // the number of the last question that was sent on this response
	reviewing time.Time // until when a reviewer decides about a question; zero: none waits for that
	progress  progress
}

// waiting is what a response waits for.
type waiting struct {
	id       uuid.UUID
	status   call.Status // when the wait began
	deadline time.Time   // of the approval; zero: none
	gated    bool
	attached bool
	keyed    bool // with an idempotency key
	alone    bool // there is nobody who may decide about it
	task     bool // its client can take a task
	ask      bool // an agent is asked, whose answer may take only so long
}

// parked reports whether nothing is to be expected soon.
func (w *waiting) parked() bool {
	return !w.status.Final() && (w.gated || w.attached || w.status != call.Executing)
}

// await returns the call when it has ended, or why the wait did.
func (x *exchange) await(conversation uuid.UUID, attends waiting) (call.Call, error) {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	now := x.Now()
	w := &wait{x: x, attends: attends, began: now, ends: now.Add(x.waitBudget()), late: errBudget, cancel: cancel}
	switch limit := x.agent.ReplyTimeout; {
	case attends.ask:
		w.ends, w.late = now.Add(orDefault(limit, DefaultAskTimeout)), errReply
	case limit > 0 && (x.codes() || limit <= x.waitBudget()):
		w.ends, w.late = now.Add(limit), errReply
	}
	if conversation != uuid.Nil {
		w.key = waiterKey{conversation, string(x.msg.id)}
	}
	defer w.end()
	w.begin()
	ended, err := x.Calls.Wait(ctx, attends.id, w.listener())
	switch cause := context.Cause(ctx); {
	case x.r.Context().Err() != nil:
		return call.Call{}, errGone
	case errors.Is(cause, errDropped):
		return call.Call{}, cause // even if there is an outcome: nobody wants it here
	case err != nil && cause != nil:
		return call.Call{}, cause
	default:
		return ended, err
	}
}

func (x *exchange) waitBudget() time.Duration {
	return orDefault(x.agent.WaitBudget, DefaultWaitBudget)
}

// begin arms the timer; a call that waits for a person becomes a stream at once.
func (w *wait) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.attends.status.Final():
	case w.attends.task && w.attends.parked():
		w.cancel(errTask)
	case w.attends.parked():
		w.hold(w.began)
	default:
		w.timer = time.AfterFunc(min(w.x.Patience, w.ends.Sub(w.began)), w.tick)
	}
}

// tick is the timer's: a sign of life, or the end of the budget.
func (w *wait) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		if cause := recover(); cause != nil {
			w.cancel(fmt.Errorf("panic: %v", cause))
		}
	}()
	switch now := w.x.Now(); {
	case w.over:
	case w.attends.task:
		w.cancel(errTask)
	case !now.Before(w.ends):
		w.cancel(w.late)
	default:
		w.hold(now)
	}
}

// hold shows the client that it is waited for, and sets the next time to do so.
func (w *wait) hold(now time.Time) {
	if !w.held {
		w.held = true
		w.x.waiters.add(w)
	}
	next := w.ends.Sub(now)
	if w.x.stream {
		next = min(next, w.x.KeepAlive)
		if err := w.signOfLife(now); err != nil {
			w.cancel(errGone)
			return
		}
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(next, w.tick)
	} else {
		w.timer.Reset(next)
	}
}

func (w *wait) signOfLife(now time.Time) error {
	x, token := w.x, w.x.msg.meta.progressToken
	var err error
	switch {
	case !x.streaming:
		err = x.beginStream()
	case token == nil || w.progress.servers:
		return x.comment()
	}
	if err != nil || token == nil {
		return err
	}
	text := waitingFor(w.attends.status, w.attends.deadline, now)
	if !w.reviewing.IsZero() {
		text = waitingForReview(w.reviewing)
	}
	if w.attends.alone {
		text += "; nobody is known who may decide"
	}
	return x.sendProgress(token, w.progress.own(now.Sub(w.began), text))
}

// end takes the response back from the timer: nothing else writes to it from here on.
func (w *wait) end() {
	w.mu.Lock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	if w.held {
		w.x.waiters.remove(w)
	}
	w.cancel(nil)
}

// waiterKey names a request of a session: its conversation, and its id as it was written.
type waiterKey struct {
	conversation uuid.UUID
	request      string
}

// waiters are the responses that this process holds open.
type waiters struct {
	mu       sync.Mutex
	open     map[*wait]struct{}
	byKey    map[waiterKey]*wait
	draining bool
}

func newWaiters() *waiters {
	return &waiters{open: make(map[*wait]struct{}), byKey: make(map[waiterKey]*wait)}
}

func (all *waiters) add(w *wait) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[w] = struct{}{}
	if w.key.conversation != uuid.Nil {
		all.byKey[w.key] = w
	}
	if all.draining {
		w.cancel(errDrain)
	}
}

func (all *waiters) remove(w *wait) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, w)
	if all.byKey[w.key] == w {
		delete(all.byKey, w.key)
	}
}

func (all *waiters) drop(key waiterKey) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	w, ok := all.byKey[key]
	if ok {
		w.cancel(errDropped)
	}
	return ok
}

func (all *waiters) drain() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.draining = true
	for w := range all.open {
		w.cancel(errDrain)
	}
}
