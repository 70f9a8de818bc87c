package ui

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
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func (u *UI) agentRoutes() []Route {
	return []Route{
		{"GET /agents", both(), u.showAgents},
		{"GET /agents/new", operators(), u.newAgent},
		{"POST /agents/new", operators(), u.createAgent},
		{"GET /agents/{id}", both(), u.showAgent},
		{"GET /agents/{id}/edit", operators(), u.editAgent},
		{"POST /agents/{id}/edit", operators(), u.saveAgent},
		{"GET /agents/{id}/delete", operators(), u.confirmDeleteAgent},
		{"POST /agents/{id}/delete", operators(), u.deleteAgent},
		{"GET /agents/{id}/assign", operators(), u.chooseTools},
		{"POST /agents/{id}/assign", operators(), u.assign},
		{"POST /agents/{id}/unassign", operators(), u.unassign},
		{"POST /agents/{id}/keys", operators(), u.makeKey},
		{"POST /agents/{id}/keys/{key}/revoke", operators(), u.revokeKey},
	}
}

func agentURL(id uuid.UUID) string { return "/agents/" + id.String() }

// showAgents lists agents by name.
func (u *UI) showAgents(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	if clean(after) != after {
		after = ""
	}
	agents, next, err := u.cfg.Agents.Agents(r.Context(), after, 0)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	rows, err := u.agentRows(r.Context(), agents)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	list := view.Agents{Rows: rows, Newest: after == "", MayEdit: mayEdit(r)}
	if next != "" {
		list.Next = "/agents?after=" + next // a name is letters, digits and dashes
	}
	u.render(w, r, http.StatusOK, view.AgentsPage(u.page(r, view.SectionAgents, "Agents", pulse), list))
}

