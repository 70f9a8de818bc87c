package call

import (
	"context"
	"time"
)

// ReadOpenSQL is the statement whose plan decides how long recovery takes.
const ReadOpenSQL = readOpenSQL

// ErrClaimLost is why a call that another process took over is not sent.
var ErrClaimLost = errClaimLost

// Suspend makes the last heartbeat an hour old, as if the process had been suspended since, until the next one.
func (s *Service) Suspend() {
	s.pulse.mu.Lock()
	defer s.pulse.mu.Unlock()
	s.pulse.last = s.pulse.last.Add(-time.Hour)
}

// Beat writes a heartbeat.
func (s *Service) Beat(ctx context.Context) error { return s.beat(ctx) }
