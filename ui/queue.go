package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

const (
	queueWindow  = 100 // rows on the page; more than that nobody reads
	queueRenewal = 5   // seconds, without JavaScript
)

func (u *UI) showQueue(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	filter := queueFilter(r, access)
	waiting, next, err := u.cfg.Calls.Queue(r.Context(), filter)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	queue := view.Queue{
		MayDecide: access.Has(identity.Reviewer), Paused: r.URL.Query().Get("pause") != "", Filter: chosen(r),
		URL: queueURL(r, "", ""), Next: queueURL(r, "after", next.String()), First: filter.After.CallID == uuid.Nil,
	}
	if queue.Rows, err = u.rows(r.Context(), access, waiting, pulse); err != nil {
		u.fail(w, r, err)
		return
	}
	if err := u.aroundQueue(r, access, filter, pulse, &queue); err != nil {
		u.fail(w, r, err)
		return
	}
	if partOnly(r) {
		u.render(w, r, http.StatusOK, view.QueueList(queue))
		return
	}
	page := u.page(r, view.SectionQueue, "Queue", pulse)
	if !queue.Paused {
		page.RefreshAfter = queueRenewal
	}
	u.render(w, r, http.StatusOK, view.QueuePage(page, queue))
}

// queueFilter reads what the address chooses. What cannot be read chooses everything.
func queueFilter(r *http.Request, access identity.Access) approval.QueueFilter {
	query := r.URL.Query()
	f := approval.QueueFilter{Teams: access.Person.Teams, Team: query.Get("team"), Limit: queueWindow}
	if clean(f.Team) != f.Team {
		f.Team = ""
	}
	for name, id := range map[string]*uuid.UUID{"agent": &f.AgentID, "skill": &f.SkillID} {
		if found, err := uuid.Parse(query.Get(name)); err == nil {
			*id = found
		}
	}
	if after, err := approval.ParsePosition(query.Get("after")); err == nil {
		f.After = after
	}
	return f
}

func chosen(r *http.Request) view.QueueFilter {
	query := r.URL.Query()
	return view.QueueFilter{Team: query.Get("team"), Agent: query.Get("agent"), Skill: query.Get("skill")}
}

// queueURL is the page with one parameter set, at the queue's beginning unless that is the one; empty when the
// parameter is to be empty.
func queueURL(r *http.Request, name, value string) string {
	if name != "" && value == "" {
		return ""
	}
	query := url.Values{}
	for _, kept := range []string{"team", "agent", "skill", "pause"} {
		if v := r.URL.Query().Get(kept); v != "" {
			query.Set(kept, v)
		}
	}
	if name == "" {
		name, value = "after", r.URL.Query().Get("after")
	}
	if value != "" {
		query.Set(name, value)
	}
	if len(query) == 0 {
		return "/"
	}
	return "/?" + query.Encode()
}

// aroundQueue adds what stands around the rows: counts, what waits for connections, what to choose from.
func (u *UI) aroundQueue(r *http.Request, access identity.Access, f approval.QueueFilter, pulse approval.Pulse, q *view.Queue) error {
	ctx := r.Context()
	q.Total, q.All = pulse.Pending, pulse.Pending
	if len(f.Teams) > 0 || f.Team != "" || f.AgentID != uuid.Nil || f.SkillID != uuid.Nil {
		counts, err := u.cfg.Calls.QueueCounts(ctx, f)
		if err != nil {
			return err
		}
		q.Total, q.Own, q.HasTeams = counts.All, counts.Own, len(f.Teams) > 0
	}
	var err error
	if q.Waits, err = u.unconnected(ctx, access, pulse.Now); err != nil {
		return err
	}
	if q.Total == 0 {
		if q.Last, q.LastURL, err = u.lastDecision(ctx); err != nil {
			return err
		}
	}
	facets, err := u.cfg.Calls.QueueFacets(ctx)
	if err != nil {
		return err
	}
	q.Agents, q.Skills, q.Teams = options(facets.Agents, q.Filter.Agent), options(facets.Skills, q.Filter.Skill), options(facets.Teams, q.Filter.Team)
	return nil
}

