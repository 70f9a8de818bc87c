package api

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Agent is an identity that runs conversations.
type Agent struct {
	ID           uuid.UUID       `json:"id" format:"uuid"`
	Name         string          `json:"name"`
	Instructions string          `json:"instructions"`
	Model        json.RawMessage `json:"model" doc:"Without its key; null when there is none."`
	WaitBudget   agent.Duration  `json:"wait_budget" doc:"How long a response is held open for clients without tasks: 50s."`
	ErrorStyle   string          `json:"error_style" enum:"mcp,codes" doc:"How its endpoint tells errors: as MCP says, or by the table of JSON-RPC codes of older gateways."`
	ReplyTimeout agent.Duration  `json:"reply_timeout" doc:"After it a tools/call is answered with error -32003. 0s: never with error_style mcp, 1m with codes."`
	Limits       agent.Limits    `json:"limits"`
	Team         *string         `json:"team" doc:"Whose attention its calls want, where their skill names no team; null: everybody's."`
	EscalateTo   *string         `json:"escalate_to" doc:"The team that is asked at half of the deadline; null: none."`
	Skills       []AgentSkill    `json:"skills" nullable:"false" doc:"Its assignments, by skill."`
	Revision     int64           `json:"revision" doc:"Grows with every change of the agent, its assignments and their skills."`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
}

// AgentSkill is one assignment, seen from its agent.
type AgentSkill struct {
	Skill  string   `json:"skill"`
	Tools  []string `json:"tools" doc:"Only these; null: all of them."`
	Prefix *string  `json:"prefix" doc:"Of its tools' names; null: the skill's name."`
}

func newAgent(a agent.Agent, assignments []agent.Assignment) Agent {
	view := Agent{
		ID: a.ID, Name: a.Name, Instructions: a.Instructions, Model: a.Model, WaitBudget: agent.Duration(a.WaitBudget),
		ErrorStyle: a.ErrorStyle, ReplyTimeout: agent.Duration(a.ReplyTimeoutSet), Limits: a.Limits,
		Team: orNull(a.Team), EscalateTo: orNull(a.EscalateTo),
		Skills: []AgentSkill{}, Revision: a.Revision, CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
	}
	for _, x := range assignments {
		if x.AgentID == a.ID {
			view.Skills = append(view.Skills, AgentSkill{Skill: x.Skill, Tools: x.Tools, Prefix: x.Prefix})
		}
	}
	return view
}

func (a *API) agentView(ctx context.Context, found *agent.Agent) (*bodyOutput[Agent], error) {
	assignments, err := a.agents.Assignments(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	return output(newAgent(*found, assignments)), nil
}

func (a *API) listAgents(ctx context.Context, input *Page) (*listOutput[Agent], error) {
	if err := storable("query.cursor", input.Cursor); err != nil {
		return nil, err
	}
	found, next, err := a.agents.Agents(ctx, input.Cursor, input.Limit)
	if err != nil {
		return nil, err
	}
	assignments, err := a.agents.Assignments(ctx, uuid.Nil)
	if err != nil {
		return nil, err
	}
	return listOf(found, next, func(x agent.Agent) Agent { return newAgent(x, assignments) }), nil
}

func (a *API) createAgent(ctx context.Context, input *struct{ Body agent.AgentSpec }) (*bodyOutput[Agent], error) {
	made, err := a.agents.CreateAgent(ctx, callerOf(ctx).actor(), input.Body)
	if err != nil {
		return nil, err
	}
	return a.agentView(ctx, made)
}

func (a *API) getAgent(ctx context.Context, input *ByName) (*bodyOutput[Agent], error) {
	found, err := a.agents.AgentByName(ctx, input.Name)
	if err != nil {
		return nil, named(err, "agent", input.Name)
	}
	return a.agentView(ctx, found)
}

type updateAgentInput struct {
	ByName
	Body agent.AgentPatch
}

func (a *API) updateAgent(ctx context.Context, input *updateAgentInput) (*bodyOutput[Agent], error) {
	id, err := a.agentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	changed, err := a.agents.UpdateAgent(ctx, callerOf(ctx).actor(), id, input.Body)
	if err != nil {
		return nil, err
	}
	return a.agentView(ctx, changed)
}

func (a *API) deleteAgent(ctx context.Context, input *ByName) (*none, error) {
	id, err := a.agentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return nil, a.agents.DeleteAgent(ctx, callerOf(ctx).actor(), id)
}

// Key is an agent's credential.
type Key struct {
	ID        uuid.UUID  `json:"id" format:"uuid"`
	Agent     string     `json:"agent"`
	Hint      string     `json:"hint" doc:"Its first characters, to tell keys apart."`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it ends by itself; null: never."`
	RevokedAt *time.Time `json:"revoked_at"`

	CreatedBy *PersonName `json:"created_by" doc:"Null: nobody, or not known. An unverified person whom they invited decides no calls of the agent."`
}

// NewKey is a key that was just made.
type NewKey struct {
	Key       string    `json:"key" doc:"The secret. It is shown this once."`
	ID        uuid.UUID `json:"id" format:"uuid"`
	Agent     string    `json:"agent"`
	Hint      string    `json:"hint"`
	CreatedAt time.Time `json:"created_at"`

	ExpiresAt *time.Time `json:"expires_at" doc:"When it ends by itself; null: never."`
}

func (a *API) listKeys(ctx context.Context, input *ByName) (*listOutput[Key], error) {
	id, err := a.agentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	keys, err := a.agents.Keys(ctx, id)
	if err != nil {
		return nil, err
	}
	makers := make([]uuid.UUID, len(keys))
	for i := range keys {
		makers[i] = keys[i].CreatedBy
	}
	names, err := a.people(ctx, makers...)
	if err != nil {
		return nil, err
	}
	return listOf(keys, "", func(k agent.Key) Key {
		return Key{
			ID: k.ID, Agent: input.Name, Hint: k.Hint, CreatedAt: k.CreatedAt.UTC(), CreatedBy: names.ref(k.CreatedBy),
			ExpiresAt: utcOrNull(k.ExpiresAt), RevokedAt: utcOrNull(k.RevokedAt),
		}
	}), nil
}

func (a *API) createKey(ctx context.Context, input *ByName) (*bodyOutput[NewKey], error) {
	id, err := a.agentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	key, secret, err := a.agents.CreateKey(ctx, callerOf(ctx).actor(), id)
	if err != nil {
		return nil, err
	}
	return output(NewKey{
		Key: secret, ID: key.ID, Agent: input.Name, Hint: key.Hint, CreatedAt: key.CreatedAt.UTC(), ExpiresAt: utcOrNull(key.ExpiresAt),
	}), nil
}

type revokeKeyInput struct {
	ByName
	ByID
}

func (a *API) revokeKey(ctx context.Context, input *revokeKeyInput) (*none, error) {
	agentID, err := a.agentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	id, err := idOf("key", input.ID)
	if err != nil {
		return nil, err
	}
	keys, err := a.agents.Keys(ctx, agentID)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(keys, func(k agent.Key) bool { return k.ID == id }) {
		return nil, notFound("key", input.ID)
	}
	return nil, named(a.agents.RevokeKey(ctx, callerOf(ctx).actor(), id), "key", input.ID)
}
