package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const assignmentSelect = `SELECT x.agent_id, a.name, x.skill_id, s.name, x.tools, x.prefix
	FROM assignments x JOIN agents a ON a.id = x.agent_id JOIN skills s ON s.id = x.skill_id
	WHERE a.deleted_at IS NULL AND s.deleted_at IS NULL`

func scanAssignment(row pgx.CollectableRow) (Assignment, error) {
	var a Assignment
	err := row.Scan(&a.AgentID, &a.Agent, &a.SkillID, &a.Skill, &a.Tools, &a.Prefix)
	return a, err
}

// Assignments lists the assignments of an agent, or all of them for uuid.Nil, by agent and skill.
func (s *Service) Assignments(ctx context.Context, agentID uuid.UUID) ([]Assignment, error) {
	return readAssignments(ctx, s.pool, agentID)
}

// UsersOf lists the assignments of a skill, by agent.
func (s *Service) UsersOf(ctx context.Context, skillID uuid.UUID) ([]Assignment, error) {
	rows, _ := s.pool.Query(ctx, assignmentSelect+` AND x.skill_id = $1 ORDER BY a.name`, skillID)
	list, err := pgx.CollectRows(rows, scanAssignment)
	if err != nil {
		return nil, fmt.Errorf("read users of skill %s: %w", skillID, err)
	}
	return list, nil
}

func readAssignments(ctx context.Context, db postgres.Querier, agentID uuid.UUID) ([]Assignment, error) {
	rows, _ := db.Query(ctx, assignmentSelect+`
		AND ($1 = '00000000-0000-0000-0000-000000000000'::uuid OR x.agent_id = $1) ORDER BY a.name, s.name`, agentID)
	list, err := pgx.CollectRows(rows, scanAssignment)
	if err != nil {
		return nil, fmt.Errorf("read assignments: %w", err)
	}
	return list, nil
}

// Assigned reads from the database whether the agent exists and may use this tool of the skill now.
func (s *Service) Assigned(ctx context.Context, agentID, skillID uuid.UUID, toolName string) (assigned bool, err error) {
	batch := &pgx.Batch{}
	queueAssigned(batch, agentID, skillID, toolName, &assigned)
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return false, fmt.Errorf("check assignment of agent %s: %w", agentID, err)
	}
	return assigned, nil
}

func queueAssigned(batch *pgx.Batch, agentID, skillID uuid.UUID, toolName string, into *bool) {
	batch.Queue(`SELECT EXISTS (`+assignmentSelect+`
		AND x.agent_id = $1 AND x.skill_id = $2 AND (x.tools IS NULL OR $3 = ANY(x.tools)))`, agentID, skillID, toolName).
		QueryRow(func(row pgx.Row) error { return row.Scan(into) })
}

