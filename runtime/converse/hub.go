package converse

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// hub knows who in this process follows which conversation. Losing a notice loses nothing but time.
type hub struct {
	mu        sync.Mutex
	followers map[uuid.UUID]map[chan struct{}]struct{}
}

func newHub() *hub { return &hub{followers: map[uuid.UUID]map[chan struct{}]struct{}{}} }

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
}

func (h *hub) tellAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.followers {
		for ch := range all {
			signal(ch)
		}
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
	open map[uuid.UUID]context.CancelFunc // breaks off the request to the model
}

func newTurns() *turns { return &turns{open: map[uuid.UUID]context.CancelFunc{}} }

// add reports false when one of the conversation runs here already.
func (t *turns) add(id uuid.UUID, cancel context.CancelFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.open[id]; there {
		return false
	}
	t.open[id] = cancel
	return true
}

func (t *turns) remove(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, id)
}

func (t *turns) has(id uuid.UUID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.open[id]
	return there
}

func (t *turns) cancel(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancel, there := t.open[id]; there {
		cancel()
	}
}
