package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
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

// wait is one response that is held open for a call. The request's own goroutine blocks in Calls.Wait; one timer does
// everything else, so that a waiting client costs no second goroutine.
type wait struct {
	x       *toolCall
	key     waiterKey // of a session's request
	attends waiting
	began   time.Time
	ends    time.Time // of the wait budget, or of the reply timeout if that is sooner
	late    error     // errBudget or errReply, whichever ends first
	cancel  context.CancelCauseFunc

	mu    sync.Mutex // guards the response and the fields below
	timer *time.Timer
	held  bool // among the server's waiters
	over  bool

	lastAsked int       // the number of the last question that was sent on this response
	reviewing time.Time // until when a reviewer decides about a question; zero: none waits for that
	progress  wire.Progress
}

// waiting describes the call that a response waits for.
type waiting struct {
	id       uuid.UUID
	status   call.Status // when the wait began
	deadline time.Time   // of the approval; zero: none
	gated    bool
	attached bool
	keyed    bool // with an idempotency key
	alone    bool // no reviewer may decide it
	task     bool // its client can take a task
	ask      bool // a question to an agent, with a reply timeout
}

// isParked reports whether the call waits, or may wait, for a person.
func (w *waiting) isParked() bool {
	return !w.status.Final() && (w.gated || w.attached || w.status != call.Executing)
}

// awaitOutcome returns the call when it has ended, or why the wait ended before.
func (x *toolCall) awaitOutcome(conversation uuid.UUID, attends waiting) (*call.Call, error) {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	now := x.Now()
	w := &wait{x: x, attends: attends, began: now, ends: now.Add(x.waitBudget()), late: errBudget, cancel: cancel}
	switch limit := x.agent.ReplyLimit(); {
	case attends.ask:
		w.ends, w.late = now.Add(cmp.Or(limit, DefaultAskTimeout)), errReply
	case limit > 0 && (x.usesErrorCodes() || limit <= x.waitBudget()):
		w.ends, w.late = now.Add(limit), errReply
	}
	if conversation != uuid.Nil {
		w.key = waiterKey{conversation, string(x.msg.ID)}
	}
	defer w.endWait()
	w.beginWait()
	ended, err := x.Calls.Wait(ctx, attends.id, w.newListener())
	switch cause := context.Cause(ctx); {
	case x.r.Context().Err() != nil:
		return nil, errGone
	case errors.Is(cause, errDropped):
		return nil, cause // even if there is an outcome: the client dropped the request
	case err != nil && cause != nil:
		return nil, cause
	default:
		return ended, err
	}
}

func (x *toolCall) waitBudget() time.Duration {
	return cmp.Or(x.agent.WaitBudget, DefaultWaitBudget)
}

// beginWait arms the timer; a call that waits for a person becomes a stream at once.
func (w *wait) beginWait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.attends.status.Final():
	case w.attends.task && w.attends.isParked():
		w.cancel(errTask)
	case w.attends.isParked():
		w.holdOpen(w.began)
	default:
		w.timer = time.AfterFunc(min(w.x.Patience, w.ends.Sub(w.began)), w.onTimer)
	}
}

// onTimer sends a keepalive, or ends the wait at the budget's end.
func (w *wait) onTimer() {
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
		w.holdOpen(now)
	}
}

// holdOpen shows the client that the call is waited for, and sets the timer.
func (w *wait) holdOpen(now time.Time) {
	if !w.held {
		w.held = true
		w.x.waiters.addWait(w)
	}
	next := w.ends.Sub(now)
	if w.x.Stream {
		next = min(next, w.x.KeepAlive)
		if err := w.signOfLife(now); err != nil {
			w.cancel(errGone)
			return
		}
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(next, w.onTimer)
	} else {
		w.timer.Reset(next)
	}
}

func (w *wait) signOfLife(now time.Time) error {
	x, token := w.x, w.x.msg.Meta.ProgressToken
	var err error
	switch {
	case !x.IsStream:
		err = x.BeginStream()
	case token == nil || w.progress.IsServers:
		return x.WriteKeepalive()
	}
	if err != nil || token == nil {
		return err
	}
	text := waitingFor(w.attends.status, w.attends.deadline, now)
	if !w.reviewing.IsZero() {
		text = waitingForReview(w.reviewing)
	}
	if w.attends.alone {
		text += "; at present no reviewer may decide it"
	}
	return x.sendProgress(token, w.progress.Wait(now.Sub(w.began), text))
}

// endWait stops the timer: nothing else writes to the response from here on.
func (w *wait) endWait() {
	w.mu.Lock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	if w.held {
		w.x.waiters.removeWait(w)
	}
	w.cancel(nil)
}

// waiterKey names a request of a session: its conversation, and its id as written.
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

func (all *waiters) addWait(w *wait) {
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

func (all *waiters) removeWait(w *wait) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, w)
	if all.byKey[w.key] == w {
		delete(all.byKey, w.key)
	}
}

func (all *waiters) dropWait(key waiterKey) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	w, ok := all.byKey[key]
	if ok {
		w.cancel(errDropped)
	}
	return ok
}

func (all *waiters) drainWaits() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.draining = true
	for w := range all.open {
		w.cancel(errDrain)
	}
}

// newListener returns a listener with only the events that the response needs.
func (w *wait) newListener() call.Listener {
	x := w.x
	var l call.Listener
	if x.can.AnswersQuestions() {
		l.Asked = w.sendQuestions
	}
	if w.attends.isParked() {
		l.Reviewing = w.noteReview
	}
	if w.attends.task || x.Stream && (x.msg.Meta.ProgressToken != nil || x.wantsLog) {
		l.Event = w.relayEvent
	}
	return l
}

// noteReview takes the deadline of a reviewer's decision about a question, and tells the client when a review begins.
func (w *wait) noteReview(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begins := w.reviewing.IsZero() && !until.IsZero()
	if w.reviewing = until; begins {
		w.attends.status = call.Executing
	}
	if !begins || w.over || !w.x.Stream {
		return
	}
	if err := w.signOfLife(w.x.Now()); err != nil {
		w.cancel(errGone)
	}
}

// relayEvent relays progress and log messages of the skill's server to the client.
func (w *wait) relayEvent(e call.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x, token := w.x, w.x.msg.Meta.ProgressToken
	var err error
	switch {
	case w.over:
	case e.Kind == call.EventTask && w.attends.task:
		w.cancel(errTask)
	case e.Kind == call.EventProgress && token != nil && x.Stream:
		if params := w.progress.Relay(e.Params, maxReason); params != nil {
			if err = x.BeginStream(); err == nil {
				err = x.sendProgress(token, params)
			}
		}
	case e.Kind == call.EventLog && x.wantsLog:
		if err = x.BeginStream(); err == nil {
			err = x.WriteEvent([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":`), e.Params, []byte("}"))
		}
	}
	if err != nil {
		w.cancel(errGone)
	}
}