// Assign lets an agent use a skill, or changes the assignment. A revision, if not nil, must be the agent's. The error also lists
// the invalid fields in known. Errors: ErrChanged, *fault.InvalidError, ErrNotFound.
func (s *Service) Assign(ctx context.Context, by audit.Actor, agentID uuid.UUID, spec AssignmentSpec, revision *int64,
	known ...fault.Field,
) (Assignment, error) {
	r := newReport(known...)
	spec.validate(r)
	if err := r.err(); err != nil {
		return Assignment{}, fmt.Errorf("assign skill %q: %w", spec.Skill, err)
	}
	var assignment Assignment
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		a, err := readAgentRow(ctx, e.tx, `a.id = $1`, agentID)
		if err != nil {
			return err
		}
		if err := checkRevision(revision, a.Revision); err != nil {
			return err
		}
		existing, err := readAssignments(ctx, e.tx, agentID)
		if err != nil {
			return err
		}
		if _, err = e.assignSkill(ctx, r, a.ID, a.Name, existing, spec); err != nil {
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

// Unassign removes a skill from an agent. ErrNotFound.
func (s *Service) Unassign(ctx context.Context, by audit.Actor, agentID, skillID uuid.UUID) error {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		existing, err := readAssignments(ctx, e.tx, agentID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(existing, func(x Assignment) bool { return x.SkillID == skillID })
		if i < 0 {
			return ErrNotFound
		}
		_, err = e.unassignSkill(ctx, existing[i])
		return err
	})
	if err != nil {
		return fmt.Errorf("unassign skill %s from agent %s: %w", skillID, agentID, err)
	}
	return nil
}

// assignAll replaces all assignments of an agent. It adds invalid fields to the report.
func (e *edit) assignAll(ctx context.Context, r report, agentID uuid.UUID, agentName string, list []AssignmentSpec) ([]Change, error) {
	existing, err := readAssignments(ctx, e.tx, agentID)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for i, spec := range list {
		at := r.below("skills").below(fmt.Sprintf("[%d]", i))
		change, err := e.assignSkill(ctx, at, agentID, agentName, existing, spec)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	for _, old := range existing {
		if !slices.ContainsFunc(list, func(spec AssignmentSpec) bool { return spec.Skill == old.Skill }) {
			change, err := e.unassignSkill(ctx, old)
			if err != nil {
				return nil, err
			}
			changes = append(changes, change)
		}
	}
	return changes, nil
}

func (e *edit) assignSkill(ctx context.Context, r report, agentID uuid.UUID, agentName string, existing []Assignment, spec AssignmentSpec) (Change, error) {
	change := Change{Kind: KindAssignment, Name: agentName + "/" + spec.Skill, Action: ActionCreate}
	skill, err := e.requireSkill(ctx, r, spec.Skill)
	if err != nil || skill == nil {
		return change, err
	}
	spec = spec.normalize()
	var before *AssignmentSpec
	if i := slices.IndexFunc(existing, func(x Assignment) bool { return x.SkillID == skill.ID }); i >= 0 {
		before = &AssignmentSpec{Skill: spec.Skill, Tools: existing[i].Tools, Prefix: existing[i].Prefix}
		change.Action = ActionUpdate
	}
	change.Fields = diffFields(before.listFields(), spec.listFields())
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
	action := map[string]audit.Action{ActionCreate: audit.AssignmentCreated, ActionUpdate: audit.AssignmentUpdated}[change.Action]
	e.recordChange(action, agentID, map[string]any{"agent": agentName, "skill": spec.Skill, "skill_id": skill.ID, "fields": change.Fields})
	e.touchAgent(agentID)
	return change, nil
}

// requireSkill reads the skill of an assignment. It returns nil, and adds an invalid field to the report, if there is none.
func (e *edit) requireSkill(ctx context.Context, r report, name string) (*skillRow, error) {
	skill, err := readSkillRow(ctx, e.tx, `s.name = $1`, name)
	if !errors.Is(err, ErrNotFound) {
		return skill, err
	}
	r.check(e.faulty[name], "skill", fmt.Sprintf("must be the name of a skill: there is no skill %q", name))
	return nil, nil //nolint:nilnil // the report says why
}

// requireSkills is [edit.requireSkill] for the assignments of an agent.
func (e *edit) requireSkills(ctx context.Context, r report, list *[]AssignmentSpec) error {
	if list == nil {
		return nil
	}
	for i, spec := range *list {
		if _, err := e.requireSkill(ctx, r.below("skills").below(fmt.Sprintf("[%d]", i)), spec.Skill); err != nil {
			return err
		}
	}
	return nil
}

func (e *edit) unassignSkill(ctx context.Context, old Assignment) (Change, error) {
	change := Change{Kind: KindAssignment, Name: old.Agent + "/" + old.Skill, Action: ActionDelete}
	_, err := e.tx.Exec(ctx, `DELETE FROM assignments WHERE agent_id = $1 AND skill_id = $2`, old.AgentID, old.SkillID)
	if err != nil {
		return change, err
	}
	e.recordChange(audit.AssignmentDeleted, old.AgentID, map[string]any{"agent": old.Agent, "skill": old.Skill, "skill_id": old.SkillID})
	e.touchAgent(old.AgentID)
	return change, nil
}

// normalize sorts the tools and removes a prefix that equals the default.
func (a *AssignmentSpec) normalize() AssignmentSpec {
	normal := *a
	if a.Tools != nil {
		normal.Tools = slices.Compact(slices.Sorted(slices.Values(a.Tools)))
	}
	if a.Prefix != nil && *a.Prefix == a.Skill {
		normal.Prefix = nil
	}
	return normal
}

// listFields lists an assignment's fields.
func (a *AssignmentSpec) listFields() []field {
	if a == nil {
		return nil
	}
	list := []field{{name: "tools", value: "all"}}
	if a.Tools != nil {
		list[0].value = jsonText(a.Tools)
	}
	if a.Prefix != nil {
		list = append(list, field{name: "prefix", value: strconv.Quote(*a.Prefix)})
	}
	return list
}

// validate checks one assignment.
func (a *AssignmentSpec) validate(r report) {
	r.checkName("skill", a.Skill)
	if a.Prefix != nil && *a.Prefix != "" {
		r.checkName("prefix", *a.Prefix)
	}
	r.check(a.Tools == nil || len(a.Tools) > 0, "tools", "must name a tool; leave it out for all tools")
	for i, name := range a.Tools {
		r.checkToolName(fmt.Sprintf("tools[%d]", i), name)
	}
}

// validateAssignments checks each assignment of a list. A skill may occur once.
func validateAssignments(r report, list *[]AssignmentSpec) {
	if list == nil {
		return
	}
	seen := map[string]bool{}
	for i, a := range *list {
		at := r.below("skills").below(fmt.Sprintf("[%d]", i))
		a.validate(at)
		at.check(!seen[a.Skill], "skill", fmt.Sprintf("%q is named twice", a.Skill))
		seen[a.Skill] = true
	}
}

// SkillSet is the skills of an agent at one revision.
type SkillSet struct {
	Revision int64 // of the agent; skills that change while they are read have a later one
	HasModel bool  // clients can ask the agent itself
	Plans    bool  // it may submit plans
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
func (a *AssignedSkill) Server() (tool.Server, error) { return a.row.buildServer(a.box) }

// AssignedSkills reads an agent's skills, by name, from the database. It returns ErrNotFound if there is no such agent.
func (s *Service) AssignedSkills(ctx context.Context, agentID uuid.UUID) (SkillSet, error) {
	var set SkillSet
	batch := &pgx.Batch{}
	// The revision is read first: a skill that changes between the two statements then has a later one.
	batch.Queue(`SELECT revision, model IS NOT NULL, plans FROM agents WHERE id = $1 AND deleted_at IS NULL`, agentID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&set.Revision, &set.HasModel, &set.Plans) })
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
	err := a.row.scan(row, &a.AllowedTools, &prefix)
	a.Prefix = a.Name
	if prefix != nil {
		a.Prefix = *prefix
	}
	return a, err
}
