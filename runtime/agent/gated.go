package agent

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// GatedSkill is a skill of an agent whose calls wait for a decision.
type GatedSkill struct {
	Agent, Skill     string
	Team, EscalateTo string      // of the skill, else of the agent
	KeyMakers        []uuid.UUID // the people who made the agent's keys that are not revoked
}

// ListGatedSkills lists the gated skills of all agents by name.
func ListGatedSkills(ctx context.Context, db postgres.Querier) ([]GatedSkill, error) {
	found, err := postgres.Collect(ctx, db, pgx.RowToStructByPos[GatedSkill], `SELECT a.name, s.name, coalesce(s.team, a.team, ''), coalesce(s.escalate_to, a.escalate_to, ''),
			ARRAY(SELECT DISTINCT created_by FROM agent_keys WHERE agent_id = a.id AND created_by IS NOT NULL AND revoked_at IS NULL)
		FROM assignments JOIN agents a ON a.id = agent_id JOIN skills s ON s.id = skill_id
		WHERE a.deleted_at IS NULL AND s.deleted_at IS NULL AND NOT s.auto_approve ORDER BY a.name, s.name`)
	if err != nil {
		return nil, fmt.Errorf("list gated skills: %w", err)
	}
	return found, nil
}
