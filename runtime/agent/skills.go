package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Skill returns a cached skill, and its server with decrypted secrets. It returns ErrNotFound for a deleted skill.
func (s *Service) Skill(ctx context.Context, id uuid.UUID) (*Skill, tool.Server, error) {
	r, err := s.skills.Get(ctx, id, func(ctx context.Context) (cachedSkill, error) {
		skill, server, err := s.FreshSkill(ctx, id)
		return cachedSkill{skill, server}, err
	})
	return r.skill, r.server, err
}

// FreshSkill does the same from the database.
func (s *Service) FreshSkill(ctx context.Context, id uuid.UUID) (*Skill, tool.Server, error) {
	var fresh Fresh
	batch := &pgx.Batch{}
	s.queueFreshSkill(batch, id, &fresh)
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, tool.Server{}, err
	}
	return fresh.Skill, fresh.Server, nil
}

// Fresh is the present state that an approved call is compared with before it is sent.
type Fresh struct {
	Skill      *Skill
	Server     tool.Server
	Assigned   bool // the agent exists and may use the tool
	KeyRevoked bool // the key that the call was made with
}

// QueueFresh adds the reads of a [Fresh] to a batch. Closing the batch returns [ErrNotFound] if there is no such skill.
func (s *Service) QueueFresh(batch *pgx.Batch, agentID, skillID uuid.UUID, toolName string, call uuid.UUID, into *Fresh) {
	s.queueFreshSkill(batch, skillID, into)
	queueAssigned(batch, agentID, skillID, toolName, &into.Assigned)
	batch.Queue(`SELECT EXISTS (SELECT FROM agent_keys WHERE revoked_at IS NOT NULL AND id = ANY(`+audit.FirstCredential("$1", "$2")+`))`,
		call, audit.AgentKey).QueryRow(func(row pgx.Row) error { return row.Scan(&into.KeyRevoked) })
}

func (s *Service) queueFreshSkill(batch *pgx.Batch, id uuid.UUID, into *Fresh) {
	batch.Queue(skillSelect+`s.id = $1`, id).Query(func(rows pgx.Rows) error {
		row, err := collectSkillRow(rows, id)
		if err != nil {
			return err
		}
		into.Skill = &row.Skill
		into.Server, err = row.buildServer(s.box)
		return err
	})
}

// SkillByName reads a skill from the database. ErrNotFound.
func (s *Service) SkillByName(ctx context.Context, name string) (*Skill, error) {
	if !tool.ValidName(name) {
		return nil, fmt.Errorf("skill %q: %w", name, ErrNotFound)
	}
	row, err := readSkillRow(ctx, s.pool, `s.name = $1`, name)
	if err != nil {
		return nil, err
	}
	return &row.Skill, nil
}

// Skills lists skills by name, from the one after the cursor. It returns the cursor of the next page, or "" on the last one.
func (s *Service) Skills(ctx context.Context, after string, limit int) ([]Skill, string, error) {
	limit = postgres.PageLength(limit)
	rows, _ := s.pool.Query(ctx, `SELECT `+skillColumns+` FROM skills s
		WHERE s.deleted_at IS NULL AND s.name > $1 ORDER BY s.name LIMIT $2`, after, limit+1)
	found, err := pgx.CollectRows(rows, scanSkill)
	if err != nil {
		return nil, "", fmt.Errorf("list skills: %w", err)
	}
	skills := make([]Skill, len(found))
	for i, row := range found {
		skills[i] = row.Skill
	}
	if len(skills) <= limit {
		return skills, "", nil
	}
	return skills[:limit], skills[limit-1].Name, nil
}

// CreateSkill registers a skill. The error also lists the invalid fields in known. Errors: *fault.InvalidError, ErrExists.
func (s *Service) CreateSkill(ctx context.Context, by audit.Actor, spec SkillSpec, known ...fault.Field) (*Skill, error) {
	r := newReport(known...)
	state := spec.buildState(r)
	state.validate(r, s.limits)
	if err := r.err(); err != nil {
		return nil, fmt.Errorf("create skill %q: %w", spec.Name, err)
	}
	public := s.lookUpHosts(ctx, state.httpHosts()...)
	var skill *Skill
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		e.public = public
		if err := ensureAbsent(readSkillRow(ctx, e.tx, `s.name = $1`, spec.Name)); err != nil {
			return err
		}
		if err := e.requirePolicies(ctx, r, state); err != nil {
			return err
		}
		if err := r.err(); err != nil {
			return err
		}
		id, err := e.insertSkill(ctx, spec.Name, state)
		if err != nil || id == uuid.Nil {
			return err
		}
		skill, err = e.readSkill(ctx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create skill %s: %w", spec.Name, err)
	}
	return skill, nil
}

