package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// agentState holds the settings of an agent, with its secrets in clear.
type agentState struct {
	Instructions string
	Model        *ModelSpec
	AgentSettings
}

// agentSecrets are stored encrypted.
type agentSecrets struct {
	APIKey string `json:"api_key"`
}

// agentPurpose binds sealed values to the agents table.
const agentPurpose = "agent"

const (
	limitColumns = `calls_per_minute, concurrency, pending, conversation_turns, conversation_tokens, conversation_cost, conversation_time_ms`
	agentColumns = `a.id, a.name, a.instructions, a.model, a.revision, a.created_at, a.updated_at, ` + limitColumns + `, ` + agentSettingValues
)

func scanAgent(row pgx.CollectableRow) (*Agent, error) {
	a := &Agent{}
	l := &a.Limits
	err := row.Scan(append([]any{
		&a.ID, &a.Name, &a.Instructions, &a.Model, &a.Revision, &a.CreatedAt, &a.UpdatedAt,
		&l.CallsPerMinute, &l.Concurrency, &l.Pending, &l.ConversationTurns, &l.ConversationTokens, &l.ConversationCost,
		(*milliseconds)(&l.ConversationTime),
	}, a.settingTargets()...)...)
	return a, err
}

func readAgentRow(ctx context.Context, db postgres.Querier, where string, arg any) (*Agent, error) {
	rows, _ := db.Query(ctx, `SELECT `+agentColumns+` FROM agents a WHERE a.deleted_at IS NULL AND `+where, arg)
	a, err := pgx.CollectExactlyOneRow(rows, scanAgent)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	return a, nil
}

// Authenticate returns the agent that has this key. Results are cached until the registry changes, in any process.
// ErrUnauthenticated.
func (s *Service) Authenticate(ctx context.Context, key string) (*Agent, error) {
	if !secret.AgentKey.Is(key) {
		return nil, ErrUnauthenticated
	}
	hash := secret.HashOf(key)
	return s.byKey.Get(ctx, hash, func(ctx context.Context) (*Agent, error) {
		rows, _ := s.pool.Query(ctx, `SELECT `+keyColumns+` FROM agent_keys WHERE secret_hash = $1 AND `+keyValid, hash[:])
		found, err := pgx.CollectExactlyOneRow(rows, scanKey)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, ErrUnauthenticated
		}
		if err != nil {
			return nil, fmt.Errorf("read agent key: %w", err)
		}
		a, err := readAgentRow(ctx, s.pool, `a.id = $1`, found.AgentID)
		if errors.Is(err, ErrNotFound) {
			return nil, ErrUnauthenticated
		}
		if err != nil {
			return nil, err
		}
		a.KeyID = found.ID
		return a, nil
	})
}

// AgentByName returns a cached agent, as Authenticate does. ErrNotFound.
func (s *Service) AgentByName(ctx context.Context, name string) (*Agent, error) {
	if !tool.ValidName(name) {
		return nil, fmt.Errorf("agent %q: %w", name, ErrNotFound)
	}
	a, err := s.byName.Get(ctx, name, func(ctx context.Context) (*Agent, error) {
		return readAgentRow(ctx, s.pool, `a.name = $1`, name)
	})
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", name, err)
	}
	return a, nil
}

// AgentByID returns a cached agent, as Authenticate does. ErrNotFound.
func (s *Service) AgentByID(ctx context.Context, id uuid.UUID) (*Agent, error) {
	a, err := s.byID.Get(ctx, id, func(ctx context.Context) (*Agent, error) {
		return readAgentRow(ctx, s.pool, `a.id = $1`, id)
	})
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", id, err)
	}
	return a, nil
}

// Agents lists agents by name, from the one after the cursor. It returns the cursor of the next page, or "" on the last one.
func (s *Service) Agents(ctx context.Context, after string, limit int) ([]Agent, string, error) {
	limit = postgres.PageLength(limit)
	rows, _ := s.pool.Query(ctx, `SELECT `+agentColumns+` FROM agents a
		WHERE a.deleted_at IS NULL AND a.name > $1 ORDER BY a.name LIMIT $2`, after, limit+1)
	found, err := pgx.CollectRows(rows, scanAgent)
	if err != nil {
		return nil, "", fmt.Errorf("list agents: %w", err)
	}
	agents := make([]Agent, len(found))
	for i, a := range found {
		agents[i] = *a
	}
	if len(agents) <= limit {
		return agents, "", nil
	}
	return agents[:limit], agents[limit-1].Name, nil
}

