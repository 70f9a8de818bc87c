package mcpserver

// Dress is dress.
func Dress(raw, addition []byte, typed bool) ([][]byte, error) { return dress(raw, addition, typed) }

// RenderedLists counts the lists that are kept.
func (s *Server) RenderedLists() int {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	return len(s.lists.rendered)
}