// UpdateSkill changes a skill. A patch without effect makes no new revision. The error also lists the invalid fields in known.
// Errors: ErrChanged, *fault.InvalidError, ErrNotFound.
func (s *Service) UpdateSkill(ctx context.Context, by audit.Actor, id uuid.UUID, patch SkillPatch, known ...fault.Field) (*Skill, error) {
	return s.changeSkill(ctx, by, id, patch.Revision, s.lookUpHosts(ctx, patch.httpHosts()...), patch.applyTo, known...)
}

// UpdateTool changes the settings of one tool of a skill. The server must have offered the tool at some time, or the tool must
// have settings; [Service.Apply] also accepts other tools. Errors: those of UpdateSkill, tool.ErrNotFound.
func (s *Service) UpdateTool(ctx context.Context, by audit.Actor, id uuid.UUID, toolName string, patch ToolPatch) (*Skill, error) {
	if err := s.knowsTool(ctx, id, toolName); err != nil {
		return nil, fmt.Errorf("update tool %q of skill %s: %w", toolName, id, err)
	}
	return s.changeSkill(ctx, by, id, patch.Revision, nil, func(_ report, before *skillState) *skillState {
		changed := *before
		changed.Tools = maps.Clone(before.Tools)
		if changed.Tools == nil {
			changed.Tools = map[string]ToolSettings{}
		}
		changed.Tools[toolName] = patch.applyTo(before.Tools[toolName])
		changed.Tools = normalizeTools(changed.Tools)
		return &changed
	})
}

// knowsTool returns tool.ErrNotFound for a tool without settings that the server never offered. Settings under a misspelt name
// would have no effect.
func (s *Service) knowsTool(ctx context.Context, id uuid.UUID, toolName string) error {
	skill, _, err := s.FreshSkill(ctx, id)
	if err != nil {
		return err
	}
	if _, said := skill.Tools[toolName]; said {
		return nil
	}
	records, err := s.discovery.Records(ctx, id)
	if err == nil && !slices.ContainsFunc(records, func(r tool.Record) bool { return r.Name == toolName }) {
		err = tool.ErrNotFound
	}
	return err
}

func (s *Service) changeSkill(ctx context.Context, by audit.Actor, id uuid.UUID, revision *int64, public map[string]bool,
	apply func(report, *skillState) *skillState, known ...fault.Field,
) (*Skill, error) {
	var skill *Skill
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		e.public = public
		row, err := readSkillRow(ctx, e.tx, `s.id = $1`, id)
		if err != nil {
			return err
		}
		if err := checkRevision(revision, row.Revision); err != nil {
			return err
		}
		before, err := row.buildState(e.box)
		if err != nil {
			return err
		}
		r := newReport(known...)
		after := apply(r, before)
		after.validate(r, e.limits)
		if err := e.requirePolicies(ctx, r, after); err != nil {
			return err
		}
		if err := r.err(); err != nil {
			return err
		}
		if changes := diffFields(before.listFields(), after.listFields()); len(changes) > 0 {
			if err := e.updateSkill(ctx, row, after, changes); err != nil {
				return err
			}
		}
		skill, err = e.readSkill(ctx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("update skill %s: %w", id, err)
	}
	return skill, nil
}

// DeleteSkill deletes a skill, its assignments and its connections to the server. Its calls are kept. ErrNotFound.
func (s *Service) DeleteSkill(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		row, err := readSkillRow(ctx, e.tx, `s.id = $1`, id)
		if err != nil {
			return err
		}
		return e.deleteSkill(ctx, row)
	})
	if err != nil {
		return fmt.Errorf("delete skill %s: %w", id, err)
	}
	return nil
}

func (e *edit) deleteSkill(ctx context.Context, row *skillRow) error {
	id := row.ID
	if err := e.touchUsers(ctx, id); err != nil {
		return err
	}
	for _, sql := range []string{`DELETE FROM assignments WHERE skill_id = $1`, `DELETE FROM skill_listings WHERE skill_id = $1`} {
		if _, err := e.tx.Exec(ctx, sql, id); err != nil {
			return err
		}
	}
	_, err := e.tx.Exec(ctx, `UPDATE skills SET deleted_at = holdpoint_now(), secrets = NULL,
			revision = revision + 1, updated_at = holdpoint_now() WHERE id = $1`, id)
	if err != nil {
		return err
	}
	if err := e.dropDocument(ctx, row.API); err != nil {
		return err
	}
	e.recordChange(audit.SkillDeleted, id, auditData(row.Name, nil))
	e.deleted = append(e.deleted, row)
	if e.skillDeleted != nil {
		if err := e.skillDeleted(ctx, e.tx, id); err != nil {
			return err
		}
	}
	return e.deleteLabel(ctx, labeled{KindSkill, row.Name})
}

