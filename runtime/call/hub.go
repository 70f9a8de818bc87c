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
)

// pollInterval is how often outcomes are looked for whose notification was missed.
const pollInterval = 5 * time.Second

// hub knows who in this process waits for which call. A waiter is nothing but a
// channel: losing it loses nothing.
type hub struct {
	mu      sync.Mutex
	waiters map[uuid.UUID][]*waiter
	poll    chan struct{}
}

// waiter gets a finished call, or nil: look for yourself.
type waiter struct {
	ch chan *Call
}

func newHub() *hub {
	return &hub{waiters: map[uuid.UUID][]*waiter{}, poll: make(chan struct{}, 1)}
}

func (h *hub) add(id uuid.UUID) *waiter {
	w := &waiter{ch: make(chan *Call, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[id] = append(h.waiters[id], w)
	return w
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

// wake tells all who wait for a call. done may be nil.
func (h *hub) wake(id uuid.UUID, done *Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters[id] {
		select {
		case w.ch <- done:
		default: // it was told already
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

func (h *hub) requestPoll() {
	select {
	case h.poll <- struct{}{}:
	default:
	}
}

// pollWaiting is the safety net under the notifications: one query for all who wait.
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
			s.Logger.Warn("looking for missed outcomes", "error", err)
		}
	}
}

func (s *Service) pollOnce(ctx context.Context) error {
	ids := s.hub.ids()
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.Pool.Query(ctx, `SELECT id FROM calls WHERE id = ANY($1) AND finished_at IS NOT NULL
		UNION ALL
		SELECT call_id FROM approvals WHERE call_id = ANY($1) AND status = 'pending' AND deadline <= (SELECT holdpoint_now())
		UNION ALL
		SELECT call_id FROM call_connections WHERE call_id = ANY($1) AND ended_at IS NULL AND deadline <= (SELECT holdpoint_now())`, ids)
	if err != nil {
		return fmt.Errorf("poll calls: %w", err)
	}
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { s.hub.wake(id, nil); return nil }); err != nil {
		return fmt.Errorf("poll calls: %w", err)
	}
	return nil
}

// Wait returns when the call has reached its end, or ctx ends (then ctx's
// error). However many wait for one call, each gets its outcome. Whoever waits also
// sees to the deadline: an approval that is overdue expires without any job having run.
func (s *Service) Wait(ctx context.Context, id uuid.UUID) (Call, error) {
	w := s.hub.add(id)
	defer s.hub.remove(id, w)
	if s.flights.has(id) { // sent by this process, which will wake us: no need to look
		if done, err := s.await(ctx, w, &Call{ID: id, Status: Executing}); done != nil || err != nil {
			return value(done), err
		}
	}
	for {
		c, err := s.load(ctx, id)
		if err != nil && ctx.Err() != nil {
			return Call{}, ctx.Err()
		}
		if err != nil {
			if errors.Is(err, ErrNotFound) || !retryable(err) {
				return Call{}, err
			}
		} else if c.Status.Final() {
			return *c, nil
		}
		done, err := s.await(ctx, w, c)
		if err != nil {
			return Call{}, err
		}
		if done != nil {
			return *done, nil
		}
	}
}

func value(c *Call) Call {
	if c == nil {
		return Call{}
	}
	return *c
}

// await blocks until there may be news of the call: a wake-up, or its deadline. A
// database that is away (c is nil) is asked again soon.
func (s *Service) await(ctx context.Context, w *waiter, c *Call) (*Call, error) {
	var timer <-chan time.Time
	switch {
	case c == nil:
		t := time.NewTimer(retryDelay)
		defer t.Stop()
		timer = t.C
	case c.waitsForPeople():
		left, err := s.timeLeft(ctx, c)
		if err == nil {
			t := time.NewTimer(max(left, 0) + time.Millisecond)
			defer t.Stop()
			timer = t.C
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case done := <-w.ch:
		if done == nil && c != nil && c.waitsForPeople() {
			return nil, s.expireIfDue(ctx, c.ID)
		}
		return done, nil
	case <-timer:
		if c == nil {
			return nil, nil
		}
		return nil, s.expireIfDue(ctx, c.ID)
	}
}

// waitsForPeople reports whether the call has a deadline.
func (c *Call) waitsForPeople() bool { return c.Status == Parked || c.Status == NeedsConnection }

// timeLeft is how long a call may still wait for people.
func (s *Service) timeLeft(ctx context.Context, c *Call) (time.Duration, error) {
	if c.Status == NeedsConnection {
		return s.waitLeft(ctx, c.ID)
	}
	return approval.TimeLeft(ctx, s.Pool, c.ID)
}

// expireIfDue lets errors of the database pass: the next look will try again.
func (s *Service) expireIfDue(ctx context.Context, id uuid.UUID) error {
	if err := s.Expire(ctx, id); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Logger.Warn("expiring a call", "call", id, "error", err)
		if !pause(ctx, retryDelay) {
			return ctx.Err()
		}
	}
	return nil
}
