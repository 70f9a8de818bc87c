package converse

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// hub knows who in this process follows which conversation. Losing a notice loses nothing but time.
type hub struct {
	mu        sync.Mutex
	followers map[uuid.UUID]map[chan struct{}]struct{}
	news      map[*News]struct{}
}

func newHub() *hub {
	return &hub{followers: map[uuid.UUID]map[chan struct{}]struct{}{}, news: map[*News]struct{}{}}
}

func (h *hub) follow(id uuid.UUID) chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.followers[id] == nil {
		h.followers[id] = map[chan struct{}]struct{}{}
	}
	h.followers[id][ch] = struct{}{}
	return ch
}

func (h *hub) leave(id uuid.UUID, ch chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers[id], ch)
	if len(h.followers[id]) == 0 {
		delete(h.followers, id)
	}
}

func (h *hub) tell(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.followers[id] {
		signal(ch)
	}
	for n := range h.news {
		n.add(id)
	}
}

func (h *hub) tellAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.followers {
		for ch := range all {
			signal(ch)
		}
	}
	for n := range h.news {
		n.addAll()
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // it was told already
	}
}

// turns are those that this process runs.
type turns struct {
	mu   sync.Mutex
	open map[uuid.UUID]*running
}

// running is one of them.
type running struct {
	step   int64
	cancel context.CancelFunc // breaks the turn off
	halt   context.CancelFunc // breaks off its request to the model, and nothing else: the turn has to tell how it ended
	over   chan struct{}
}

func newTurns() *turns { return &turns{open: map[uuid.UUID]*running{}} }

// errStale: a turn of a later step runs here. The job of an earlier one, which another process left behind, has nothing more to do.
var errStale = errors.New("a later turn is under way")

// enter waits until no other turn of the conversation runs here: one of an earlier step that still does has nothing more to
// say, and is broken off. Errors: errStale, or that ctx ended first.
func (t *turns) enter(ctx context.Context, id uuid.UUID, step int64, cancel, halt context.CancelFunc) error {
	for {
		t.mu.Lock()
		other := t.open[id]
		if other == nil {
			t.open[id] = &running{step, cancel, halt, make(chan struct{})}
		}
		t.mu.Unlock()
		switch {
		case other == nil:
			return nil
		case other.step >= step:
			return errStale
		}
		other.cancel()
		select {
		case <-other.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *turns) leave(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.open[id].over)
	delete(t.open, id)
}

func (t *turns) has(id uuid.UUID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id] != nil
}

func (t *turns) ids() []uuid.UUID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.open))
}

func (t *turns) halt(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.open[id]; r != nil {
		r.halt()
	}
}
