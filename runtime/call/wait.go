package call

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// Listener has callbacks for [Service.Wait], which calls one at a time, and none after it has returned. Any may be nil.
type Listener struct {
	// Event receives events of the call.
	Event func(Event)
	// Asked receives the open questions whenever they may have changed. Its error ends the wait.
	Asked func([]Question) error
	// Reviewing receives the deadline of the question that waits for a reviewer, whenever it may have changed; zero: there
	// is none.
	Reviewing func(until time.Time)
}

// Wait returns the call once it has ended, or the error of ctx. Any number of callers may wait for a call. Wait also expires the call
// at its deadline. Thousands of calls may be waited for, so this and the functions above it on the stack keep no large values there.
func (s *Service) Wait(ctx context.Context, id uuid.UUID, l Listener) (*Call, error) {
	w := s.hub.add(id, l.Event != nil)
	defer s.hub.remove(id, w)
	status := Executing
	read, woken := !s.flights.has(id), false // else this process sends it and wakes us
	for ; ; read, woken = true, true {
		if read {
			c, now, err := s.readWaiting(ctx, id, w, l, woken)
			if c != nil || err != nil {
				return c, err
			}
			status = now
		}
		if done, err := s.waitForNews(ctx, w, l, id, status); done != nil || err != nil {
			return done, err
		}
	}
}

// readWaiting returns a call if it has ended, else its status, after the listener has got events and questions. The status is empty if the
// database did not answer.
func (s *Service) readWaiting(ctx context.Context, id uuid.UUID, w *waiter, l Listener, woken bool) (*Call, Status, error) {
	if woken && !s.takeWakingPlace(ctx) {
		return nil, "", ctx.Err()
	}
	c, err := s.loadCall(ctx, id)
	if woken {
		<-s.waking
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil && (errors.Is(err, ErrNotFound) || !isRetryable(err)):
		return nil, "", err
	case err != nil:
		return nil, "", nil //nolint:nilerr // the caller tries again
	case c.Status.Final():
		s.forwardEvents(w, l)
		return c, c.Status, nil
	}
	return nil, c.Status, s.forwardQuestions(ctx, w, l, c)
}

// forwardEvents passes events to the listener.
func (s *Service) forwardEvents(w *waiter, l Listener) {
	for _, e := range s.hub.takeEvents(w) {
		l.Event(e)
	}
}

// forwardQuestions passes earlier events, and then open questions, to the listener.
func (s *Service) forwardQuestions(ctx context.Context, w *waiter, l Listener, c *Call) error {
	s.forwardEvents(w, l)
	if ctx.Err() != nil || l.Asked == nil && l.Reviewing == nil {
		return ctx.Err()
	}
	open, reviewing, err := s.openQuestions(ctx, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.Logger.Warn("reading questions", "call", c.ID, "error", err)
		return nil
	}
	if l.Reviewing != nil {
		l.Reviewing(reviewing)
	}
	if len(open) == 0 || l.Asked == nil {
		return nil
	}
	return l.Asked(open)
}

// waitForNews blocks until the waiter is woken or the call's deadline passes. If the status is empty, because the database did not answer,
// it returns after a short pause.
func (s *Service) waitForNews(ctx context.Context, w *waiter, l Listener, id uuid.UUID, status Status) (*Call, error) {
	var timer <-chan time.Time
	switch {
	case status == "":
		t := time.NewTimer(retryDelay)
		defer t.Stop()
		timer = t.C
	case status.waitsForPeople():
		left, err := s.timeLeft(ctx, id, status)
		if err == nil {
			t := time.NewTimer(max(left, 0) + time.Millisecond)
			defer t.Stop()
			timer = t.C
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.news:
			s.forwardEvents(w, l)
		case done := <-w.ch:
			s.forwardEvents(w, l)
			return done, nil // nil: the timer follows if it is overdue
		case <-timer:
			if status == "" {
				return nil, nil
			}
			return nil, s.expireIfDue(ctx, id)
		}
	}
}

// waitsForPeople reports whether a call with this status has a deadline.
func (s Status) waitsForPeople() bool { return s == Parked || s == NeedsConnection }

