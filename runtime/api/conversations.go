package api

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
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
	Calls           ConversationCalls  `json:"calls"`
	Loop            *Loop              `json:"loop" doc:"How it stands; null where the agent's own client runs it."`
	Tools           []ConversationTool `json:"tools" doc:"Its catalogue; null in lists, and when it has ended."`
}

// ConversationCalls says how the calls of a conversation stand, the latest 1000 of them.
type ConversationCalls struct {
	Total    int            `json:"total" doc:"1000 means that many or more."`
	ByStatus map[string]int `json:"by_status" nullable:"false"`
	LastAt   *time.Time     `json:"last_at" doc:"When the last one was made."`
}

func newConversationCalls(t call.Tally) ConversationCalls {
	calls := ConversationCalls{Total: t.Calls, ByStatus: make(map[string]int, len(t.Counts)), LastAt: utcOrNull(&t.Last)}
	for status, n := range t.Counts {
		calls.ByStatus[string(status)] = n
	}
	return calls
}

// SkillProblem tells why a skill's tools are missing.
type SkillProblem struct {
	Skill string `json:"skill"`
	Kind  string `json:"kind" doc:"A failure's kind, or collision, too_many_tools."`
	Error string `json:"error"`
}

// ConversationTool is one tool of a conversation's catalog.
type ConversationTool struct {
	Name  string `json:"name" doc:"As the agent sees it."`
	Skill string `json:"skill"`
	Tool  string `json:"tool" doc:"The skill's own name of it."`
	Pin   string `json:"pin"`
}

func conversationTools(c *catalog.Catalog) []ConversationTool {
	tools := []ConversationTool{}
	for _, e := range c.Entries {
		tools = append(tools, ConversationTool{Name: e.Name, Skill: e.Skill, Tool: e.Tool.Name, Pin: e.Tool.Pin().String()})
	}
	return tools
}

// conversationViews adds names.
func (a *API) conversationViews(ctx context.Context, found ...catalog.Conversation) (func(catalog.Conversation) Conversation, error) {
	var people, agents, ids []uuid.UUID
	for _, c := range found {
		people, agents, ids = append(people, c.PrincipalID), append(agents, c.AgentID), append(ids, c.ID)
	}
	tallies, err := a.calls.Tallies(ctx, ids)
	if err != nil {
		return nil, err
	}
	names, err := a.people(ctx, people...)
	if err != nil {
		return nil, err
	}
	agentNames, err := a.agents.Names(ctx, agents)
	if err != nil {
		return nil, err
	}
	var loops map[uuid.UUID]converse.Conversation
	if a.converse != nil {
		if loops, err = a.converse.States(ctx, ids); err != nil {
			return nil, err
		}
	}
	return func(c catalog.Conversation) Conversation {
		loop, held := loops[c.ID]
		view := Conversation{
			ID: c.ID, Agent: agentNames[c.AgentID], Principal: orNull(names.of(c.PrincipalID)), Name: orNull(c.Name),
			ProtocolVersion: c.ProtocolVersion, Problems: []SkillProblem{},
			CreatedAt: c.CreatedAt.UTC(), EndedAt: utcOrNull(c.EndedAt), Calls: newConversationCalls(tallies[c.ID]),
			Loop: newLoop(loop, held),
		}
		for _, p := range c.Problems {
			view.Problems = append(view.Problems, SkillProblem(p))
		}
		if c.Catalog != nil {
			view.Tools = conversationTools(c.Catalog)
		}
		return view
	}, nil
}

type listConversationsInput struct {
	Page
	Agent  string `query:"agent" doc:"Only conversations of the agent of this name or id; for those who see all, also of one that was deleted."`
	Person string `query:"person" doc:"Only conversations on behalf of this person: a name, an e-mail address or an id. For reviewers and operators."`
}

func (a *API) listConversations(ctx context.Context, input *listConversationsInput) (*listOutput[Conversation], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	filter, err := a.conversationFilter(ctx, input)
	if err != nil {
		return nil, err
	}
	filter.Before = before
	found, next, err := a.catalog.Conversations(ctx, filter, input.Limit)
	if err != nil {
		return nil, err
	}
	view, err := a.conversationViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return listOf(found, cursorOf(next), view), nil
}

func (a *API) conversationFilter(ctx context.Context, input *listConversationsInput) (catalog.ConversationFilter, error) {
	var r query.Reader
	if callerOf(ctx).seesAll() {
		filter := catalog.ConversationFilter{
			Agents:     r.Names(ctx, "agent", input.Agent, a.agents.AgentsNamed, true),
			Principals: r.Names(ctx, "person", input.Person, a.identity.Named, true),
		}
		return filter, queryProblem(r.Err())
	}
	if input.Person != "" {
		r.Refuse("person", "expected none: only reviewers and operators search by person")
		return catalog.ConversationFilter{}, queryProblem(r.Err())
	}
	viewer, err := a.scope(ctx, input.Agent)
	return catalog.ConversationFilter{AgentID: viewer.AgentID, Principal: &viewer.PrincipalID}, err
}

func (a *API) getConversation(ctx context.Context, input *ByID) (*bodyOutput[Conversation], error) {
	found, _, err := a.visibleConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	if found.EndedAt != nil {
		found.Catalog = nil
	}
	if found.EndedAt == nil {
		open, err := a.catalog.Conversation(ctx, found.AgentID, found.PrincipalID, found.ID)
		switch {
		case err == nil:
			found = *open
		case !errors.Is(err, agent.ErrNotFound): // it may have ended, or its agent been deleted, meanwhile
			return nil, err
		}
	}
	views, err := a.conversationViews(ctx, found)
	if err != nil {
		return nil, err
	}
	view := views(found)
	if view.Loop, err = a.loopOf(ctx, found.ID); err != nil {
		return nil, err
	}
	return output(view), nil
}
