package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// BuiltinSkill is the skill of an agent's own tools and of their calls. It is not in the registry, so it cannot be listed,
// assigned or changed.
var BuiltinSkill = uuid.MustParse("00000000-0000-7000-8000-000000000001") //nolint:gochecknoglobals // a constant

// BuiltinSkillName is the name of [BuiltinSkill].
const BuiltinSkillName = "holdpoint"

// Names returns the names of agents and skills by id, for display. Deleted ones are included.
func (s *Service) Names(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	return Names(ctx, s.pool, ids)
}

// Names is [Service.Names] inside a transaction, which must not wait for a second connection.
func Names(ctx context.Context, db postgres.Querier, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, _ := db.Query(ctx, `SELECT id, name FROM agents WHERE id = ANY($1)
		UNION ALL SELECT id, name FROM skills WHERE id = ANY($1)`, ids)
	names := make(map[uuid.UUID]string, len(ids))
	var id uuid.UUID
	var name string
	_, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read names: %w", err)
	}
	if slices.Contains(ids, BuiltinSkill) {
		names[BuiltinSkill] = BuiltinSkillName
	}
	return names, nil
}

// QueueNames adds the read of the names of an agent and a skill, which may be deleted, to a batch. source is a query for the columns
// agent_id and skill_id of one row in which $1 is arg. Without a row, the names stay as they are.
func QueueNames(batch *pgx.Batch, source string, arg any, agentName, skillName *string) {
	batch.Queue(`SELECT coalesce((SELECT name FROM agents WHERE id = agent_id), ''),
			CASE WHEN skill_id = $2 THEN $3 ELSE coalesce((SELECT name FROM skills WHERE id = skill_id), '') END
		FROM (`+source+`) AS source`, arg, BuiltinSkill, BuiltinSkillName).Query(func(rows pgx.Rows) error {
		if _, err := pgx.ForEachRow(rows, []any{agentName, skillName}, func() error { return nil }); err != nil {
			return fmt.Errorf("read names: %w", err)
		}
		return nil
	})
}

// AgentsNamed returns the ids of all agents with this name or id, including deleted ones, for searches in the past.
func (s *Service) AgentsNamed(ctx context.Context, name string) ([]uuid.UUID, error) {
	return s.findIDs(ctx, "agents", name)
}

// SkillsNamed returns the ids of all skills with this name or id, including deleted ones.
func (s *Service) SkillsNamed(ctx context.Context, name string) ([]uuid.UUID, error) {
	return s.findIDs(ctx, "skills", name)
}

// maxNamesContaining bounds the ids of agents and of skills that [Service.NamesContaining] returns.
const maxNamesContaining = 1000

// NamesContaining returns the ids of the agents and skills whose names contain a text, ignoring case. Deleted ones are included.
func (s *Service) NamesContaining(ctx context.Context, text string) ([]uuid.UUID, error) {
	rows, _ := s.pool.Query(ctx, `(SELECT id FROM agents WHERE strpos(lower(name), lower($1)) > 0 ORDER BY id DESC LIMIT $2)
		UNION ALL (SELECT id FROM skills WHERE strpos(lower(name), lower($1)) > 0 ORDER BY id DESC LIMIT $2)`, text, maxNamesContaining)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find names with a text: %w", err)
	}
	if strings.Contains(BuiltinSkillName, strings.ToLower(text)) {
		ids = append(ids, BuiltinSkill)
	}
	return ids, nil
}

func (s *Service) findIDs(ctx context.Context, table, name string) ([]uuid.UUID, error) {
	if !tool.ValidName(name) { // an id is a valid name too
		return []uuid.UUID{}, nil
	}
	rows, _ := s.pool.Query(ctx, `SELECT id FROM `+table+` WHERE name = $1 OR id::text = $1`, name)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find %s named %s: %w", table, name, err)
	}
	return append([]uuid.UUID{}, ids...), nil
}

// Named is the name of an agent or a skill.
type Named struct {
	ID   uuid.UUID
	Name string
}

// FindAgents returns at most limit agents whose name contains a text, without regard to case. Names that begin with it come first.
func (s *Service) FindAgents(ctx context.Context, text string, limit int) ([]Named, error) {
	return s.findNamed(ctx, "agents", text, limit)
}

// FindSkills does the same for skills.
func (s *Service) FindSkills(ctx context.Context, text string, limit int) ([]Named, error) {
	return s.findNamed(ctx, "skills", text, limit)
}

func (s *Service) findNamed(ctx context.Context, table, text string, limit int) ([]Named, error) {
	rows, _ := s.pool.Query(ctx, `SELECT id, name FROM `+table+` WHERE deleted_at IS NULL AND position(lower($1) IN lower(name)) > 0
		ORDER BY position(lower($1) IN lower(name)), name LIMIT $2`, text, limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Named])
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", table, err)
	}
	return found, nil
}
