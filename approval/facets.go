package approval

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Facet is how many pending approvals have an agent, a skill and a team in common.
type Facet struct {
	AgentID uuid.UUID
	SkillID uuid.UUID
	Team    string // empty: none
	Count   int
}

// maxFacets bounds what there may be to choose from.
const maxFacets = 200

// Facets are what readers of the queue may choose from, the most frequent first.
func Facets(ctx context.Context, db postgres.Querier) ([]Facet, error) {
	rows, err := db.Query(ctx, `SELECT agent_id, skill_id, coalesce(team, ''), count(*) FROM approvals
		WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT $1`, maxFacets)
	if err != nil {
		return nil, fmt.Errorf("count approvals: %w", err)
	}
	facets, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Facet])
	if err != nil {
		return nil, fmt.Errorf("count approvals: %w", err)
	}
	return facets, nil
}
