package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Pulse is what changes when the queue does.
type Pulse struct {
	Pending     int
	Newest      time.Time // creation of the newest pending approval
	Oldest      time.Time // of the oldest; Now without any
	LastDecided time.Time
	Moved       int64     // differs when a deadline was moved, a team asked, or an edit proposed
	Now         time.Time // of the database
}

// Waited is how long the oldest pending approval has waited.
func (p Pulse) Waited() time.Duration { return max(0, p.Now.Sub(p.Oldest)) }

// ReadPulse is cheap enough to be asked several times a second.
func ReadPulse(ctx context.Context, db postgres.Querier) (Pulse, error) {
	rows, err := db.Query(ctx, `SELECT count(*), coalesce(max(created_at), 'epoch'), coalesce(min(created_at), holdpoint_now()),
		coalesce((SELECT max(decided_at) FROM approvals), 'epoch'),
		coalesce(sum(extended_ms + CASE WHEN escalated_at IS NULL THEN 0 ELSE 1 END + coalesce(extract(epoch FROM edited_at) * 1000, 0)), 0)::bigint, holdpoint_now()
		FROM approvals WHERE status = 'pending' AND deadline > (SELECT holdpoint_now())`)
	if err != nil {
		return Pulse{}, fmt.Errorf("read pulse: %w", err)
	}
	pulse, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Pulse])
	if err != nil {
		return Pulse{}, fmt.Errorf("read pulse: %w", err)
	}
	return pulse, nil
}