// options are what can be chosen, with what is chosen among them though nothing of it waits any more.
func options(facets []call.Facet, chosen string) []view.Option {
	list := make([]view.Option, 0, len(facets)+1)
	for _, f := range facets {
		value := f.Name
		if f.ID != uuid.Nil {
			value = f.ID.String()
		}
		list = append(list, view.Option{Value: value, Text: fmt.Sprintf("%s (%d)", printable(f.Name), f.Count), Chosen: value == chosen})
	}
	if chosen != "" && !slices.ContainsFunc(list, func(o view.Option) bool { return o.Chosen }) {
		list = append(list, view.Option{Value: chosen, Text: "none waiting", Chosen: true})
	}
	return list
}

func (u *UI) rows(ctx context.Context, access identity.Access, waiting []call.Waiting, pulse approval.Pulse) ([]view.Row, error) {
	pins, people := make([]tool.Pin, len(waiting)), make([]uuid.UUID, len(waiting))
	for i := range waiting {
		pins[i], people[i] = waiting[i].Call.Pin, waiting[i].Call.PrincipalID
	}
	definitions, err := u.cfg.Discovery.Definitions(ctx, pins)
	if err != nil {
		return nil, err
	}
	names, err := u.names(ctx, people...)
	if err != nil {
		return nil, err
	}
	viewers, err := u.viewers(ctx, access, callIDs(waiting)...)
	if err != nil {
		return nil, err
	}
	rows := make([]view.Row, len(waiting))
	for i := range waiting {
		c := &waiting[i].Call
		risk, err := u.risk(ctx, c, definitions[c.Pin])
		if err != nil {
			return nil, err
		}
		rows[i] = presentRow(&waiting[i], definitions[c.Pin], risk, names[c.PrincipalID], pulse.Now)
		rows[i].Viewers = viewers[c.ID]
		rows[i].Own = waiting[i].Approval.Asks(access.Person.Teams)
	}
	markLike(waiting, rows)
	return rows, nil
}

func callIDs(waiting []call.Waiting) []uuid.UUID {
	ids := make([]uuid.UUID, len(waiting))
	for i := range waiting {
		ids[i] = waiting[i].Call.ID
	}
	return ids
}

// markLike says on the first of calls that differ in their arguments only how many there are.
func markLike(waiting []call.Waiting, rows []view.Row) {
	type kind struct {
		agent, principal, skill uuid.UUID
		tool                    string
	}
	first, count := map[kind]int{}, map[kind]int{}
	for i := range waiting {
		c := &waiting[i].Call
		k := kind{c.AgentID, c.PrincipalID, c.SkillID, c.Tool}
		if count[k]++; count[k] == 1 {
			first[k] = i
		}
	}
	for k, i := range first {
		if count[k] > 1 {
			rows[i].Like = count[k]
		}
	}
}

// lastDecision is the latest of the newest few; empty when there was none.
func (u *UI) lastDecision(ctx context.Context) (*view.Decision, string, error) {
	const few = 20
	newest, _, err := u.cfg.Calls.Approvals(ctx, call.QueueFilter{Limit: few})
	if err != nil {
		return nil, "", err
	}
	var last *call.Waiting
	for i := range newest {
		if at := newest[i].Approval.DecidedAt; at != nil && (last == nil || at.After(*last.Approval.DecidedAt)) {
			last = &newest[i]
		}
	}
	if last == nil {
		return nil, "", nil
	}
	names, err := u.names(ctx, last.Approval.DecidedBy)
	if err != nil {
		return nil, "", err
	}
	decision := presentDecision(last.Approval, names)
	decision.About = last.Call.Skill + ": " + last.Call.Tool
	return decision, callURL(last.Call.ID), nil
}
