package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// agentState is all that an operator says of an agent, secrets in clear.
type agentState struct {
	Instructions string
	Model        *ModelSpec
	WaitBudget   time.Duration
	Endpoint     endpoint
	Attention    attention
}

// agentSecrets is what is stored encrypted.
type agentSecrets struct {
	APIKey string `json:"api_key"`
}

// agentPurpose binds sealed values to the agents table.
const agentPurpose = "agent"

const agentColumns = `a.id, a.name, a.instructions, a.model, a.wait_budget_ms,
	a.error_style, a.reply_timeout_ms, a.calls_per_minute, a.concurrency, a.pending,
	a.conversation_turns, a.conversation_tokens, a.conversation_cost, a.conversation_time_ms,
	coalesce(a.team, ''), coalesce(a.escalate_to, ''), a.revision, a.created_at, a.updated_at`

func scanAgent(row pgx.CollectableRow) (*Agent, error) {
	a := &Agent{}
	var waitMS, replyMS, conversationMS int64
	err := row.Scan(&a.ID, &a.Name, &a.Instructions, &a.Model, &waitMS,
		&a.ErrorStyle, &replyMS, &a.Limits.CallsPerMinute, &a.Limits.Concurrency, &a.Limits.Pending,
		&a.Limits.ConversationTurns, &a.Limits.ConversationTokens, &a.Limits.ConversationCost, &conversationMS,
		&a.Team, &a.EscalateTo, &a.Revision, &a.CreatedAt, &a.UpdatedAt)
	a.WaitBudget = time.Duration(waitMS) * time.Millisecond
	a.ReplyTimeoutSet = time.Duration(replyMS) * time.Millisecond
	a.Limits.ConversationTime = Duration(time.Duration(conversationMS) * time.Millisecond)
	a.ReplyTimeout = a.endpoint().replyTimeout()
	return a, err
}

// endpoint is what was said of the agent's endpoint.
func (a *Agent) endpoint() endpoint {
	return endpoint{ErrorStyle: a.ErrorStyle, ReplyTimeout: a.ReplyTimeoutSet, Limits: a.Limits}
}

func oneAgent(ctx context.Context, db querier, where string, arg any) (*Agent, error) {
	rows, err := db.Query(ctx, `SELECT `+agentColumns+` FROM agents a WHERE a.deleted_at IS NULL AND `+where, arg)
	if err != nil {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, scanAgent)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	return a, nil
}

// Authenticate finds the agent of a key. Answers come from memory and are dropped when anything in the registry
// changes, in whatever process. ErrUnauthenticated.
func (s *Service) Authenticate(ctx context.Context, key string) (*Agent, error) {
	if !secret.AgentKey.Is(key) {
		return nil, ErrUnauthenticated
	}
	hash := secret.HashOf(key)
	return s.byKey.Get(ctx, hash, func(ctx context.Context) (*Agent, error) {
		rows, err := s.pool.Query(ctx, `SELECT `+keyColumns+` FROM agent_keys WHERE secret_hash = $1 AND `+keyValid, hash[:])
		if err != nil {
			return nil, fmt.Errorf("read agent key: %w", err)
		}
		found, err := pgx.CollectExactlyOneRow(rows, scanKey)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, ErrUnauthenticated
		}
		if err != nil {
			return nil, fmt.Errorf("read agent key: %w", err)
		}
		a, err := oneAgent(ctx, s.pool, `a.id = $1`, found.AgentID)
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

// AgentByName answers from memory, as Authenticate. ErrNotFound.
func (s *Service) AgentByName(ctx context.Context, name string) (*Agent, error) {
	if !tool.ValidName(name) {
		return nil, fmt.Errorf("agent %q: %w", name, ErrNotFound)
	}
	a, err := s.byName.Get(ctx, name, func(ctx context.Context) (*Agent, error) {
		return oneAgent(ctx, s.pool, `a.name = $1`, name)
	})
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", name, err)
	}
	return a, nil
}

// AgentByID likewise.
func (s *Service) AgentByID(ctx context.Context, id uuid.UUID) (*Agent, error) {
	a, err := s.byID.Get(ctx, id, func(ctx context.Context) (*Agent, error) {
		return oneAgent(ctx, s.pool, `a.id = $1`, id)
	})
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", id, err)
	}
	return a, nil
}

// Agents lists by name, those after the given one, and returns the cursor of the
// next page (empty: none).
func (s *Service) Agents(ctx context.Context, after string, limit int) ([]Agent, string, error) {
	limit = postgres.PageLength(limit)
	rows, err := s.pool.Query(ctx, `SELECT `+agentColumns+` FROM agents a
		WHERE a.deleted_at IS NULL AND a.name > $1 ORDER BY a.name LIMIT $2`, after, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list agents: %w", err)
	}
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

// Model returns an agent's model with its api key, from the database: each turn of a conversation asks it anew. Nil: the
// agent has none. ErrNotFound.
func (s *Service) Model(ctx context.Context, agentID uuid.UUID) (*ModelSpec, error) {
	_, state, err := s.readAgent(ctx, s.pool, `a.id = $1`, agentID)
	if err != nil {
		return nil, fmt.Errorf("read model of agent %s: %w", agentID, err)
	}
	return state.Model, nil
}

// readAgent reads an agent with its secrets.
func (s *Service) readAgent(ctx context.Context, db querier, where string, arg any) (*Agent, *agentState, error) {
	a, err := oneAgent(ctx, db, where, arg)
	if err != nil {
		return nil, nil, err
	}
	state := &agentState{
		Instructions: a.Instructions, WaitBudget: a.WaitBudget, Endpoint: a.endpoint(), Attention: attention{a.Team, a.EscalateTo},
	}
	if a.Model == nil {
		return a, state, nil
	}
	state.Model = &ModelSpec{}
	if err := json.Unmarshal(a.Model, state.Model); err != nil {
		return nil, nil, fmt.Errorf("read model: %w", err)
	}
	rows, err := db.Query(ctx, `SELECT secrets FROM agents WHERE id = $1`, a.ID)
	if err != nil {
		return nil, nil, err
	}
	sealed, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, nil, err
	}
	var secrets agentSecrets
	if err := unseal(s.box, agentPurpose, a.ID, sealed, &secrets); err != nil {
		return nil, nil, fmt.Errorf("read secrets of agent %s: %w", a.Name, err)
	}
	state.Model.APIKey = secrets.APIKey
	return a, state, nil
}
