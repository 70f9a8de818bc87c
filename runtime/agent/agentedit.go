package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
)

// CreateAgent makes an agent, with its assignments if the spec names any.
// What is known to be wrong with the spec joins what is found wrong here. Errors: *InvalidError, ErrExists.
func (s *Service) CreateAgent(ctx context.Context, by audit.Actor, spec AgentSpec, known ...FieldProblem) (*Agent, error) {
	r := newReport(known...)
	state := spec.state(r)
	if err := r.err(); err != nil {
		return nil, fmt.Errorf("create agent %q: %w", spec.Name, err)
	}
	var a *Agent
	err := s.edit(ctx, by, false, func(e *edit) error {
		if err := absent(oneAgent(ctx, e.tx, `a.name = $1`, spec.Name)); err != nil {
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

// UpdateAgent changes an agent. A patch that changes nothing makes no new
// revision. What is known to be wrong with it joins what is found wrong here. Errors: ErrChanged, *InvalidError, ErrNotFound.
func (s *Service) UpdateAgent(ctx context.Context, by audit.Actor, id uuid.UUID, patch AgentPatch, known ...FieldProblem) (*Agent, error) {
	var a *Agent
	err := s.edit(ctx, by, false, func(e *edit) error {
		row, before, err := s.readAgent(ctx, e.tx, `a.id = $1`, id)
		if err != nil {
			return err
		}
		if err := current(patch.Revision, row.Revision); err != nil {
			return err
		}
		r := newReport(known...)
		after := patch.apply(before)
		after.validate(r)
		validateAssignments(r, patch.Skills)
		if err := r.err(); err != nil {
			return err
		}
		if changes := diff(before.fields(), after.fields()); len(changes) > 0 {
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

// DeleteAgent deletes an agent, revokes its keys and ends its conversations. Its calls stay. ErrNotFound.
func (s *Service) DeleteAgent(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	err := s.edit(ctx, by, false, func(e *edit) error {
		row, err := oneAgent(ctx, e.tx, `a.id = $1`, id)
		if err != nil {
			return err
		}
		for _, sql := range []string{
			`UPDATE agents SET deleted_at = holdpoint_now(), updated_at = holdpoint_now(), secrets = NULL WHERE id = $1`,
			`UPDATE agent_keys SET revoked_at = holdpoint_now() WHERE agent_id = $1 AND revoked_at IS NULL`,
			`DELETE FROM assignments WHERE agent_id = $1`,
		} {
			if _, err := e.tx.Exec(ctx, sql, id); err != nil {
				return err
			}
		}
		e.did("agent.deleted", id, auditData(row.Name, nil))
		for _, f := range s.onAgentDeleted {
			if err := f(ctx, e.tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete agent %s: %w", id, err)
	}
	return nil
}

// completeAgent replaces the assignments, if any are given, and reads the agent
// as it is after all.
func (e *edit) completeAgent(ctx context.Context, r report, id uuid.UUID, name string, skills *[]AssignmentSpec) (*Agent, error) {
	if skills != nil {
		if _, err := e.assignAll(ctx, r, id, name, *skills); err != nil {
			return nil, err
		}
		if err := r.err(); err != nil {
			return nil, err
		}
	}
	if err := e.grow(ctx); err != nil {
		return nil, err
	}
	return oneAgent(ctx, e.tx, `a.id = $1`, id)
}

// state is what a spec declares, with its defaults filled in.
func (spec AgentSpec) state(r report) *agentState {
	r.name("name", spec.Name)
	state := &agentState{
		Instructions: spec.Instructions, Model: spec.Model,
		WaitBudget: orDefault(spec.WaitBudget, DefaultWaitBudget),
		Endpoint:   endpointOf(&spec),
		Attention:  attention{spec.Team, spec.EscalateTo},
	}
	state.validate(r)
	validateAssignments(r, spec.Skills)
	return state
}

// apply returns the state that a patch makes of a.
func (patch AgentPatch) apply(a *agentState) *agentState {
	changed := *a
	set(&changed.Instructions, patch.Instructions)
	changed.Endpoint = a.Endpoint.with(&patch)
	changed.Attention = a.Attention.with(patch.Team, patch.EscalateTo)
	if patch.WaitBudget != nil {
		changed.WaitBudget = time.Duration(*patch.WaitBudget)
	}
	changed.Model = a.Model.patched(patch.Model)
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
	_, err = e.tx.Exec(ctx, `INSERT INTO agents (id, instructions, model, secrets, wait_budget_ms, team, escalate_to,
			error_style, reply_timeout_ms, calls_per_minute, concurrency,
			conversation_turns, conversation_tokens, conversation_cost, conversation_time_ms, pending, name)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), nullif($7, ''), $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
		append(a.columns(id, model, sealed), name)...)
	if err != nil {
		return id, err
	}
	e.did("agent.created", id, auditData(name, diff(nil, a.fields())))
	return id, nil
}

func (e *edit) updateAgent(ctx context.Context, row *Agent, a *agentState, changes []FieldChange) error {
	model, sealed, err := e.sealModel(row.ID, a.Model)
	if err != nil {
		return err
	}
	_, err = e.tx.Exec(ctx, `UPDATE agents SET instructions = $2, model = $3, secrets = $4, wait_budget_ms = $5,
		team = nullif($6, ''), escalate_to = nullif($7, ''), error_style = $8, reply_timeout_ms = $9,
		calls_per_minute = $10, concurrency = $11, conversation_turns = $12, conversation_tokens = $13, conversation_cost = $14,
		conversation_time_ms = $15, pending = $16, updated_at = holdpoint_now() WHERE id = $1`, a.columns(row.ID, model, sealed)...)
	if err != nil {
		return err
	}
	e.did("agent.updated", row.ID, auditData(row.Name, changes))
	e.touch(row.ID)
	return nil
}

// columns are an agent's values in the order in which the statements above name them.
func (a *agentState) columns(id uuid.UUID, model json.RawMessage, sealed []byte) []any {
	l := a.Endpoint.Limits
	return []any{
		id, a.Instructions, model, sealed, a.WaitBudget.Milliseconds(), a.Attention.Team, a.Attention.EscalateTo,
		a.Endpoint.ErrorStyle, a.Endpoint.ReplyTimeout.Milliseconds(), l.CallsPerMinute, l.Concurrency,
		l.ConversationTurns, l.ConversationTokens, l.ConversationCost, time.Duration(l.ConversationTime).Milliseconds(), l.Pending,
	}
}
