package ui

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const (
	historyPage      = 50
	historyArguments = 1 // in a row
)

// historyRoutes are about what happened.
func (u *UI) historyRoutes() []Route {
	return []Route{
		{"GET /calls", both(), u.showHistory},
		{"GET /calls/export", both(), u.exportCalls},
		{"GET /conversations", both(), u.showConversations},
		{"GET /conversations/{id}", both(), u.showConversation},
		{"GET /audit", operators(), u.showAudit},
		{"GET /audit/export", operators(), u.exportAudit},
	}
}

func callCriteria() []string {
	return []string{"text", "agent", "skill", "tool", "person", "status", "from", "to", "conversation"}
}

// historyCriteria reads the form of calls.
func (u *UI) historyCriteria(r *http.Request) (*criteria, error) {
	ctx := r.Context()
	c := criteriaOf(r, callCriteria()...)
	agents, err := u.agentNames(ctx)
	if err != nil {
		return nil, err
	}
	skills, err := u.skillNames(ctx)
	if err != nil {
		return nil, err
	}
	people, err := u.peopleNames(ctx)
	if err != nil {
		return nil, err
	}
	c.form.Text = &view.Criterion{
		Name: "text", Label: "Text in the arguments", Kind: "search", Value: c.get("text"), Hint: "any case, escapes undone",
	}
	c.field(view.Criterion{Name: "agent", Label: "Agent", Options: agents})
	c.field(view.Criterion{Name: "skill", Label: "Skill", Options: skills})
	c.field(view.Criterion{Name: "tool", Label: "Tool"})
	c.field(view.Criterion{Name: "person", Label: "Person", Hint: "on whose behalf, or who decided", Options: people})
	c.times()
	if c.get("conversation") != "" {
		c.field(view.Criterion{Name: "conversation", Label: "Conversation"})
	}
	for _, status := range call.AllStatuses() {
		c.form.Choices = append(c.form.Choices, view.Box{
			Name: "status", Value: string(status), Badge: statusBadge(status), Chosen: slices.Contains(c.values["status"], string(status)),
		})
	}
	return c, nil
}

// callFilter reads what the criteria select.
func (u *UI) callFilter(ctx context.Context, c *criteria) (call.Filter, error) {
	return u.cfg.Calls.Parse(ctx, call.Query{
		Agent: c.get("agent"), Skill: c.get("skill"), Tool: c.get("tool"), Person: c.get("person"), Statuses: c.values["status"],
		From: c.get("from"), To: c.get("to"), Conversation: c.get("conversation"), Text: c.get("text"),
	}, u.cfg.Identity.Named)
}

// showHistory lists calls, newest first.
func (u *UI) showHistory(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	c, err := u.historyCriteria(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	filter, err := u.callFilter(ctx, c)
	if err == nil {
		filter.Before, err = cursor(r)
	}
	filter.Limit = historyPage
	var found call.Found
	if err == nil {
		found, err = u.cfg.Calls.Search(ctx, filter)
	}
	if err != nil && !c.refused(err) {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(ctx)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	page := view.History{Pages: c.callPages(found, filter.Before), Exports: c.exports()}
	if page.Rows, err = u.historyRows(ctx, found.Calls, pulse.Now); err != nil {
		u.fail(w, r, err)
		return
	}
	page.Search = c.form
	u.render(w, r, c.status(), view.HistoryPage(u.page(r, view.SectionCalls, "History", pulse), page))
}

// cursor reads from which id on a page is older; a *[query.InvalidError] if it is none.
func cursor(r *http.Request) (uuid.UUID, error) {
	var reader query.Reader
	id := reader.ID(pageParameter, r.URL.Query().Get(pageParameter))
	return id, reader.Err()
}

func (c *criteria) callPages(found call.Found, before uuid.UUID) view.Pages {
	if found.Next == uuid.Nil {
		return c.pages(before == uuid.Nil, "", nil)
	}
	var searched *time.Time
	if found.Stopped {
		searched = timeOf(found.Next)
	}
	return c.pages(before == uuid.Nil, found.Next.String(), searched)
}

func (c *criteria) exports() []view.Link {
	if c.err != nil {
		return nil
	}
	path := c.path + "/export"
	return []view.Link{{URL: c.url(path, "format", "csv"), Word: "CSV"}, {URL: c.url(path, "format", "jsonl"), Word: "JSON Lines"}}
}

// callFacts are what is said about calls besides themselves.
type callFacts struct {
	approvals   map[uuid.UUID]approval.Approval
	definitions map[tool.Pin]tool.Definition
	names       map[uuid.UUID]string // of people
}

func (u *UI) callFacts(ctx context.Context, calls []call.Call) (f callFacts, err error) {
	if f.approvals, err = u.cfg.Calls.ApprovalsOf(ctx, calls); err != nil {
		return f, err
	}
	people := make([]uuid.UUID, 0, 2*len(calls))
	for i := range calls {
		people = append(people, calls[i].PrincipalID, f.approvals[calls[i].ID].DecidedBy)
	}
	if f.definitions, err = u.definitionsOf(ctx, calls); err != nil {
		return f, err
	}
	f.names, err = u.names(ctx, people...)
	return f, err
}

// definitionsOf returns the definitions by which calls were made, and those of other pins.
func (u *UI) definitionsOf(ctx context.Context, calls []call.Call, more ...tool.Pin) (map[tool.Pin]tool.Definition, error) {
	pins := slices.DeleteFunc(more, tool.Pin.IsZero)
	for i := range calls {
		pins = append(pins, calls[i].Pin)
	}
	return u.cfg.Discovery.Definitions(ctx, pins)
}

func (u *UI) historyRows(ctx context.Context, calls []call.Call, now time.Time) ([]view.HistoryRow, error) {
	facts, err := u.callFacts(ctx, calls)
	if err != nil {
		return nil, err
	}
	rows := make([]view.HistoryRow, len(calls))
	for i := range calls {
		c := &calls[i]
		rows[i] = view.HistoryRow{
			URL: callURL(c.ID), Status: statusBadge(c.Status), Skill: c.Skill, Tool: c.Tool, Agent: c.Agent,
			Decisive:  hostile.Decisive(c.Arguments, historyArguments, briefOf(facts.definitions[c.Pin])).List,
			Principal: personName(c.PrincipalID, facts.names), At: c.CreatedAt,
		}
		if a, ok := facts.approvals[c.ID]; ok {
			rows[i].DecidedBy, rows[i].Waited = personName(a.DecidedBy, facts.names), waited(a, now)
		}
	}
	return rows, nil
}

// waited says how long an approval waited for its decision, or has until now.
func waited(a approval.Approval, now time.Time) string {
	end := now
	switch {
	case a.DecidedAt != nil:
		end = *a.DecidedAt
	case a.Status != approval.Pending:
		end = a.Deadline
	}
	took := end.Sub(a.CreatedAt).Truncate(time.Second)
	switch {
	case took < time.Second && a.Status != approval.Pending:
		return "in under 1 s"
	case took < time.Second:
		return "just now"
	case a.Status == approval.Pending:
		return "for " + leftWords(took) + " so far"
	}
	return "after " + leftWords(took)
}
