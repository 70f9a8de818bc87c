package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Scope are the calls of a tool by one agent, on behalf of one person or of nobody.
type Scope struct {
	AgentID, PrincipalID, SkillID uuid.UUID
	Tool                          string
}

// ListScope returns the newest approvals of a scope with one of the statuses, by call: those that are pending, or those that are decided.
func ListScope(ctx context.Context, db postgres.Querier, of Scope, statuses []Status, limit int) (map[uuid.UUID]Status, error) {
	rows, _ := db.Query(ctx, `SELECT call_id, status FROM approvals
		WHERE agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2 AND skill_id = $3 AND tool = $4 AND status = ANY($5)
			AND (status = 'pending' OR decided_at IS NOT NULL)
		ORDER BY decided_at DESC NULLS LAST, call_id DESC LIMIT $6`, of.AgentID, postgres.OrNull(of.PrincipalID), of.SkillID, of.Tool, statuses, limit)
	found := map[uuid.UUID]Status{}
	var id uuid.UUID
	var status Status
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error { found[id] = status; return nil }); err != nil {
		return nil, fmt.Errorf("list approvals of tool %s: %w", of.Tool, err)
	}
	return found, nil
}

// QueueRejectedSince adds to a batch whether a call of a scope was rejected since a time.
func QueueRejectedSince(batch *pgx.Batch, of Scope, since time.Time, into *bool) {
	batch.Queue(`SELECT EXISTS (SELECT FROM approvals
		WHERE agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2 AND skill_id = $3 AND tool = $4 AND status = 'rejected' AND decided_at >= $5)`,
		of.AgentID, postgres.OrNull(of.PrincipalID), of.SkillID, of.Tool, since).QueryRow(func(row pgx.Row) error { return row.Scan(into) })
}

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

// Outcome is why a call waited for a decision, and how that ended.
type Outcome struct {
	Rule   Rule
	Status Status
	Edited bool
}

// ReadOutcomes returns the outcomes of the approvals of calls. Calls without an approval are left out.
func ReadOutcomes(ctx context.Context, db postgres.Querier, callIDs []uuid.UUID) (map[uuid.UUID]Outcome, error) {
	rows, err := db.Query(ctx, `SELECT call_id, rule, status, original_digest IS NOT NULL FROM approvals WHERE call_id = ANY($1)`, callIDs)
	if err != nil {
		return nil, fmt.Errorf("read outcomes of approvals: %w", err)
	}
	outcomes := make(map[uuid.UUID]Outcome, len(callIDs))
	var id uuid.UUID
	var o Outcome
	if _, err := pgx.ForEachRow(rows, []any{&id, &o.Rule, &o.Status, &o.Edited}, func() error { outcomes[id] = o; return nil }); err != nil {
		return nil, fmt.Errorf("read outcomes of approvals: %w", err)
	}
	return outcomes, nil
}
