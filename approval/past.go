package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Record is what was decided about a tool's calls.
type Record struct {
	Approved, Edited, Rejected, Expired int
}

// RecordOf counts what was decided about a tool's calls within an age.
func RecordOf(ctx context.Context, db postgres.Querier, skill uuid.UUID, tool string, age time.Duration) (Record, error) {
	rows, err := db.Query(ctx, `SELECT count(*) FILTER (WHERE status = 'approved'),
			count(*) FILTER (WHERE status = 'approved' AND original_digest IS NOT NULL),
			count(*) FILTER (WHERE status = 'rejected'), count(*) FILTER (WHERE status = 'expired')
		FROM approvals WHERE skill_id = $1 AND tool = $2 AND decided_at > holdpoint_now() - $3 * interval '1 second'`,
		skill, tool, age.Seconds())
	if err != nil {
		return Record{}, fmt.Errorf("read record of tool %s: %w", tool, err)
	}
	record, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Record])
	if err != nil {
		return Record{}, fmt.Errorf("read record of tool %s: %w", tool, err)
	}
	return record, nil
}

// likeness bounds how far back one looks for an approval of the same agent before another's will do.
const likeness = 200

// LastApproved is the last approved call of the same tool, of the same agent where one of the latest was, or ErrNotFound.
func LastApproved(ctx context.Context, db postgres.Querier, a *Approval) (Approval, error) {
	found, err := collect(ctx, db, `SELECT `+columns+` FROM approvals WHERE call_id = (
		SELECT call_id FROM (
			SELECT call_id, agent_id, decided_at FROM approvals
			WHERE skill_id = $1 AND tool = $2 AND decided_at IS NOT NULL AND status = 'approved' AND call_id <> $4
			ORDER BY decided_at DESC LIMIT $5) AS latest
		ORDER BY agent_id <> $3, decided_at DESC LIMIT 1)`, a.SkillID, a.Tool, a.AgentID, a.CallID, likeness)
	if err != nil {
		return Approval{}, err
	}
	if len(found) == 0 {
		return Approval{}, ErrNotFound
	}
	return found[0], nil
}
