package approval

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// ToolHistory counts past decisions on a tool's calls.
type ToolHistory struct {
	Approved, Edited, Rejected, Expired int
	Full                                bool // older decisions were not counted
}

// MaxToolHistory bounds the decisions that [QueueToolHistory] counts.
const MaxToolHistory = 1000

// QueueToolHistory adds a count of the decisions on a tool's calls to a batch: those that are younger than age, the last [MaxToolHistory]
// of them.
func QueueToolHistory(batch *pgx.Batch, skill uuid.UUID, tool string, age time.Duration, into *ToolHistory) {
	postgres.QueueOne(batch, into, "read history of tool "+tool, pgx.RowToStructByPos[ToolHistory], `SELECT count(*) FILTER (WHERE status = 'approved'),
			count(*) FILTER (WHERE status = 'approved' AND original_digest IS NOT NULL),
			count(*) FILTER (WHERE status = 'rejected'), count(*) FILTER (WHERE status = 'expired'), count(*) = $4
		FROM (SELECT status, original_digest FROM approvals
			WHERE skill_id = $1 AND tool = $2 AND decided_at > holdpoint_now() - $3 * interval '1 second'
			ORDER BY decided_at DESC LIMIT $4) AS recent`, skill, tool, age.Seconds(), MaxToolHistory)
}
