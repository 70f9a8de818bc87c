package agent

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// SkillIDs returns the ids of all skills that have or had a name: those that were deleted too.
func (s *Service) SkillIDs(ctx context.Context, name string) ([]uuid.UUID, error) {
	return s.idsOf(ctx, `SELECT id FROM skills WHERE name = $1`, name)
}

// AgentIDs returns the ids of all agents that have or had a name.
func (s *Service) AgentIDs(ctx context.Context, name string) ([]uuid.UUID, error) {
	return s.idsOf(ctx, `SELECT id FROM agents WHERE name = $1`, name)
}

func (s *Service) idsOf(ctx context.Context, sql, name string) ([]uuid.UUID, error) {
	if !validName(name) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, sql, name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	return ids, nil
}
