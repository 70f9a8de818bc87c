package call

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

// waiter gets a finished call, or nil: look for yourself. Who listens also gets
// what happens on the way.
type waiter struct {
	ch     chan *Call
	news   chan struct{} // nil: does not listen
	events []Event       // under the hub's lock
}

// maxEvents bounds the events that a waiter has not heard yet.
const maxEvents = 64

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

// listen is add for one who wants to hear what happens on the way.
func (h *hub) listen(id uuid.UUID) *waiter {
	w := h.add(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	w.news = make(chan struct{}, 1)
	return w
}

// tell reports whether anybody here listens to the call.
func (h *hub) tell(e Event) (heard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters[e.CallID] {
		if w.news == nil {
			continue
		}
		heard = true
		w.hear(e)
		select {
		case w.news <- struct{}{}:
		default: // it was told already
		}
	}
	return heard
}

// hear adds an event. Of progress only the last counts, and who does not listen for long misses the oldest.
func (w *waiter) hear(e Event) {
	if n := len(w.events); n >= maxEvents/2 && e.Kind == EventProgress && w.events[n-1].Kind == EventProgress {
		w.events = w.events[:n-1]
	}
	if len(w.events) == maxEvents {
		w.events = w.events[1:]
	}
	w.events = append(w.events, e)
}

func (h *hub) heard(w *waiter) []Event {
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
		SELECT call_id FROM call_connections WHERE call_id = ANY($1) AND ended_at IS NULL AND deadline <= (SELECT holdpoint_now())
		UNION ALL
		SELECT call_id FROM call_questions WHERE call_id = ANY($1) AND ended_at IS NULL`, ids)
	if err != nil {
		return fmt.Errorf("poll calls: %w", err)
	}
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { s.hub.wake(id, nil); return nil }); err != nil {
		return fmt.Errorf("poll calls: %w", err)
	}
	return nil
}
