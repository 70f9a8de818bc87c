package mcpserver

import (
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// RenderedLists returns the number of cached lists.
func (s *Server) RenderedLists() int {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	return len(s.lists.rendered)
}

// TellSessions records a list for n sessions, and returns the number of sessions with a recorded list.
func (s *Server) TellSessions(n int) int {
	for range n {
		s.watch.noteListed(uuid.New(), catalog.Digest{1})
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return len(s.watch.told)
}
