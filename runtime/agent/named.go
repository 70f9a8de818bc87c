package agent

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// AgentsNamed returns every agent that has, or had when it was deleted, this name; or this id. For looking into the past.
func (s *Service) AgentsNamed(ctx context.Context, name string) ([]uuid.UUID, error) {
	return s.idsNamed(ctx, "agents", name)
}

// SkillsNamed likewise.
func (s *Service) SkillsNamed(ctx context.Context, name string) ([]uuid.UUID, error) {
	return s.idsNamed(ctx, "skills", name)
}

func (s *Service) idsNamed(ctx context.Context, table, name string) ([]uuid.UUID, error) {
	if !tool.ValidName(name) { // an id may be a name too, but nobody's by chance
		return []uuid.UUID{}, nil
	}
	rows, err := s.pool.Query(ctx, `SELECT id FROM `+table+` WHERE name = $1 OR id::text = $1`, name)
	if err != nil {
		return nil, fmt.Errorf("find %s named %s: %w", table, name, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find %s named %s: %w", table, name, err)
	}
	return append([]uuid.UUID{}, ids...), nil
}
