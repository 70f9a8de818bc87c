package mcpserver

import (
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// Dress is dress.
func Dress(raw, addition []byte, typed bool) ([][]byte, error) { return dress(raw, addition, typed) }

// RenderedLists counts the lists that are kept.
func (s *Server) RenderedLists() int {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	return len(s.lists.rendered)
}

// TellSessions notes that many sessions were told something, and returns of how many that is known.
func (s *Server) TellSessions(n int) int {
	for range n {
		s.watch.listed(uuid.New(), catalog.Digest{1})
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return len(s.watch.told)
}
