package agents

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// fillCallbacks shows operators the callbacks of the agent.
func (h *Handler) fillCallbacks(ctx context.Context, a *agent.Agent, v *Agent) error {
	if !v.MayEdit {
		return nil
	}
	found, err := h.callbacks.Callbacks(ctx, a.ID)
	for i := range found {
		c := &found[i]
		v.Callbacks = append(v.Callbacks, CallbackRow{
			Name: c.Name, URL: callbackURL(a, c.Name), Host: c.Host, Sent: c.SentAt, State: presentState(c),
		})
	}
	return err
}

// ShowAgents lists agents by name.
func (h *Handler) ShowAgents(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	if shell.Clean(after) != after {
		after = ""
	}
	agents, next, err := h.agents.Agents(r.Context(), after, 0)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	rows, err := h.agentRows(r.Context(), agents)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	list := Agents{Rows: rows, Newest: after == "", MayEdit: shell.MayEdit(r)}
	if next != "" {
		list.Next = "/agents?after=" + next // a name is letters, digits and dashes
	}
	h.Render(w, r, http.StatusOK, AgentsPage(h.Page(r, view.SectionAgents, text.AgentTitle(), pulse), list))
}

func (h *Handler) agentRows(ctx context.Context, agents []agent.Agent) ([]AgentRow, error) {
	keys, err := h.agents.KeyCounts(ctx)
	if err != nil {
		return nil, err
	}
	assignments, err := h.agents.Assignments(ctx, uuid.Nil)
	if err != nil {
		return nil, err
	}
	skills := map[uuid.UUID][]string{}
	for i := range assignments {
		skills[assignments[i].AgentID] = append(skills[assignments[i].AgentID], assignments[i].Skill)
	}
	var rows []AgentRow
	for i := range agents {
		a := &agents[i]
		row := AgentRow{
			URL: present.AgentURL(a.ID), Name: a.Name, Team: a.Team, At: a.CreatedAt, Skills: text.AgentNoSkills(),
			Keys: view.Badge{Word: text.AgentNoKey(), Icon: "rejected", Level: view.Quiet},
		}
		if n := keys[a.ID]; n > 0 {
			row.Keys = view.Badge{Word: text.AgentKeyCount(n), Icon: "good", Level: view.Good}
		}
		if len(skills[a.ID]) > 0 {
			row.Skills = text.Literal(strings.Join(skills[a.ID], ", "))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// readAgent returns the agent that the request's path names.
func (h *Handler) readAgent(r *http.Request) (*agent.Agent, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	return h.agents.AgentByID(r.Context(), id)
}

// ShowAgent shows one agent.
func (h *Handler) ShowAgent(w http.ResponseWriter, r *http.Request) {
	a, err := h.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v, err := h.agentPage(r, a)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, AgentPage(h.Page(r, view.SectionAgents, text.AgentPageOf(view.Printable(a.Name)), pulse), v))
}

func (h *Handler) agentPage(r *http.Request, a *agent.Agent) (Agent, error) {
	by := "?" + url.Values{"agent": {a.Name}}.Encode()
	v := Agent{
		URL: present.AgentURL(a.ID), Name: a.Name, Team: a.Team, EscalateTo: present.EscalationNames(a.EscalateTo, a.Escalation), MayEdit: shell.MayEdit(r),
		Connect: h.describeConnecting(a.Name, keyPlaceholder), Facts: agentFacts(a), CallsURL: "/calls" + by, Conversations: "/conversations" + by,
		Notice: agentNotice(r.URL.Query().Get("done")),
	}
	if access, _ := login.Access(r.Context()); shell.MayStart(access, a) {
		v.Start = "/conversations/new" + by
	}
	if a.Instructions != "" {
		shown := hostile.Fold(a.Instructions, hostile.Folded())
		v.Instructions = &shown
	}
	for _, fill := range []func(context.Context, *agent.Agent, *Agent) error{h.fillSkills, h.fillKeys, h.fillCallbacks, h.fillSeen, h.fillCalls} {
		if err := fill(r.Context(), a, &v); err != nil {
			return v, err
		}
	}
	return v, nil
}

func agentNotice(done string) *view.Notice {
	n := &view.Notice{Level: view.Good}
	switch done {
	case "created":
		n.Title, n.Text = text.AgentCreatedDone(), text.AgentCreatedNext()
	case "saved":
		n.Title = text.AgentSavedDone()
	case "assigned":
		n.Title, n.Text = text.AgentAssignedDone(), text.AgentAssignedNext()
	case "unassigned":
		n.Title, n.Text = text.AgentUnassignedDone(), text.AgentUnassignedNext()
	case "callback-deleted":
		n.Title, n.Text = text.AgentCallbackDeletedDone(), text.AgentCallbackDeletedNext()
	case "revoked":
		n.Title, n.Text = text.AgentRevokedDone(), text.AgentRevokedNext()
	default:
		return nil
	}
	return n
}

func (h *Handler) fillSkills(ctx context.Context, a *agent.Agent, v *Agent) error {
	assignments, err := h.agents.Assignments(ctx, a.ID)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for i := range assignments {
		x := &assignments[i]
		has[x.Skill] = true
		use := view.Use{
			Name: x.Skill, URL: present.SkillURL(x.SkillID), Tools: present.ToolsWords(x.Tools), Remove: x.SkillID.String(),
			Change: present.AgentURL(a.ID) + "/assign?" + url.Values{"skill": {x.Skill}}.Encode(),
		}
		switch {
		case x.Prefix == nil:
		case *x.Prefix == "":
			use.Prefix = text.AgentNoPrefix()
		default:
			use.Prefix = text.AgentPrefix(*x.Prefix)
		}
		v.Uses = append(v.Uses, use)
	}
	names, err := h.suggest.SkillNames(ctx)
	v.Assignable = slices.DeleteFunc(names, func(name string) bool { return has[name] })
	return err
}

func (h *Handler) fillKeys(ctx context.Context, a *agent.Agent, v *Agent) error {
	if !v.MayEdit {
		return nil
	}
	keys, err := h.agents.Keys(ctx, a.ID)
	if err != nil {
		return err
	}
	makers := make([]uuid.UUID, len(keys))
	for i := range keys {
		makers[i] = keys[i].CreatedBy
	}
	names, err := h.Names(ctx, makers...)
	for i := range keys {
		k := &keys[i]
		v.Keys = append(v.Keys, Key{
			Hint: k.Hint, Created: k.CreatedAt, By: present.PersonName(k.CreatedBy, names), Ends: k.ExpiresAt,
			Expired: k.ExpiresAt != nil && !k.ExpiresAt.After(h.Now()), Revoked: k.RevokedAt, Revoke: v.URL + "/keys/" + k.ID.String() + "/revoke",
		})
	}
	return err
}

// fillSeen lists the tools that the agent sees, without asking the servers of its skills.
func (h *Handler) fillSeen(ctx context.Context, a *agent.Agent, v *Agent) error {
	offered, problems, err := h.catalog.Preview(ctx, a.ID)
	if err != nil {
		return err
	}
	for i := range offered.Entries {
		e := &offered.Entries[i]
		seen := Seen{Name: e.Name}
		if !e.IsBuiltin() { // a built-in tool has no page
			seen.URL = present.ToolURL(e.SkillID, e.Tool.Name)
		}
		v.Seen = append(v.Seen, seen)
	}
	for _, p := range problems {
		v.Problems = append(v.Problems, SeenProblem{Skill: p.Skill, Error: p.Error})
	}
	return nil
}

const latestCalls = 5

func (h *Handler) fillCalls(ctx context.Context, a *agent.Agent, v *Agent) error {
	found, err := h.history.Search(ctx, history.Filter{Agents: []uuid.UUID{a.ID}, Limit: latestCalls})
	for i := range found.Calls {
		c := &found.Calls[i]
		v.Calls = append(v.Calls, view.HistoryRow{URL: present.CallURL(c.ID), Status: present.StatusBadge(c.Status), Skill: c.Skill, Tool: c.Tool, At: c.CreatedAt})
	}
	return err
}

func agentFacts(a *agent.Agent) []view.Fact {
	errorStyle := text.AgentErrorsMCP()
	if a.ErrorStyle == agent.ErrorStyleCodes {
		errorStyle = text.AgentErrorsCodes()
	}
	list := []view.Fact{
		{Name: text.AgentID(), Text: text.Literal(a.ID.String()), Code: true},
		{Name: text.AgentRevision(), Text: text.Literal(strconv.FormatInt(a.Revision, 10))},
		{Name: text.AgentHoldTime(), Text: text.Literal(present.DurationWords(a.WaitBudget))},
		{Name: text.AgentErrors(), Text: errorStyle},
		{Name: text.AgentCreated(), Time: &a.CreatedAt},
		{Name: text.AgentChanged(), Time: &a.UpdatedAt},
	}
	if a.PendingAs == agent.PendingAsResult {
		list = append(list, view.Fact{Name: text.AgentPendingAs(), Text: text.AgentPendingAsResult()})
	}
	if limit := a.ReplyLimit(); limit > 0 {
		list = append(list, view.Fact{Name: text.AgentReplyTimeout(), Text: text.Literal(present.DurationWords(limit))})
	}
	if n := a.Limits.CallsPerMinute; n > 0 {
		list = append(list, view.Fact{Name: text.AgentCallsPerMinute(), Text: text.AgentAtMost(strconv.Itoa(n))})
	}
	if n := a.Limits.Concurrency; n > 0 {
		list = append(list, view.Fact{Name: text.AgentConcurrency(), Text: text.AgentAtMost(strconv.Itoa(n))})
	}
	list = append(list, view.Fact{Name: text.AgentPendingPerPerson(), Text: text.AgentAtMost(strconv.Itoa(a.Limits.PendingCalls()))})
	return append(list, modelFacts(a)...)
}

// readModel returns an agent's model without its key, or nil.
func readModel(a *agent.Agent) *agent.ModelSpec {
	var m agent.ModelSpec
	if a.Model == nil || json.Unmarshal(a.Model, &m) != nil {
		return nil
	}
	return &m
}

// keyPlaceholder stands for a key that is not known any more.
const keyPlaceholder = "$KEY"

// describeConnecting tells how a client reaches an agent's endpoint with a key. A name has only letters, digits and dashes, and
// a key has no characters that a shell interprets.
func (h *Handler) describeConnecting(name, key string) HowToConnect {
	c := HowToConnect{Keyless: key == keyPlaceholder, Endpoint: strings.TrimSuffix(h.publicURL, "/") + "/agents/" + name + "/mcp"}
	c.Command = "claude mcp add --transport http " + name + " " + c.Endpoint + ` --header "Authorization: Bearer ` + key + `"`
	settings := map[string]any{"mcpServers": map[string]any{name: map[string]any{
		"type": "http", "url": c.Endpoint, "headers": map[string]string{"Authorization": "Bearer " + key},
	}}}
	if config, err := json.MarshalIndent(settings, "", "  "); err == nil {
		c.Config = string(config)
	}
	return c
}