// Model reads an agent's model, with its API key, from the database, because each turn of a conversation needs the current one.
// It returns nil if the agent has no model. ErrNotFound.
func (s *Service) Model(ctx context.Context, agentID uuid.UUID) (*ModelSpec, error) {
	_, state, err := s.readAgentState(ctx, s.pool, `a.id = $1`, agentID)
	if err != nil {
		return nil, fmt.Errorf("read model of agent %s: %w", agentID, err)
	}
	return state.Model, nil
}

// readAgentState reads an agent with its secrets.
func (s *Service) readAgentState(ctx context.Context, db postgres.Querier, where string, arg any) (*Agent, *agentState, error) {
	a, err := readAgentRow(ctx, db, where, arg)
	if err != nil {
		return nil, nil, err
	}
	state := &agentState{Instructions: a.Instructions, AgentSettings: a.AgentSettings}
	if a.Model == nil {
		return a, state, nil
	}
	state.Model = &ModelSpec{}
	if err := json.Unmarshal(a.Model, state.Model); err != nil {
		return nil, nil, fmt.Errorf("read model: %w", err)
	}
	rows, _ := db.Query(ctx, `SELECT secrets FROM agents WHERE id = $1`, a.ID)
	sealed, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, nil, err
	}
	var secrets agentSecrets
	if err := unsealSecrets(s.box, agentPurpose, a.ID, sealed, &secrets); err != nil {
		return nil, nil, fmt.Errorf("read secrets of agent %s: %w", a.Name, err)
	}
	state.Model.APIKey = secrets.APIKey
	return a, state, nil
}

// listFields lists an agent's fields in the order of holdpoint.yaml.
func (a *agentState) listFields() []field {
	if a == nil {
		return nil
	}
	var list fieldList
	list.add("instructions", a.Instructions)
	list = append(list, a.Model.listFields()...)
	return append(list, a.listSettings()...)
}

// validate checks the settings of an agent.
func (a *agentState) validate(r report) {
	r.checkText("instructions", a.Instructions, maxInstructions)
	a.validateSettings(r)
	a.Limits.validate(r.below("limits"))
	r.checkEscalation(a.Team, a.EscalateTo, a.Escalation)
	if a.Model == nil {
		return
	}
	a.Model.validate(r.below("model"))
	r.check(a.Limits.ConversationCost <= 0 || a.Model.hasPrice(), "limits.conversation_cost",
		"needs a price to count by: model.input_price or model.output_price")
}

// CreateAgent makes an agent, with its assignments if the spec has any. The error also lists the invalid fields in known.
// Errors: *fault.InvalidError, ErrExists.
func (s *Service) CreateAgent(ctx context.Context, by audit.Actor, spec AgentSpec, known ...fault.Field) (*Agent, error) {
	r := newReport(known...)
	state := spec.buildState(r)
	if err := r.err(); err != nil {
		return nil, fmt.Errorf("create agent %q: %w", spec.Name, err)
	}
	var a *Agent
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		if err := ensureAbsent(readAgentRow(ctx, e.tx, `a.name = $1`, spec.Name)); err != nil {
			return err
		}
		id, err := e.insertAgent(ctx, spec.Name, state)
		if err != nil {
			return err
		}
		a, err = e.completeAgent(ctx, r, id, spec.Name, spec.Skills)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create agent %s: %w", spec.Name, err)
	}
	return a, nil
}

// UpdateAgent changes an agent. A patch without effect makes no new revision. The error also lists the invalid fields in known.
// Errors: ErrChanged, *fault.InvalidError, ErrNotFound.
func (s *Service) UpdateAgent(ctx context.Context, by audit.Actor, id uuid.UUID, patch AgentPatch, known ...fault.Field) (*Agent, error) {
	var a *Agent
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		row, before, err := s.readAgentState(ctx, e.tx, `a.id = $1`, id)
		if err != nil {
			return err
		}
		if err := checkRevision(patch.Revision, row.Revision); err != nil {
			return err
		}
		r := newReport(known...)
		after := patch.applyTo(before)
		after.validate(r)
		validateAssignments(r, patch.Skills)
		if err := r.err(); err != nil {
			return err
		}
		if changes := diffFields(before.listFields(), after.listFields()); len(changes) > 0 {
			if err := e.updateAgent(ctx, row, after, changes); err != nil {
				return err
			}
		}
		a, err = e.completeAgent(ctx, r, id, row.Name, patch.Skills)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("update agent %s: %w", id, err)
	}
	return a, nil
}

