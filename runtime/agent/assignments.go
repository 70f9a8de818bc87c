package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
)

const assignmentSelect = `SELECT x.agent_id, a.name, x.skill_id, s.name, x.tools, x.prefix
	FROM assignments x JOIN agents a ON a.id = x.agent_id JOIN skills s ON s.id = x.skill_id
	WHERE a.deleted_at IS NULL AND s.deleted_at IS NULL`

func scanAssignment(row pgx.CollectableRow) (Assignment, error) {
	var a Assignment
	err := row.Scan(&a.AgentID, &a.Agent, &a.SkillID, &a.Skill, &a.Tools, &a.Prefix)
	return a, err
}

// Assignments lists by agent and skill: those of one agent, or all (uuid.Nil).
func (s *Service) Assignments(ctx context.Context, agentID uuid.UUID) ([]Assignment, error) {
	return readAssignments(ctx, s.pool, agentID)
}

// UsersOf lists the assignments of a skill, by agent.
func (s *Service) UsersOf(ctx context.Context, skillID uuid.UUID) ([]Assignment, error) {
	rows, err := s.pool.Query(ctx, assignmentSelect+` AND x.skill_id = $1 ORDER BY a.name`, skillID)
	if err != nil {
		return nil, fmt.Errorf("read users of skill %s: %w", skillID, err)
	}
	list, err := pgx.CollectRows(rows, scanAssignment)
	if err != nil {
		return nil, fmt.Errorf("read users of skill %s: %w", skillID, err)
	}
	return list, nil
}

