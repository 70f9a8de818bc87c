package catalog

import "time"

// SetListTimeout changes how long the start of a conversation waits for the tools of all skills.
func (s *Service) SetListTimeout(limit time.Duration) { s.listTimeout = limit }
