package call

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
func (s *Service) Beat(ctx context.Context) error { return s.writeHeartbeat(ctx) }

// Recover recovers calls as if no instance were gone.
func (s *Service) Recover(ctx context.Context) error { return s.recoverCalls(ctx, nil) }

// DenyLapsed ends a call if its approval has lapsed.
func (s *Service) DenyLapsed(ctx context.Context, id uuid.UUID) (bool, error) {
	return s.endUnsent(ctx, s.vital, onLapse, id, lapsedOutcome())
}

// OpenFrom returns the id from which on open calls are looked for.
func OpenFrom(ctx context.Context, tx pgx.Tx) (uuid.UUID, error) { return openFrom(ctx, tx) }