func (e *edit) readSkill(ctx context.Context, id uuid.UUID) (*Skill, error) {
	row, err := readSkillRow(ctx, e.tx, `s.id = $1`, id)
	if err != nil {
		return nil, err
	}
	return &row.Skill, nil
}

// Reconnected gives the agents of a skill a new catalog after a person connected the skill.
func (s *Service) Reconnected(ctx context.Context, id uuid.UUID) error {
	return s.changeRegistry(ctx, audit.System(), false, func(e *edit) error {
		e.changed = true
		return e.touchUsers(ctx, id)
	})
}

// AcceptTool accepts a tool's present definition, which must have the pin that the operator saw. The skill's agents get a new
// catalog. Errors: tool.ErrNotFound, tool.ErrNotCurrent.
func (s *Service) AcceptTool(ctx context.Context, by audit.Actor, skillID uuid.UUID, toolName string, pin tool.Pin) error {
	return s.changeRegistry(ctx, by, false, func(e *edit) error { return e.acceptTool(ctx, skillID, toolName, pin) })
}

func (e *edit) acceptTool(ctx context.Context, skillID uuid.UUID, toolName string, pin tool.Pin) error {
	row, err := readSkillRow(ctx, e.tx, `s.id = $1`, skillID)
	if err != nil {
		return err
	}
	if waits, err := e.proposeTool(ctx, row, toolName, pin); err != nil || waits {
		return err
	}
	return e.settleTool(ctx, skillID, toolName, pin, e.discovery.Accept)
}

// RefuseTool blocks a tool's present definition: calls of it are not sent, and agents are not offered it. AcceptTool reverses
// that. Otherwise it works like AcceptTool.
func (s *Service) RefuseTool(ctx context.Context, by audit.Actor, skillID uuid.UUID, toolName string, pin tool.Pin) error {
	return s.changeRegistry(ctx, by, false, func(e *edit) error { return e.settleTool(ctx, skillID, toolName, pin, s.discovery.Refuse) })
}

func (e *edit) settleTool(ctx context.Context, skillID uuid.UUID, toolName string, pin tool.Pin,
	settle func(context.Context, pgx.Tx, uuid.UUID, string, tool.Pin, audit.Actor) error,
) error {
	if err := settle(ctx, e.tx, skillID, toolName, pin, e.by); err != nil {
		return err
	}
	e.changed = true
	return e.touchUsers(ctx, skillID)
}

// ensureAbsent returns ErrExists if a lookup found something.
func ensureAbsent[T any](_ T, err error) error {
	if err == nil {
		return ErrExists
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Risk says how carefully a reviewer should look at a call.
type Risk string

// The risks of calls.
const (
	RiskStandard    Risk = "standard"
	RiskDestructive Risk = "destructive" // by the server's hint
	RiskMarked      Risk = RiskHigh      // an operator marked the tool
)

// RiskOf returns the risk of calls of a skill's tool with this definition. The operator's setting counts; a server's hint can only
// raise the risk.
func (s *Service) RiskOf(ctx context.Context, skill uuid.UUID, name string, d tool.Definition) (Risk, error) {
	return s.RiskOfClaim(ctx, skill, name, ClaimsDestructive(d))
}

// ClaimsDestructive reports whether a tool's server claims that the tool is destructive.
func ClaimsDestructive(d tool.Definition) bool {
	hint := d.Hints().DestructiveHint
	return hint != nil && *hint
}

// RiskOfClaim is [Service.RiskOf] with the hint of the definition.
func (s *Service) RiskOfClaim(ctx context.Context, skill uuid.UUID, name string, destructive bool) (Risk, error) {
	found, _, err := s.Skill(ctx, skill)
	switch {
	case errors.Is(err, ErrNotFound): // deleted: the decision reports that
	case err != nil:
		return "", fmt.Errorf("read risk of tool %s: %w", name, err)
	case found.Tools[name].Risk != "":
		return RiskMarked, nil
	}
	if destructive {
		return RiskDestructive, nil
	}
	return RiskStandard, nil
}
