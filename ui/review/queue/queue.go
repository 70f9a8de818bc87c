package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// State changes whenever something changes that dashboards show beside the queue.
func (h *Handler) State(ctx context.Context) (string, error) {
	waits, err := h.readWaitState(ctx)
	if err != nil {
		return "", err
	}
	questions, err := h.readQuestionState(ctx)
	if err != nil {
		return "", err
	}
	plans, err := h.readPlanState(ctx)
	if err != nil {
		return "", err
	}
	votes, err := h.calls.ReadVoteState(ctx)
	if err != nil {
		return "", err
	}
	return waits + "." + questions + "." + plans + "." + votes, nil
}

// viewer is a person with a call on the screen, as scripts read it.
type viewer struct {
	Person uuid.UUID `json:"person"`
	Name   string    `json:"name"` // printable
}

// ReadViewers returns the viewers of each call. Pages show them without fetching anything.
func (h *Handler) ReadViewers(ctx context.Context) (json.RawMessage, error) {
	viewings, err := h.presence.Viewings(ctx)
	if err != nil {
		return nil, err
	}
	people := make([]uuid.UUID, len(viewings))
	for i, v := range viewings {
		people[i] = v.Person
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return nil, err
	}
	byCall := map[uuid.UUID][]viewer{}
	for _, v := range viewings {
		byCall[v.CallID] = append(byCall[v.CallID], viewer{v.Person, view.Printable(present.PersonName(v.Person, names))})
	}
	return json.Marshal(byCall)
}

const (
	queueWindow  = 100 // rows on the page
	queueRenewal = 5   // seconds, without JavaScript
)

// ShowQueue shows the queue.
func (h *Handler) ShowQueue(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	query := r.URL.Query()
	filter, err := h.readFilter(r.Context(), query, access)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	keepView(w, r)
	q, err := h.readQueue(r.Context(), filter)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shown := Queue{
		MayDecide: access.Has(identity.Reviewer), Paused: query.Get("pause") != "", Filter: QueueFilter{Team: query.Get("team"), Agent: query.Get("agent"), Skill: query.Get("skill"), Mine: filter.HeldBy != uuid.Nil, ByTool: filter.ByTool},
		URL: queueURL(r, "", ""), ViewsURL: viewsURL(query), Next: queueURL(r, "after", q.next.String()), First: filter.After.CallID == uuid.Nil,
		Total: q.counts.All, Own: q.counts.Own, All: q.pulse.Pending, HasTeams: len(filter.Teams)+len(filter.People) > 0,
		Last: q.last, LastURL: q.lastURL, Rows: q.rowsFor(&access.Person, filter.ByTool), Alone: q.alone,
	}
	choices, err := h.Choices(r.Context(), access.Person.ID)
	shown.Advance = choices.Advance
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if shown.Waits, err = h.presentWaits(r.Context(), access, q.unconnected, q.pulse.Now); err != nil {
		h.Fail(w, r, err)
		return
	}
	if shown.Plans, err = h.readPendingPlans(r.Context(), q.pulse.Now); err != nil {
		h.Fail(w, r, err)
		return
	}
	if shown.Asked, err = h.readPendingQuestions(r.Context(), q.pulse.Now); err != nil {
		h.Fail(w, r, err)
		return
	}
	if len(shown.Rows) == 0 && !shown.Filter.Any() && access.Has(identity.Operator) {
		if shown.Setup, err = h.readSetup(r.Context()); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	shown.Agents = makeOptions(q.facets.Agents, shown.Filter.Agent)
	shown.Skills = makeOptions(q.facets.Skills, shown.Filter.Skill)
	shown.Teams = makeOptions(q.facets.Teams, shown.Filter.Team)
	for _, order := range approval.Orders() {
		value := string(order)
		if order == approval.ByDeadline {
			value = "" // the default is not in the URL
		}
		shown.Orders = append(shown.Orders, view.Option{Value: value, Text: nameOrder(order), Chosen: order == filter.Order})
	}
	if shell.PartOnly(r) {
		h.Render(w, r, http.StatusOK, QueueList(shown))
		return
	}
	if shown.Views, err = h.listViews(r.Context(), access.Person.ID); err != nil {
		h.Fail(w, r, err)
		return
	}
	page := h.Page(r, view.SectionQueue, text.QueueTitle(), q.pulse)
	if !shown.Paused {
		page.RefreshAfter, page.RefreshURL = queueRenewal, renewalURL(shown.URL)
	}
	h.Render(w, r, http.StatusOK, QueuePage(page, shown))
}

// readFilter reads the filter of a URL's query. An invalid value selects everything.
func (h *Handler) readFilter(ctx context.Context, query url.Values, access identity.Access) (approval.QueueFilter, error) {
	duty, err := h.identity.Duty(ctx, access.Person.ID)
	if err != nil {
		return approval.QueueFilter{}, err
	}
	f := approval.QueueFilter{Teams: duty.Teams, Team: query.Get("team"), Order: approval.ByDeadline, ByTool: query.Get("group") == "tool", Limit: queueWindow}
	if order := approval.Order(query.Get("sort")); slices.Contains(approval.Orders(), order) {
		f.Order = order
	}
	if query.Get("mine") != "" {
		f.HeldBy = access.Person.ID
	}
	if shell.Clean(f.Team) != f.Team {
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
	// Readers share an order unless one of them is asked in person.
	asked, err := h.asked.Get(ctx, "", h.calls.AsksPeople)
	if err != nil {
		return f, err
	}
	if asked {
		f.People = duty.People
	}
	return f, nil
}

// nameOrder returns the name of an order of the queue.
func nameOrder(order approval.Order) text.Message {
	switch order {
	case approval.ByRisk:
		return text.QueueByRisk()
	case approval.ByUnusual:
		return text.QueueByUnusual()
	case approval.ByDeadline:
	}
	return text.QueueByDeadline()
}

// listViewParams are the parameters of the queue's URL that a saved view keeps.
func listViewParams() []string { return []string{"team", "agent", "skill", "mine", "sort", "group"} }

// queueURL returns the URL of the queue with one parameter changed, or "" if value is "". It starts at the first page unless the
// parameter is "after". Without a name, it returns the URL of this page.
func queueURL(r *http.Request, name, value string) string {
	if name != "" && value == "" {
		return ""
	}
	query := url.Values{}
	for _, kept := range append(listViewParams(), "pause") {
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

// renewalURL returns the URL by which a page of the list reloads itself without JavaScript.
func renewalURL(url string) string {
	separator := "?"
	if strings.Contains(url, separator) {
		separator = "&"
	}
	return url + separator + renewalParam + "=1"
}

// makeOptions returns the options of a filter. The chosen one stays among them when no more of its calls are pending.
func makeOptions(facets []call.Facet, chosen string) []view.Option {
	list := make([]view.Option, 0, len(facets)+1)
	for _, f := range facets {
		value := f.Name
		if f.ID != uuid.Nil {
			value = f.ID.String()
		}
		list = append(list, view.Option{Value: value, Text: text.Literal(fmt.Sprintf("%s (%d)", view.Printable(f.Name), f.Count)), Chosen: value == chosen})
	}
	if chosen != "" && !slices.ContainsFunc(list, func(o view.Option) bool { return o.Chosen }) {
		list = append(list, view.Option{Value: chosen, Text: text.QueueNoneOfChoice(), Chosen: true})
	}
	return list
}