func (u *UI) agentRows(ctx context.Context, agents []agent.Agent) ([]view.AgentRow, error) {
	keys, err := u.cfg.Agents.KeyCounts(ctx)
	if err != nil {
		return nil, err
	}
	assignments, err := u.cfg.Agents.Assignments(ctx, uuid.Nil)
	if err != nil {
		return nil, err
	}
	skills := map[uuid.UUID][]string{}
	for i := range assignments {
		skills[assignments[i].AgentID] = append(skills[assignments[i].AgentID], assignments[i].Skill)
	}
	var rows []view.AgentRow
	for i := range agents {
		a := &agents[i]
		row := view.AgentRow{
			URL: agentURL(a.ID), Name: a.Name, Team: a.Team, At: a.CreatedAt, Skills: "no skills",
			Keys: view.Badge{Word: "No key", Icon: "rejected", Level: view.Quiet},
		}
		if n := keys[a.ID]; n > 0 {
			row.Keys = view.Badge{Word: plural(n, "key", "keys"), Icon: "good", Level: view.Good}
		}
		if len(skills[a.ID]) > 0 {
			row.Skills = strings.Join(skills[a.ID], ", ")
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// agentOf is the agent that the request's path names.
func (u *UI) agentOf(r *http.Request) (*agent.Agent, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	return u.cfg.Agents.AgentByID(r.Context(), id)
}

// showAgent shows one agent.
func (u *UI) showAgent(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	v, err := u.agentPage(r, a)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.render(w, r, http.StatusOK, view.AgentPage(u.page(r, view.SectionAgents, "Agent "+printable(a.Name), pulse), v))
}

func (u *UI) agentPage(r *http.Request, a *agent.Agent) (view.Agent, error) {
	by := "?" + url.Values{"agent": {a.Name}}.Encode()
	v := view.Agent{
		URL: agentURL(a.ID), Name: a.Name, Team: a.Team, EscalateTo: a.EscalateTo, MayEdit: mayEdit(r),
		Connect: u.howToConnect(a.Name, placeOfKey), Facts: agentFacts(a), CallsURL: "/calls" + by, Conversations: "/conversations" + by,
		Notice: agentNotice(r.URL.Query().Get("done")),
	}
	if access, _ := login.Access(r.Context()); mayStart(access, a) {
		v.Start = "/conversations/new" + by
	}
	if a.Instructions != "" {
		shown := hostile.Fold(a.Instructions, hostile.Folded())
		v.Instructions = &shown
	}
	for _, fill := range []func(context.Context, *agent.Agent, *view.Agent) error{u.fillSkills, u.fillKeys, u.fillCallbacks, u.fillSeen, u.fillCalls} {
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
		n.Title, n.Text = "Created.", "Now assign skills to it, and make a key for its client."
	case "saved":
		n.Title = "Saved."
	case "assigned":
		n.Title, n.Text = "Assigned.", "Its conversations get a new catalogue."
	case "unassigned":
		n.Title, n.Text = "Taken away.", "Calls of that skill that were approved and not yet sent are denied."
	case "callback-deleted":
		n.Title, n.Text = "Deleted.", "The other system is told no more."
	case "revoked":
		n.Title, n.Text = "Revoked.", "Whoever used that key is refused from now on."
	default:
		return nil
	}
	return n
}

func (u *UI) fillSkills(ctx context.Context, a *agent.Agent, v *view.Agent) error {
	assignments, err := u.cfg.Agents.Assignments(ctx, a.ID)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for i := range assignments {
		x := &assignments[i]
		has[x.Skill] = true
		use := view.Use{
			Name: x.Skill, URL: skillURL(x.SkillID), Tools: toolsWords(x.Tools), Remove: x.SkillID.String(),
			Change: agentURL(a.ID) + "/assign?" + url.Values{"skill": {x.Skill}}.Encode(),
		}
		switch {
		case x.Prefix == nil:
		case *x.Prefix == "":
			use.Prefix = "names without a prefix"
		default:
			use.Prefix = "names as " + *x.Prefix + "__…"
		}
		v.Uses = append(v.Uses, use)
	}
	names, err := u.skillNames(ctx)
	v.Assignable = slices.DeleteFunc(names, func(name string) bool { return has[name] })
	return err
}

// maxSkillNames bounds how many skills a form offers.
const maxSkillNames = 1000

func (u *UI) skillNames(ctx context.Context) ([]string, error) {
	var names []string
	for after := ""; ; {
		skills, next, err := u.cfg.Agents.Skills(ctx, after, maxSkillNames)
		if err != nil {
			return nil, err
		}
		for i := range skills {
			names = append(names, skills[i].Name)
		}
		if after = next; after == "" || len(names) >= maxSkillNames {
			return names, nil
		}
	}
}

func (u *UI) fillKeys(ctx context.Context, a *agent.Agent, v *view.Agent) error {
	if !v.MayEdit {
		return nil
	}
	keys, err := u.cfg.Agents.Keys(ctx, a.ID)
	if err != nil {
		return err
	}
	makers := make([]uuid.UUID, len(keys))
	for i := range keys {
		makers[i] = keys[i].CreatedBy
	}
	names, err := u.names(ctx, makers...)
	for i := range keys {
		k := &keys[i]
		v.Keys = append(v.Keys, view.Key{
			Hint: k.Hint, Created: k.CreatedAt, By: personName(k.CreatedBy, names), Ends: k.ExpiresAt,
			Expired: k.ExpiresAt != nil && !k.ExpiresAt.After(u.cfg.Now()), Revoked: k.RevokedAt, Revoke: v.URL + "/keys/" + k.ID.String() + "/revoke",
		})
	}
	return err
}

// fillSeen tells what the agent sees; its skills' servers are not asked for it.
func (u *UI) fillSeen(ctx context.Context, a *agent.Agent, v *view.Agent) error {
	offered, problems, err := u.cfg.Catalog.Preview(ctx, a.ID)
	if err != nil {
		return err
	}
	for i := range offered.Entries {
		e := &offered.Entries[i]
		seen := view.Seen{Name: e.Name}
		if !e.IsBuiltin() { // a built-in tool has no page
			seen.URL = toolURL(e.SkillID, e.Tool.Name)
		}
		v.Seen = append(v.Seen, seen)
	}
	for _, p := range problems {
		v.Problems = append(v.Problems, view.SeenProblem{Skill: p.Skill, Error: p.Error})
	}
	return nil
}

const latestCalls = 5

func (u *UI) fillCalls(ctx context.Context, a *agent.Agent, v *view.Agent) error {
	found, err := u.cfg.Calls.Search(ctx, call.Filter{Agents: []uuid.UUID{a.ID}, Limit: latestCalls})
	for i := range found.Calls {
		c := &found.Calls[i]
		v.Calls = append(v.Calls, view.HistoryRow{URL: callURL(c.ID), Status: statusBadge(c.Status), Skill: c.Skill, Tool: c.Tool, At: c.CreatedAt})
	}
	return err
}

func agentFacts(a *agent.Agent) []view.Fact {
	list := []view.Fact{
		{Name: "Agent", Text: a.ID.String(), Code: true},
		{Name: "Revision", Text: strconv.FormatInt(a.Revision, 10)},
		{Name: "A response waits", Text: durationWords(a.WaitBudget)},
		{Name: "Errors", Text: errorStyleWords(a)},
		{Name: "Created", Time: &a.CreatedAt},
		{Name: "Changed", Time: &a.UpdatedAt},
	}
	if a.ReplyTimeout > 0 {
		list = append(list, view.Fact{Name: "A reply may take", Text: durationWords(a.ReplyTimeout)})
	}
	if n := a.Limits.CallsPerMinute; n > 0 {
		list = append(list, view.Fact{Name: "Calls per minute", Text: "at most " + strconv.Itoa(n)})
	}
	if n := a.Limits.Concurrency; n > 0 {
		list = append(list, view.Fact{Name: "Calls at one time", Text: "at most " + strconv.Itoa(n)})
	}
	list = append(list, view.Fact{Name: "Pending calls for one person", Text: "at most " + strconv.Itoa(a.Limits.PendingCalls())})
	return append(list, modelFacts(a)...)
}

func errorStyleWords(a *agent.Agent) string {
	if a.ErrorStyle == agent.ErrorStyleCodes {
		return "JSON-RPC codes of older gateways"
	}
	return "as MCP says"
}

// modelOf is an agent's model without its key; nil: it has none.
func modelOf(a *agent.Agent) *agent.ModelSpec {
	var m agent.ModelSpec
	if a.Model == nil || json.Unmarshal(a.Model, &m) != nil {
		return nil
	}
	return &m
}

// placeOfKey stands for a key that is not at hand.
const placeOfKey = "$KEY"

// howToConnect tells how a client reaches an agent's endpoint with a key. A name is letters, digits and dashes, and
// a key has nothing that a shell would read.
func (u *UI) howToConnect(name, key string) view.HowToConnect {
	c := view.HowToConnect{Keyless: key == placeOfKey, Endpoint: strings.TrimSuffix(u.cfg.PublicURL, "/") + "/agents/" + name + "/mcp"}
	c.Command = "claude mcp add --transport http " + name + " " + c.Endpoint + ` --header "Authorization: Bearer ` + key + `"`
	settings := map[string]any{"mcpServers": map[string]any{name: map[string]any{
		"type": "http", "url": c.Endpoint, "headers": map[string]string{"Authorization": "Bearer " + key},
	}}}
	if text, err := json.MarshalIndent(settings, "", "  "); err == nil {
		c.Config = string(text)
	}
	return c
}
