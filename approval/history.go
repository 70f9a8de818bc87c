package approval

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// ToolHistory counts past decisions on a tool's calls.
type ToolHistory struct {
	Approved, Edited, Rejected, Expired int
}

// ReadToolHistory counts the decisions on a tool's calls that are younger than age.
func ReadToolHistory(ctx context.Context, db postgres.Querier, skill uuid.UUID, tool string, age time.Duration) (ToolHistory, error) {
	return queryRow[ToolHistory](ctx, db, "read history of tool "+tool, `SELECT count(*) FILTER (WHERE status = 'approved'),
			count(*) FILTER (WHERE status = 'approved' AND original_digest IS NOT NULL),
			count(*) FILTER (WHERE status = 'rejected'), count(*) FILTER (WHERE status = 'expired')
		FROM approvals WHERE skill_id = $1 AND tool = $2 AND decided_at > holdpoint_now() - $3 * interval '1 second'`,
		skill, tool, age.Seconds())
}

// maxSimilar is the number of recent approvals among which one of the same agent is preferred.
const maxSimilar = 200

// LastApproved returns the approval of the tool's last approved call, or [ErrNotFound]. It prefers calls of the same agent if
// one is among the latest maxSimilar.
func LastApproved(ctx context.Context, db postgres.Querier, a *Approval) (Approval, error) {
	return queryApproval(ctx, db, `SELECT `+approvalColumns+` FROM approvals WHERE call_id = (
		SELECT call_id FROM (
			SELECT call_id, agent_id, decided_at FROM approvals
			WHERE skill_id = $1 AND tool = $2 AND decided_at IS NOT NULL AND status = 'approved' AND call_id <> $4
			ORDER BY decided_at DESC LIMIT $5) AS latest
		ORDER BY agent_id <> $3, decided_at DESC LIMIT 1)`, a.SkillID, a.Tool, a.AgentID, a.CallID, maxSimilar)
}