// timeLeft returns the time until the deadline of a call that waits for people, or approval.ErrNotFound if it no longer waits.
func (s *Service) timeLeft(ctx context.Context, id uuid.UUID, status Status) (time.Duration, error) {
	if status != NeedsConnection {
		return approval.TimeLeft(ctx, s.Pool, id)
	}
	var seconds float64
	err := s.Pool.QueryRow(ctx, `SELECT extract(epoch FROM deadline - holdpoint_now())::float8 FROM call_connections
		WHERE call_id = $1 AND ended_at IS NULL`, id).Scan(&seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, approval.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("read wait of call %s: %w", id, err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// takeWakingPlace reports whether a woken waiter may use the database. The waiters of thousands of calls may wake at once, and others need
// connections too. It reports false if ctx has ended.
func (s *Service) takeWakingPlace(ctx context.Context) bool {
	select {
	case s.waking <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// expireIfDue expires an overdue call. It logs errors of the database; the caller tries again.
func (s *Service) expireIfDue(ctx context.Context, id uuid.UUID) error {
	if !s.takeWakingPlace(ctx) {
		return ctx.Err()
	}
	err := s.Expire(ctx, id)
	<-s.waking
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Logger.Warn("expiring a call", "call", id, "error", err)
		if pause.For(ctx, retryDelay) != nil {
			return ctx.Err()
		}
	}
	return nil
}

// pollInterval is the interval of polls for missed notifications.
const pollInterval = 5 * time.Second

// hub has the waiters of calls in this process.
type hub struct {
	mu      sync.Mutex
	waiters map[uuid.UUID][]*waiter
	poll    chan struct{}
}

// waiter receives a finished call, or nil if it has to read the call itself. A listener also receives events.
type waiter struct {
	ch     chan *Call
	news   chan struct{} // nil: it is no listener
	events []Event       // under the hub's lock
	number int64         // of the last progress event, under the hub's lock
}

// maxEvents bounds the events that a listener has not taken yet.
const maxEvents = 64

func newHub() *hub {
	return &hub{waiters: map[uuid.UUID][]*waiter{}, poll: make(chan struct{}, 1)}
}

// add adds a waiter of a call. If listens is set, it receives events.
func (h *hub) add(id uuid.UUID, listens bool) *waiter {
	w := &waiter{ch: make(chan *Call, 1)}
	if listens {
		w.news = make(chan struct{}, 1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[id] = append(h.waiters[id], w)
	return w
}

// publish gives an event to the listeners of its call. It reports whether there are any.
func (h *hub) publish(e Event) (heard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters[e.CallID] {
		if w.news == nil {
			continue
		}
		heard = true
		w.addEvent(e)
		select {
		case w.news <- struct{}{}:
		default: // it is woken already
		}
	}
	return heard
}

// addEvent adds an event. It drops progress that a notification brought after later progress: MCP clients expect it to increase. A later progress replaces an earlier one once half of the places are used; then the oldest event is dropped.
func (w *waiter) addEvent(e Event) {
	if e.Kind == EventProgress && e.Number > 0 {
		if e.Number <= w.number {
			return
		}
		w.number = e.Number
	}
	if n := len(w.events); n >= maxEvents/2 && e.Kind == EventProgress && w.events[n-1].Kind == EventProgress {
		w.events = w.events[:n-1]
	}
	if len(w.events) == maxEvents {
		w.events = w.events[1:]
	}
	w.events = append(w.events, e)
}

func (h *hub) takeEvents(w *waiter) []Event {
	if w.news == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

func (h *hub) remove(id uuid.UUID, w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.waiters[id]
	for i := range list {
		if list[i] == w {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(h.waiters, id)
		return
	}
	h.waiters[id] = list
}

// wake wakes the waiters of a call. done may be nil.
func (h *hub) wake(id uuid.UUID, done *Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters[id] {
		select {
		case w.ch <- done:
		default: // it is woken already
		}
	}
}

func (h *hub) ids() []uuid.UUID {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(h.waiters))
	for id := range h.waiters {
		ids = append(ids, id)
	}
	return ids
}

// pollWaiting polls for missed notifications, with one query for all waiters.
func (s *Service) pollWaiting() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.running.Done():
			return
		case <-ticker.C:
		case <-s.hub.poll:
		}
		if err := s.pollOnce(s.running); err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("polling for missed outcomes", "error", err)
		}
	}
}

func (s *Service) pollOnce(ctx context.Context) error {
	ids := s.hub.ids()
	if len(ids) == 0 {
		return nil
	}
	rows, _ := s.Pool.Query(ctx, `SELECT id FROM calls WHERE id = ANY($1) AND (finished_at IS NOT NULL OR status = 'approved' AND gate_host IS NOT NULL)
		UNION ALL
		SELECT call_id FROM approvals WHERE call_id = ANY($1) AND status = 'pending' AND deadline <= (SELECT holdpoint_now())
		UNION ALL
		SELECT call_id FROM call_connections WHERE call_id = ANY($1) AND ended_at IS NULL AND deadline <= (SELECT holdpoint_now())
		UNION ALL
		SELECT call_id FROM call_questions WHERE call_id = ANY($1) AND ended_at IS NULL`, ids)
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { s.hub.wake(id, nil); return nil }); err != nil {
		return fmt.Errorf("poll calls: %w", err)
	}
	return nil
}
