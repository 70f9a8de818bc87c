package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
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
	q, err := u.readQueue(r.Context(), filter)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	shown := view.Queue{
		MayDecide: access.Has(identity.Reviewer), Paused: r.URL.Query().Get("pause") != "", Filter: chosen(r),
		URL: queueURL(r, "", ""), Next: queueURL(r, "after", q.next.String()), First: filter.After.CallID == uuid.Nil,
		Total: q.counts.All, Own: q.counts.Own, All: q.pulse.Pending, HasTeams: len(filter.Teams) > 0,
		Last: q.last, LastURL: q.lastURL, Rows: q.rowsFor(access.Person.ID),
	}
	if shown.Waits, err = u.unconnected(r.Context(), access, q.unconnected, q.pulse.Now); err != nil {
		u.fail(w, r, err)
		return
	}
	if shown.Asked, err = u.pendingQuestions(r.Context(), q.pulse.Now); err != nil {
		u.fail(w, r, err)
		return
	}
	shown.Agents = options(q.facets.Agents, shown.Filter.Agent)
	shown.Skills = options(q.facets.Skills, shown.Filter.Skill)
	shown.Teams = options(q.facets.Teams, shown.Filter.Team)
	if partOnly(r) {
		u.render(w, r, http.StatusOK, view.QueueList(shown))
		return
	}
	page := u.page(r, view.SectionQueue, "Queue", q.pulse)
	if !shown.Paused {
		page.RefreshAfter = queueRenewal
	}
	u.render(w, r, http.StatusOK, view.QueuePage(page, shown))
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
