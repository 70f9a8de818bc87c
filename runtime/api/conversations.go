package api

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Conversation is one run of an agent.
type Conversation struct {
	ID              uuid.UUID          `json:"id" format:"uuid"`
	Agent           string             `json:"agent"`
	Principal       *string            `json:"principal" doc:"The person on whose behalf the agent acts; null with a bare agent key."`
	Name            *string            `json:"name" doc:"Null for an MCP session, which is known by its id."`
	ProtocolVersion string             `json:"protocol_version"`
	Problems        []SkillProblem     `json:"problems" nullable:"false" doc:"Skills whose tools are missing, and why."`
	CreatedAt       time.Time          `json:"created_at"`
	EndedAt         *time.Time         `json:"ended_at"`
	Tools           []ConversationTool `json:"tools" doc:"Its catalogue; null in lists, and when it has ended."`
}

// SkillProblem tells why a skill's tools are missing.
type SkillProblem struct {
	Skill string `json:"skill"`
	Kind  string `json:"kind" doc:"A failure's kind, or collision, too_many_tools."`
	Error string `json:"error"`
}

// ConversationTool is one tool of a conversation's catalogue.
type ConversationTool struct {
	Name  string `json:"name" doc:"As the agent sees it."`
	Skill string `json:"skill"`
	Tool  string `json:"tool" doc:"The skill's own name of it."`
	Pin   string `json:"pin"`
}

// conversationViews adds names.
func (a *API) conversationViews(ctx context.Context, found ...agent.Conversation) (func(agent.Conversation) Conversation, error) {
	var people, agents []uuid.UUID
	for _, c := range found {
		people, agents = append(people, c.PrincipalID), append(agents, c.AgentID)
	}
	names, err := a.people(ctx, people...)
	if err != nil {
		return nil, err
	}
	agentNames, err := a.agents.Names(ctx, agents)
	if err != nil {
		return nil, err
	}
	return func(c agent.Conversation) Conversation {
		view := Conversation{
			ID: c.ID, Agent: agentNames[c.AgentID], Principal: orNull(names[c.PrincipalID]), Name: orNull(c.Name),
			ProtocolVersion: c.ProtocolVersion, Problems: []SkillProblem{},
			CreatedAt: c.CreatedAt.UTC(), EndedAt: utcOrNull(c.EndedAt),
		}
		for _, p := range c.Problems {
			view.Problems = append(view.Problems, SkillProblem(p))
		}
		if c.Catalogue != nil {
			view.Tools = []ConversationTool{}
			for _, e := range c.Catalogue.Entries {
				view.Tools = append(view.Tools, ConversationTool{
					Name: e.Name, Skill: e.Skill, Tool: e.Tool.Name, Pin: e.Tool.Pin().String(),
				})
			}
		}
		return view
	}, nil
}

type listConversationsInput struct {
	Page
	Agent string `query:"agent" doc:"Only conversations of the agent of this name."`
}

func (a *API) listConversations(ctx context.Context, input *listConversationsInput) (*listOutput[Conversation], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	viewer, agentID, err := a.scope(ctx, input.Agent)
	if err != nil {
		return nil, err
	}
	filter := agent.ConversationFilter{AgentID: agentID, Before: before}
	if viewer.AgentID != uuid.Nil {
		filter.AgentID, filter.Principal = viewer.AgentID, &viewer.PrincipalID
	}
	found, next, err := a.agents.Conversations(ctx, filter, input.Limit)
	if err != nil {
		return nil, err
	}
	view, err := a.conversationViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return listOf(found, cursorOf(next), view), nil
}

func (a *API) getConversation(ctx context.Context, input *ByID) (*bodyOutput[Conversation], error) {
	id, err := idOf("conversation", input.ID)
	if err != nil {
		return nil, err
	}
	found, err := a.conversation(ctx, id)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	own := found.PrincipalID == who.personID() && who.agent != nil && who.agent.ID == found.AgentID
	if who.person != nil && found.PrincipalID == who.personID() {
		names, err := a.agents.Names(ctx, []uuid.UUID{found.AgentID})
		if err != nil {
			return nil, err
		}
		own = who.person.MayActAs(names[found.AgentID])
	}
	if !own && !who.seesAll() {
		return nil, notFound("conversation", input.ID)
	}
	if found.EndedAt == nil {
		open, err := a.agents.Conversation(ctx, found.AgentID, found.PrincipalID, id)
		switch {
		case err == nil:
			found = *open
		case !errors.Is(err, agent.ErrNotFound): // it may have ended, or its agent been deleted, meanwhile
			return nil, err
		}
	}
	view, err := a.conversationViews(ctx, found)
	if err != nil {
		return nil, err
	}
	return output(view(found)), nil
}

// conversation finds one by its id alone, whoever's it is.
func (a *API) conversation(ctx context.Context, id uuid.UUID) (agent.Conversation, error) {
	found, _, err := a.agents.Conversations(ctx, agent.ConversationFilter{Before: successor(id)}, 1)
	if err != nil {
		return agent.Conversation{}, err
	}
	if len(found) == 0 || found[0].ID != id {
		return agent.Conversation{}, notFound("conversation", id.String())
	}
	return found[0], nil
}

// successor is the id that comes next in order: what is older than it begins with id itself.
func successor(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}
