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
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Skill and its server with decrypted secrets: from memory, as Authenticate. ErrNotFound when deleted.
func (s *Service) Skill(ctx context.Context, id uuid.UUID) (*Skill, tool.Server, error) {
	r, err := s.skills.Get(ctx, id, func(ctx context.Context) (registered, error) {
		skill, server, err := s.FreshSkill(ctx, id)
		return registered{skill, server}, err
	})
	return r.skill, r.server, err
}

// FreshSkill reads the database, for the check at dispatch.
func (s *Service) FreshSkill(ctx context.Context, id uuid.UUID) (*Skill, tool.Server, error) {
	row, err := oneSkill(ctx, s.pool, `s.id = $1`, id)
	if err != nil {
		return nil, tool.Server{}, err
	}
	server, err := row.server(s.box)
	if err != nil {
		return nil, tool.Server{}, err
	}
	return &row.Skill, server, nil
}

// SkillByName reads the database. ErrNotFound.
func (s *Service) SkillByName(ctx context.Context, name string) (*Skill, error) {
	if !tool.ValidName(name) {
		return nil, fmt.Errorf("skill %q: %w", name, ErrNotFound)
	}
	row, err := oneSkill(ctx, s.pool, `s.name = $1`, name)
	if err != nil {
		return nil, err
	}
	return &row.Skill, nil
}

// Skills lists by name, those after the given one, and returns the cursor of the
// next page (empty: none).
func (s *Service) Skills(ctx context.Context, after string, limit int) ([]Skill, string, error) {
	limit = postgres.PageLength(limit)
	rows, err := s.pool.Query(ctx, `SELECT `+skillColumns+` FROM skills s
		WHERE s.deleted_at IS NULL AND s.name > $1 ORDER BY s.name LIMIT $2`, after, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list skills: %w", err)
	}
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

// CreateSkill registers a skill. What is known to be wrong with the spec joins what is found wrong here.
// Errors: *InvalidError, ErrExists.
func (s *Service) CreateSkill(ctx context.Context, by audit.Actor, spec SkillSpec, known ...FieldProblem) (*Skill, error) {
	r := newReport(known...)
	state := spec.state(r)
	state.validate(r, s.limits)
	if err := r.err(); err != nil {
		return nil, fmt.Errorf("create skill %q: %w", spec.Name, err)
	}
	public := s.lookUpHosts(ctx, state.httpHosts()...)
	var skill *Skill
	err := s.edit(ctx, by, false, func(e *edit) error {
		e.public = public
		if err := absent(oneSkill(ctx, e.tx, `s.name = $1`, spec.Name)); err != nil {
			return err
		}
		id, err := e.insertSkill(ctx, spec.Name, state)
		if err != nil {
			return err
		}
		skill, err = e.skill(ctx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create skill %s: %w", spec.Name, err)
	}
	return skill, nil
}

// UpdateSkill changes a skill. A patch that changes nothing makes no new
// revision. What is known to be wrong with it joins what is found wrong here. Errors: ErrChanged, *InvalidError, ErrNotFound.
func (s *Service) UpdateSkill(ctx context.Context, by audit.Actor, id uuid.UUID, patch SkillPatch, known ...FieldProblem) (*Skill, error) {
	return s.changeSkill(ctx, by, id, patch.Revision, s.lookUpHosts(ctx, patch.httpHosts()...), patch.apply, known...)
}

// UpdateTool changes what an operator says of one tool of a skill: one that its server offers or offered, or that something is
// said of already. Of others [Service.Apply] says it ahead. Otherwise it is as UpdateSkill. Errors: those, tool.ErrNotFound.
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
		changed.Tools[toolName] = patch.apply(before.Tools[toolName])
		changed.Tools = normalTools(changed.Tools)
		return &changed
	})
}