func readAssignments(ctx context.Context, db querier, agentID uuid.UUID) ([]Assignment, error) {
	rows, err := db.Query(ctx, assignmentSelect+`
		AND ($1 = '00000000-0000-0000-0000-000000000000'::uuid OR x.agent_id = $1) ORDER BY a.name, s.name`, agentID)
	if err != nil {
		return nil, fmt.Errorf("read assignments: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanAssignment)
	if err != nil {
		return nil, fmt.Errorf("read assignments: %w", err)
	}
	return list, nil
}

// Assigned reports, from the database, whether the agent exists and may use that tool of the skill now.
func (s *Service) Assigned(ctx context.Context, agentID, skillID uuid.UUID, toolName string) (bool, error) {
	var assigned bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (`+assignmentSelect+`
		AND x.agent_id = $1 AND x.skill_id = $2 AND (x.tools IS NULL OR $3 = ANY(x.tools)))`,
		agentID, skillID, toolName).Scan(&assigned)
	if err != nil {
		return false, fmt.Errorf("check assignment of agent %s: %w", agentID, err)
	}
	return assigned, nil
}

// Assign lets an agent use a skill, or changes how. The revision is the agent's, for which the change is made; nil: whichever
// it has. What is known to be wrong with it joins what is found wrong here. Errors: ErrChanged, *InvalidError, ErrNotFound.
func (s *Service) Assign(ctx context.Context, by audit.Actor, agentID uuid.UUID, spec AssignmentSpec, revision *int64,
	known ...FieldProblem,
) (Assignment, error) {
	r := newReport(known...)
	spec.validate(r)
	if err := r.err(); err != nil {
		return Assignment{}, fmt.Errorf("assign skill %q: %w", spec.Skill, err)
	}
	var assignment Assignment
	err := s.edit(ctx, by, false, func(e *edit) error {
		a, err := oneAgent(ctx, e.tx, `a.id = $1`, agentID)
		if err != nil {
			return err
		}
		if err := current(revision, a.Revision); err != nil {
			return err
		}
		existing, err := readAssignments(ctx, e.tx, agentID)
		if err != nil {
			return err
		}
		if _, err = e.assign(ctx, r, a.ID, a.Name, existing, spec); err != nil {
			return err
		}
		if err := r.err(); err != nil {
			return err
		}
		if existing, err = readAssignments(ctx, e.tx, agentID); err != nil {
			return err
		}
		i := slices.IndexFunc(existing, func(x Assignment) bool { return x.Skill == spec.Skill })
		assignment = existing[i]
		return nil
	})
	if err != nil {
		return Assignment{}, fmt.Errorf("assign skill %s to agent %s: %w", spec.Skill, agentID, err)
	}
	return assignment, nil
}

// Unassign takes a skill away from an agent. ErrNotFound.
func (s *Service) Unassign(ctx context.Context, by audit.Actor, agentID, skillID uuid.UUID) error {
	err := s.edit(ctx, by, false, func(e *edit) error {
		existing, err := readAssignments(ctx, e.tx, agentID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(existing, func(x Assignment) bool { return x.SkillID == skillID })
		if i < 0 {
			return ErrNotFound
		}
		_, err = e.unassign(ctx, existing[i])
		return err
	})
	if err != nil {
		return fmt.Errorf("unassign skill %s from agent %s: %w", skillID, agentID, err)
	}
	return nil
}

// assignAll makes the list all that an agent has. What is wrong with it goes into the report.
func (e *edit) assignAll(ctx context.Context, r report, agentID uuid.UUID, agentName string, list []AssignmentSpec) ([]Change, error) {
	existing, err := readAssignments(ctx, e.tx, agentID)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for i, spec := range list {
		at := r.below("skills").below(fmt.Sprintf("[%d]", i))
		change, err := e.assign(ctx, at, agentID, agentName, existing, spec)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	for _, old := range existing {
		if !slices.ContainsFunc(list, func(spec AssignmentSpec) bool { return spec.Skill == old.Skill }) {
			change, err := e.unassign(ctx, old)
			if err != nil {
				return nil, err
			}
			changes = append(changes, change)
		}
	}
	return changes, nil
}

func (e *edit) assign(ctx context.Context, r report, agentID uuid.UUID, agentName string, existing []Assignment, spec AssignmentSpec) (Change, error) {
	change := Change{Kind: KindAssignment, Name: agentName + "/" + spec.Skill, Action: ActionCreate}
	skill, err := oneSkill(ctx, e.tx, `s.name = $1`, spec.Skill)
	if errors.Is(err, ErrNotFound) {
		r.add("skill", fmt.Sprintf("there is no skill named %q", spec.Skill))
		return change, nil
	}
	if err != nil {
		return change, err
	}
	spec = spec.normal()
	var before *AssignmentSpec
	if i := slices.IndexFunc(existing, func(x Assignment) bool { return x.SkillID == skill.ID }); i >= 0 {
		before = &AssignmentSpec{Skill: spec.Skill, Tools: existing[i].Tools, Prefix: existing[i].Prefix}
		change.Action = ActionUpdate
	}
	change.Fields = diff(before.fields(), spec.fields())
	if before != nil && len(change.Fields) == 0 {
		change.Action = ActionUnchanged
		return change, nil
	}
	_, err = e.tx.Exec(ctx, `INSERT INTO assignments (agent_id, skill_id, tools, prefix) VALUES ($1, $2, $3, $4)
		ON CONFLICT (agent_id, skill_id) DO UPDATE SET tools = excluded.tools, prefix = excluded.prefix`,
		agentID, skill.ID, spec.Tools, spec.Prefix)
	if err != nil {
		return change, err
	}
	action := map[string]string{ActionCreate: "assignment.created", ActionUpdate: "assignment.updated"}[change.Action]
	e.did(action, agentID, map[string]any{"agent": agentName, "skill": spec.Skill, "skill_id": skill.ID, "fields": change.Fields})
	e.touch(agentID)
	return change, nil
}

func (e *edit) unassign(ctx context.Context, old Assignment) (Change, error) {
	change := Change{Kind: KindAssignment, Name: old.Agent + "/" + old.Skill, Action: ActionDelete}
	_, err := e.tx.Exec(ctx, `DELETE FROM assignments WHERE agent_id = $1 AND skill_id = $2`, old.AgentID, old.SkillID)
	if err != nil {
		return change, err
	}
	e.did("assignment.deleted", old.AgentID, map[string]any{"agent": old.Agent, "skill": old.Skill, "skill_id": old.SkillID})
	e.touch(old.AgentID)
	return change, nil
}

// normal orders the tools, and leaves out a prefix that says what holds anyway.
func (a *AssignmentSpec) normal() AssignmentSpec {
	normal := *a
	if a.Tools != nil {
		normal.Tools = slices.Compact(slices.Sorted(slices.Values(a.Tools)))
	}
	if a.Prefix != nil && *a.Prefix == a.Skill {
		normal.Prefix = nil
	}
	return normal
}
