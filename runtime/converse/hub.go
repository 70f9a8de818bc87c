package converse

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// hub notifies the followers in this process. A lost notification costs only time.
type hub struct {
	mu        sync.Mutex
	followers map[uuid.UUID]map[chan struct{}]struct{}
	news      map[*News]struct{}
}

func (h *hub) addFollower(id uuid.UUID) chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.followers[id] == nil {
		h.followers[id] = map[chan struct{}]struct{}{}
	}
	h.followers[id][ch] = struct{}{}
	return ch
}

func (h *hub) removeFollower(id uuid.UUID, ch chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers[id], ch)
	if len(h.followers[id]) == 0 {
		delete(h.followers, id)
	}
}

func (h *hub) notifyFollowers(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.followers[id] {
		trySignal(ch)
	}
	for n := range h.news {
		n.addConversation(id)
	}
}

func (h *hub) notifyAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.followers {
		for ch := range all {
			trySignal(ch)
		}
	}
	for n := range h.news {
		n.addAll()
	}
}

func trySignal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // a signal is pending already
	}
}

// maxNews bounds the ids that [News] remembers.
const maxNews = 64

// News collects the ids of conversations that changed in any process. A growing draft is a change. It does not say what
// changed: callers read that with their own permissions.
type News struct {
	hub *hub
	mu  sync.Mutex
	ids map[uuid.UUID]struct{}
	all bool // any conversation may have changed
}

// News starts to collect. [News.Close] stops it.
func (s *Service) News() *News {
	n := &News{hub: s.hub, ids: map[uuid.UUID]struct{}{}}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.news[n] = struct{}{}
	return n
}

// Close stops collecting.
func (n *News) Close() {
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	delete(n.hub.news, n)
}

// Take returns the conversations that changed since the last call. If all is true, any conversation may have changed.
func (n *News) Take() (ids []uuid.UUID, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all = n.all
	if !all {
		ids = slices.Collect(maps.Keys(n.ids))
	}
	clear(n.ids)
	n.all = false
	return ids, all
}

func (n *News) addConversation(id uuid.UUID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all {
		return
	}
	if n.ids[id] = struct{}{}; len(n.ids) > maxNews {
		n.markAll()
	}
}

func (n *News) addAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.markAll()
}

// markAll replaces the ids by all conversations. The caller holds the lock.
func (n *News) markAll() {
	clear(n.ids)
	n.all = true
}