// knowsTool reports as an error that nothing is known of a tool, as when its name is misspelt: what is said of it would
// leave the one that is meant as it was.
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
	apply func(report, *skillState) *skillState, known ...FieldProblem,
) (*Skill, error) {
	var skill *Skill
	err := s.edit(ctx, by, false, func(e *edit) error {
		e.public = public
		row, err := oneSkill(ctx, e.tx, `s.id = $1`, id)
		if err != nil {
			return err
		}
		if err := current(revision, row.Revision); err != nil {
			return err
		}
		before, err := row.state(e.box)
		if err != nil {
			return err
		}
		r := newReport(known...)
		after := apply(r, before)
		after.validate(r, e.limits)
		if err := r.err(); err != nil {
			return err
		}
		if changes := diff(before.fields(), after.fields()); len(changes) > 0 {
			if err := e.updateSkill(ctx, row, after, changes); err != nil {
				return err
			}
		}
		skill, err = e.skill(ctx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("update skill %s: %w", id, err)
	}
	return skill, nil
}

// DeleteSkill takes a skill away from every agent, and its server's
// connections down. Its calls stay. ErrNotFound.
func (s *Service) DeleteSkill(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	var transport tool.Transport
	err := s.edit(ctx, by, false, func(e *edit) error {
		row, err := oneSkill(ctx, e.tx, `s.id = $1`, id)
		if err != nil {
			return err
		}
		transport = row.Transport
		if err := e.touchUsers(ctx, id); err != nil {
			return err
		}
		for _, sql := range []string{`DELETE FROM assignments WHERE skill_id = $1`, `DELETE FROM skill_listings WHERE skill_id = $1`} {
			if _, err := e.tx.Exec(ctx, sql, id); err != nil {
				return err
			}
		}
		_, err = e.tx.Exec(ctx, `UPDATE skills SET deleted_at = holdpoint_now(), secrets = NULL,
			revision = revision + 1, updated_at = holdpoint_now() WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if err := e.dropDocument(ctx, row.API); err != nil {
			return err
		}
		e.did("skill.deleted", id, auditData(row.Name, nil))
		if s.skillDeleted == nil {
			return nil
		}
		return s.skillDeleted(ctx, e.tx, id)
	})
	if err != nil {
		return fmt.Errorf("delete skill %s: %w", id, err)
	}
	if source, err := s.discovery.Source(transport); err == nil {
		source.Forget(id)
	}
	return nil
}

func (e *edit) skill(ctx context.Context, id uuid.UUID) (*Skill, error) {
	row, err := oneSkill(ctx, e.tx, `s.id = $1`, id)
	if err != nil {
		return nil, err
	}
	return &row.Skill, nil
}

// Reconnected is told that somebody connected a skill: agents that have it get a new catalogue.
func (s *Service) Reconnected(ctx context.Context, id uuid.UUID) error {
	return s.edit(ctx, audit.System(), false, func(e *edit) error {
		e.changed = true
		return e.touchUsers(ctx, id)
	})
}

// AcceptTool makes a tool's present definition the accepted one. The pin is
// what the operator saw. Agents that have the skill get a new catalogue. Errors: tool.ErrNotFound,
// tool.ErrNotCurrent.
func (s *Service) AcceptTool(ctx context.Context, by audit.Actor, skillID uuid.UUID, toolName string, pin tool.Pin) error {
	return s.settleTool(ctx, by, skillID, toolName, pin, s.discovery.Accept)
}

// RefuseTool says of a tool's present definition that no call of it is sent, and that no agent is offered it.
// Otherwise it is as AcceptTool, which takes it back.
func (s *Service) RefuseTool(ctx context.Context, by audit.Actor, skillID uuid.UUID, toolName string, pin tool.Pin) error {
	return s.settleTool(ctx, by, skillID, toolName, pin, s.discovery.Refuse)
}

func (s *Service) settleTool(ctx context.Context, by audit.Actor, skillID uuid.UUID, toolName string, pin tool.Pin,
	settle func(context.Context, pgx.Tx, uuid.UUID, string, tool.Pin, audit.Actor) error,
) error {
	return s.edit(ctx, by, false, func(e *edit) error {
		if err := settle(ctx, e.tx, skillID, toolName, pin, by); err != nil {
			return err
		}
		e.changed = true
		return e.touchUsers(ctx, skillID)
	})
}

// absent turns having found something into ErrExists.
func absent[T any](_ T, err error) error {
	if err == nil {
		return ErrExists
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
