package conversations

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

// Conversation is one run of an agent.
type Conversation struct {
	ID              uuid.UUID          `json:"id" format:"uuid"`
	Agent           string             `json:"agent"`
	Principal       *string            `json:"principal" doc:"The person on whose behalf the agent acts; null with a bare agent key."`
	Name            *string            `json:"name" doc:"Null for an MCP session, which is identified by its id."`
	Title           string             `json:"title" doc:"The first line of its first message, shortened; without messages the agent, the name or the client, and the start. It may be text from outside."`
	ProtocolVersion string             `json:"protocol_version"`
	Problems        []SkillProblem     `json:"problems" nullable:"false" doc:"Skills whose tools are missing, and why."`
	CreatedAt       time.Time          `json:"created_at"`
	EndedAt         *time.Time         `json:"ended_at"`
	Calls           ConversationCalls  `json:"calls"`
	Loop            *Loop              `json:"loop" doc:"Its state; null if the agent's own client runs it."`
	Tools           []ConversationTool `json:"tools" doc:"Its catalog; null in lists, and when it has ended."`
}

// ConversationCalls says how the calls of a conversation stand, the latest 1000 of them.
type ConversationCalls struct {
	Total    int            `json:"total" doc:"The number of conversations; 1000 means 1000 or more."`
	ByStatus map[string]int `json:"by_status" nullable:"false"`
	LastAt   *time.Time     `json:"last_at" doc:"The time of the last call."`
}

// SkillProblem is the reason for missing tools of a skill.
type SkillProblem struct {
	Skill string `json:"skill"`
	Kind  string `json:"kind" doc:"A failure's kind, or collision, too_many_tools."`
	Error string `json:"error"`
}

// ConversationTool is one tool of a conversation's catalog.
type ConversationTool struct {
	Name  string `json:"name" doc:"The agent's name for the tool."`
	Skill string `json:"skill"`
	Tool  string `json:"tool" doc:"The skill's own name for the tool."`
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
func (h *Handlers) conversationViews(ctx context.Context, found ...catalog.Conversation) (func(catalog.Conversation) Conversation, error) {
	var people, agents, ids []uuid.UUID
	for _, c := range found {
		people, agents, ids = append(people, c.PrincipalID), append(agents, c.AgentID), append(ids, c.ID)
	}
	tallies, err := h.History.TallyConversations(ctx, ids)
	if err != nil {
		return nil, err
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	agentNames, err := h.Agents.Names(ctx, agents)
	if err != nil {
		return nil, err
	}
	var loops map[uuid.UUID]converse.Conversation
	var titles map[uuid.UUID]string
	if h.Converse != nil {
		if loops, err = h.Converse.States(ctx, ids); err != nil {
			return nil, err
		}
		if titles, err = h.Converse.Titles(ctx, ids); err != nil {
			return nil, err
		}
	}
	return func(c catalog.Conversation) Conversation {
		loop, held := loops[c.ID]
		tally := tallies[c.ID]
		calls := ConversationCalls{Total: tally.Calls, ByStatus: make(map[string]int, len(tally.Counts)), LastAt: rest.UTCOrNull(&tally.Last)}
		for status, n := range tally.Counts {
			calls.ByStatus[string(status)] = n
		}
		view := Conversation{
			ID: c.ID, Agent: agentNames[c.AgentID], Principal: rest.OrNull(names.NameOf(c.PrincipalID)), Name: rest.OrNull(c.Name),
			Title:           cmp.Or(titles[c.ID], c.Label(agentNames[c.AgentID], c.CreatedAt.UTC().Format("2006-01-02 15:04 UTC"))),
			ProtocolVersion: c.ProtocolVersion, Problems: []SkillProblem{},
			CreatedAt: c.CreatedAt.UTC(), EndedAt: rest.UTCOrNull(c.EndedAt), Calls: calls,
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
	rest.Page
	Agent  string `query:"agent" doc:"Only conversations of the agent with this name or id; callers who see all conversations can name a deleted one."`
	Person string `query:"person" doc:"Only conversations on behalf of this person: a name, an e-mail address or an id. For reviewers and operators."`
}

func (h *Handlers) listConversations(ctx context.Context, input *listConversationsInput) (*rest.ListOutput[Conversation], error) {
	before, err := input.IDCursor()
	if err != nil {
		return nil, err
	}
	filter, err := h.conversationFilter(ctx, input)
	if err != nil {
		return nil, err
	}
	filter.Before = before
	found, next, err := h.Catalog.Conversations(ctx, filter, input.Limit)
	if err != nil {
		return nil, err
	}
	view, err := h.conversationViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, rest.CursorOf(next), view), nil
}

func (h *Handlers) conversationFilter(ctx context.Context, input *listConversationsInput) (catalog.ConversationFilter, error) {
	var r query.Reader
	if rest.CallerOf(ctx).SeesAll() {
		filter := catalog.ConversationFilter{
			Agents:     r.Names(ctx, "agent", input.Agent, h.Agents.AgentsNamed, true),
			Principals: r.Names(ctx, "person", input.Person, h.Identity.Named, true),
		}
		return filter, rest.InPart("query", r.Err())
	}
	if input.Person != "" {
		r.Refuse("person", "must be left out: only reviewers and operators search by person")
		return catalog.ConversationFilter{}, rest.InPart("query", r.Err())
	}
	viewer, err := h.OwnViewer(ctx, input.Agent)
	return catalog.ConversationFilter{AgentID: viewer.AgentID, Principal: &viewer.PrincipalID}, err
}

func (h *Handlers) getConversation(ctx context.Context, input *rest.ByID) (*rest.Output[Conversation], error) {
	found, _, err := h.visibleConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	if found.EndedAt != nil {
		found.Catalog = nil
	}
	if found.EndedAt == nil {
		open, err := h.Catalog.Conversation(ctx, found.AgentID, found.PrincipalID, found.ID)
		switch {
		case err == nil:
			found = *open
		case !errors.Is(err, agent.ErrNotFound): // it may have ended, or its agent been deleted, meanwhile
			return nil, err
		}
	}
	views, err := h.conversationViews(ctx, found)
	if err != nil {
		return nil, err
	}
	view := views(found)
	if view.Loop, err = h.loopOf(ctx, found.ID); err != nil {
		return nil, err
	}
	return rest.NewOutput(view), nil
}

// Offered is the tool list of a new conversation.
type Offered struct {
	Tools    []ConversationTool `json:"tools" nullable:"false" doc:"In the order in which the agent sees them."`
	Problems []SkillProblem     `json:"problems" nullable:"false" doc:"Skills whose tools are missing, and why."`
}

func (h *Handlers) previewAgent(ctx context.Context, input *rest.ByName) (*rest.Output[Offered], error) {
	id, err := h.FindAgentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	offered, problems, err := h.Catalog.Preview(ctx, id)
	if err != nil {
		return nil, rest.WithName(err, "agent", input.Name)
	}
	view := Offered{Tools: conversationTools(offered), Problems: []SkillProblem{}}
	for _, p := range problems {
		view.Problems = append(view.Problems, SkillProblem(p))
	}
	return rest.NewOutput(view), nil
}
