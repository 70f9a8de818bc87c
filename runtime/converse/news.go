package converse

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// maxNews is how many conversations [News] remembers by their ids.
const maxNews = 64

// News gathers in which conversations something happened, a growing draft included, in whichever process. It tells no
// more than that: what happened is for whoever may see it to read.
type News struct {
	hub *hub
	mu  sync.Mutex
	ids map[uuid.UUID]struct{}
	all bool // too many, or nobody knows how many
}

// News begins to gather. [News.Close] ends it.
func (s *Service) News() *News {
	n := &News{hub: s.hub, ids: map[uuid.UUID]struct{}{}}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.news[n] = struct{}{}
	return n
}

// Close ends the gathering.
func (n *News) Close() {
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	delete(n.hub.news, n)
}

// Take returns the conversations since the last time it was asked, or that it may have been any of all.
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

func (n *News) add(id uuid.UUID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all {
		return
	}
	if n.ids[id] = struct{}{}; len(n.ids) > maxNews {
		n.any()
	}
}

func (n *News) addAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.any()
}

// any forgets which; the lock is held.
func (n *News) any() {
	clear(n.ids)
	n.all = true
}
