package operate

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type agentHandlers struct{ *rest.Directory }

// Agent is an identity that runs conversations.
type Agent struct {
	AgentIdentity
	AgentSettings
	AgentRecord
}

// AgentIdentity has the fields that say who an agent is.
type AgentIdentity struct {
	ID           uuid.UUID       `json:"id" format:"uuid"`
	Name         string          `json:"name"`
	Instructions string          `json:"instructions"`
	Model        json.RawMessage `json:"model" doc:"Without its key; null if the agent has no model."`
}

// AgentRecord has an agent's assignments, and the fields that clients do not set.
type AgentRecord struct {
	Skills    []AgentSkill `json:"skills" nullable:"false" doc:"Its assignments, by skill."`
	Revision  int64        `json:"revision" doc:"Increases with every change of the agent, its assignments and their skills."`
	CreatedAt time.Time    `json:"created_at"`
	UpdatedAt time.Time    `json:"updated_at"`
}

// AgentSkill is one assignment, seen from its agent.
type AgentSkill struct {
	Skill  string   `json:"skill"`
	Tools  []string `json:"tools" doc:"Only these tools; null: all of them."`
	Prefix *string  `json:"prefix" doc:"The prefix of its tools' names; null: the skill's name."`
}

func newAgent(a agent.Agent, assignments []agent.Assignment) Agent {
	view := Agent{
		AgentIdentity{ID: a.ID, Name: a.Name, Instructions: a.Instructions, Model: a.Model},
		newAgentSettings(&a.AgentSettings),
		AgentRecord{Skills: []AgentSkill{}, Revision: a.Revision, CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC()},
	}
	for _, x := range assignments {
		if x.AgentID == a.ID {
			view.Skills = append(view.Skills, AgentSkill{Skill: x.Skill, Tools: x.Tools, Prefix: x.Prefix})
		}
	}
	return view
}

func (h *agentHandlers) agentView(ctx context.Context, found *agent.Agent) (*rest.Output[Agent], error) {
	assignments, err := h.Agents.Assignments(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(newAgent(*found, assignments)), nil
}

func (h *agentHandlers) listAgents(ctx context.Context, input *rest.Page) (*rest.ListOutput[Agent], error) {
	if err := rest.CheckStorable("query.cursor", input.Cursor); err != nil {
		return nil, err
	}
	found, next, err := h.Agents.Agents(ctx, input.Cursor, input.Limit)
	if err != nil {
		return nil, err
	}
	assignments, err := h.Agents.Assignments(ctx, uuid.Nil)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, next, func(x agent.Agent) Agent { return newAgent(x, assignments) }), nil
}

func (h *agentHandlers) createAgent(ctx context.Context, input *struct{ Body agent.AgentSpec }) (*rest.Output[Agent], error) {
	made, err := h.Agents.CreateAgent(ctx, rest.CallerOf(ctx).Actor(), input.Body)
	if err != nil {
		return nil, rest.InPart("body", err)
	}
	return h.agentView(ctx, made)
}

func (h *agentHandlers) getAgent(ctx context.Context, input *rest.ByName) (*rest.Output[Agent], error) {
	found, err := h.Agents.AgentByName(ctx, input.Name)
	if err != nil {
		return nil, rest.WithName(err, "agent", input.Name)
	}
	return h.agentView(ctx, found)
}

type updateAgentInput struct {
	rest.ByName
	Body agent.AgentPatch
}

func (h *agentHandlers) updateAgent(ctx context.Context, input *updateAgentInput) (*rest.Output[Agent], error) {
	id, err := h.FindAgentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	changed, err := h.Agents.UpdateAgent(ctx, rest.CallerOf(ctx).Actor(), id, input.Body)
	if err != nil {
		return nil, rest.InPart("body", err)
	}
	return h.agentView(ctx, changed)
}

func (h *agentHandlers) deleteAgent(ctx context.Context, input *rest.ByName) (*rest.None, error) {
	id, err := h.FindAgentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return nil, h.Agents.DeleteAgent(ctx, rest.CallerOf(ctx).Actor(), id)
}

// Key is an agent's credential.
type Key struct {
	ID        uuid.UUID  `json:"id" format:"uuid"`
	Agent     string     `json:"agent"`
	Hint      string     `json:"hint" doc:"Its first characters, to tell keys apart."`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it expires; null: never."`
	RevokedAt *time.Time `json:"revoked_at"`

	CreatedBy *rest.PersonName `json:"created_by" doc:"Null: unknown. An unverified person whom they invited cannot decide calls of the agent."`
}

// NewKey is a key that was just made.
type NewKey struct {
	Key       string    `json:"key" doc:"The secret. It is shown only once."`
	ID        uuid.UUID `json:"id" format:"uuid"`
	Agent     string    `json:"agent"`
	Hint      string    `json:"hint"`
	CreatedAt time.Time `json:"created_at"`

	ExpiresAt *time.Time `json:"expires_at" doc:"When it expires; null: never."`
}

func (h *agentHandlers) listKeys(ctx context.Context, input *rest.ByName) (*rest.ListOutput[Key], error) {
	id, err := h.FindAgentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	keys, err := h.Agents.Keys(ctx, id)
	if err != nil {
		return nil, err
	}
	makers := make([]uuid.UUID, len(keys))
	for i := range keys {
		makers[i] = keys[i].CreatedBy
	}
	names, err := h.NamePeople(ctx, makers...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(keys, "", func(k agent.Key) Key {
		return Key{
			ID: k.ID, Agent: input.Name, Hint: k.Hint, CreatedAt: k.CreatedAt.UTC(), CreatedBy: names.RefOf(k.CreatedBy),
			ExpiresAt: rest.UTCOrNull(k.ExpiresAt), RevokedAt: rest.UTCOrNull(k.RevokedAt),
		}
	}), nil
}

func (h *agentHandlers) createKey(ctx context.Context, input *rest.ByName) (*rest.Output[NewKey], error) {
	id, err := h.FindAgentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	key, secret, err := h.Agents.CreateKey(ctx, rest.CallerOf(ctx).Actor(), id)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(NewKey{
		Key: secret, ID: key.ID, Agent: input.Name, Hint: key.Hint, CreatedAt: key.CreatedAt.UTC(), ExpiresAt: rest.UTCOrNull(key.ExpiresAt),
	}), nil
}

type revokeKeyInput struct {
	rest.ByName
	rest.ByID
}

func (h *agentHandlers) revokeKey(ctx context.Context, input *revokeKeyInput) (*rest.None, error) {
	agentID, err := h.FindAgentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	id, err := rest.ParseID("key", input.ID)
	if err != nil {
		return nil, err
	}
	keys, err := h.Agents.Keys(ctx, agentID)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(keys, func(k agent.Key) bool { return k.ID == id }) {
		return nil, rest.NotFound("key", input.ID)
	}
	return nil, rest.WithName(h.Agents.RevokeKey(ctx, rest.CallerOf(ctx).Actor(), id), "key", input.ID)
}