// DeleteAgent deletes an agent, revokes its keys and ends its conversations. Its calls are kept. ErrNotFound.
func (s *Service) DeleteAgent(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		row, err := readAgentRow(ctx, e.tx, `a.id = $1`, id)
		if err != nil {
			return err
		}
		return e.deleteAgent(ctx, row)
	})
	if err != nil {
		return fmt.Errorf("delete agent %s: %w", id, err)
	}
	return nil
}

func (e *edit) deleteAgent(ctx context.Context, row *Agent) error {
	for _, sql := range []string{
		`UPDATE agents SET deleted_at = holdpoint_now(), updated_at = holdpoint_now(), secrets = NULL WHERE id = $1`,
		`UPDATE agent_keys SET revoked_at = holdpoint_now() WHERE agent_id = $1 AND revoked_at IS NULL`,
		`DELETE FROM assignments WHERE agent_id = $1`,
	} {
		if _, err := e.tx.Exec(ctx, sql, row.ID); err != nil {
			return err
		}
	}
	e.recordChange(audit.AgentDeleted, row.ID, auditData(row.Name, nil))
	for _, f := range e.onAgentDeleted {
		if err := f(ctx, e.tx, row.ID); err != nil {
			return err
		}
	}
	return e.deleteLabel(ctx, labeled{KindAgent, row.Name})
}

// completeAgent replaces the assignments, unless skills is nil, and returns the agent after all changes.
func (e *edit) completeAgent(ctx context.Context, r report, id uuid.UUID, name string, skills *[]AssignmentSpec) (*Agent, error) {
	if skills != nil {
		if _, err := e.assignAll(ctx, r, id, name, *skills); err != nil {
			return nil, err
		}
		if err := r.err(); err != nil {
			return nil, err
		}
	}
	if err := e.bumpRevisions(ctx); err != nil {
		return nil, err
	}
	return readAgentRow(ctx, e.tx, `a.id = $1`, id)
}

// buildState validates a spec and fills in its defaults.
func (spec *AgentSpec) buildState(r report) *agentState {
	r.checkName("name", spec.Name)
	state := &agentState{Instructions: spec.Instructions, Model: spec.Model, AgentSettings: spec.settings()}
	state.validate(r)
	validateAssignments(r, spec.Skills)
	return state
}

// applyTo returns the state of an agent after the patch.
func (patch AgentPatch) applyTo(a *agentState) *agentState {
	changed := *a
	setIfGiven(&changed.Instructions, patch.Instructions)
	changed.AgentSettings = patch.applySettings(a.AgentSettings)
	changed.Model = a.Model.applyPatch(patch.Model)
	return &changed
}

func (e *edit) insertAgent(ctx context.Context, name string, a *agentState) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, err
	}
	model, sealed, err := e.sealModel(id, a.Model)
	if err != nil {
		return id, err
	}
	_, err = e.tx.Exec(ctx, `INSERT INTO agents (id, name, instructions, model, secrets, `+limitColumns+`, `+agentSettingColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, `+agentSettingParameters+`)`, a.arguments(id, name, model, sealed)...)
	if err != nil {
		return id, err
	}
	e.recordChange(audit.AgentCreated, id, auditData(name, diffFields(nil, a.listFields())))
	return id, e.deleteLabel(ctx, labeled{KindAgent, name})
}

func (e *edit) updateAgent(ctx context.Context, row *Agent, a *agentState, changes []FieldChange) error {
	model, sealed, err := e.sealModel(row.ID, a.Model)
	if err != nil {
		return err
	}
	_, err = e.tx.Exec(ctx, `UPDATE agents SET (instructions, model, secrets, `+limitColumns+`, `+agentSettingColumns+`) =
			($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, `+agentSettingParameters+`), updated_at = holdpoint_now()
		WHERE id = $1 AND name = $2`, a.arguments(row.ID, row.Name, model, sealed)...)
	if err != nil {
		return err
	}
	e.recordChange(audit.AgentUpdated, row.ID, auditData(row.Name, changes))
	e.touchAgent(row.ID)
	return nil
}

// arguments returns the arguments of the statements above.
func (a *agentState) arguments(id uuid.UUID, name string, model json.RawMessage, sealed []byte) []any {
	l := &a.Limits
	return append([]any{
		id, name, a.Instructions, model, sealed, l.CallsPerMinute, l.Concurrency, l.Pending,
		l.ConversationTurns, l.ConversationTokens, l.ConversationCost, time.Duration(l.ConversationTime).Milliseconds(),
	}, a.settingArguments()...)
}
