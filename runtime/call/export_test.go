package call

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
)

// ReadOpenSQL reads the open calls. Its plan determines how long recovery takes.
const ReadOpenSQL = readOpenSQL

// RecalledMessage is the message of a call whose sending the database forgot.
const RecalledMessage = recalledMessage

// ErrClaimLost is returned if another process took over the call before it was sent.
var ErrClaimLost = errClaimLost

// Suspend backdates the last heartbeat by an hour, as if the process had been suspended.
func (s *Service) Suspend() {
	s.pulse.mu.Lock()
	defer s.pulse.mu.Unlock()
	s.pulse.last = s.pulse.last.Add(-time.Hour)
}

// ForgetHistories makes the next comparison with approved calls read the database.
func (s *Service) ForgetHistories() {
	s.histories.mu.Lock()
	defer s.histories.mu.Unlock()
	s.histories.byKey = nil
}

// ReserveDispatches takes all places for calls that are sent by the process that decided.
func (s *Service) ReserveDispatches() {
	for s.reserveDispatch() {
	}
}

// Beat writes a heartbeat.
func (s *Service) Beat(ctx context.Context) error { return s.writeHeartbeat(ctx) }

// Recover recovers calls while all instances count as alive.
func (s *Service) Recover(ctx context.Context) error { return s.recoverCalls(ctx, nil) }

// DenyLapsed ends a call if its approval has lapsed.
func (s *Service) DenyLapsed(ctx context.Context, id uuid.UUID) (bool, error) {
	return s.endUnsent(ctx, s.vital, onLapse, id, lapsedOutcome())
}

// AskAgain takes the approval of a call back because of a rule that parks it now, as a process does that compared the call before.
func (s *Service) AskAgain(ctx context.Context, c *Call, decided *approval.Approval, by rule.Applied) error {
	return s.askAgain(ctx, c, decided, &ruledError{rules: []rule.Applied{by}})
}

// OpenFrom returns the id at which the search for open calls starts.
func OpenFrom(ctx context.Context, tx pgx.Tx) (uuid.UUID, error) { return openFrom(ctx, tx) }
