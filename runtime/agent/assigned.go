package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// SkillSet is the skills of an agent at one revision.
type SkillSet struct {
	Revision int64 // of the agent; skills that change while they are read have a later one
	HasModel bool  // clients can ask the agent itself
	Skills   []AssignedSkill
}

// AssignedSkill is a skill as one agent has it.
type AssignedSkill struct {
	*Skill
	AllowedTools []string // nil: all tools of the skill
	Prefix       string   // of the names of its tools; "": none

	row *skillRow
	box *secret.Box
}

// AllowsTool reports whether the assignment includes a tool.
func (a *AssignedSkill) AllowsTool(name string) bool {
	return a.AllowedTools == nil || slices.Contains(a.AllowedTools, name)
}

// Server decrypts the skill's secrets and returns its server.
func (a *AssignedSkill) Server() (tool.Server, error) { return a.row.server(a.box) }

// AssignedSkills reads an agent's skills, by name, from the database. It returns ErrNotFound if there is no such agent.
func (s *Service) AssignedSkills(ctx context.Context, agentID uuid.UUID) (SkillSet, error) {
	var set SkillSet
	batch := &pgx.Batch{}
	// The revision is read first: a skill that changes between the two statements then has a later one.
	batch.Queue(`SELECT revision, model IS NOT NULL FROM agents WHERE id = $1 AND deleted_at IS NULL`, agentID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&set.Revision, &set.HasModel) })
	batch.Queue(`SELECT `+skillColumns+`, x.tools, x.prefix FROM assignments x JOIN skills s ON s.id = x.skill_id
		WHERE x.agent_id = $1 AND s.deleted_at IS NULL ORDER BY s.name COLLATE "C"`, agentID).
		Query(func(rows pgx.Rows) (err error) {
			set.Skills, err = pgx.CollectRows(rows, s.scanAssignedSkill)
			return err
		})
	err := s.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return SkillSet{}, fmt.Errorf("read skills of agent %s: %w", agentID, err)
	}
	return set, nil
}

func (s *Service) scanAssignedSkill(row pgx.CollectableRow) (AssignedSkill, error) {
	a := AssignedSkill{row: &skillRow{}, box: s.box}
	a.Skill = &a.row.Skill
	var prefix *string
	err := row.Scan(append(a.row.targets(), &a.AllowedTools, &prefix)...)
	a.row.complete()
	a.Prefix = a.Name
	if prefix != nil {
		a.Prefix = *prefix
	}
	return a, err
}
