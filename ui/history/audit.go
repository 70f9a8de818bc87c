package history

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const auditPage = 50

func auditCriteria() []string { return []string{"actor", "action", "subject", "from", "to"} }

// ShowAudit lists audit events, newest first.
func (h *AuditHandler) ShowAudit(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	c, err := h.auditForm(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	filter, err := h.auditFilter(ctx, c)
	if before, numberErr := strconv.ParseInt(r.URL.Query().Get(shell.PageParameter), 10, 64); numberErr == nil {
		filter.Before = max(before, 0)
	}
	filter.Limit = auditPage
	var found audit.Found
	if err == nil {
		found, err = audit.SearchFrom(ctx, h.calls.Reader, filter)
	}
	if err != nil && !c.Refused(err) {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(ctx)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	page := Audit{Pages: auditPages(c, found, filter.Before), Export: c.URL(c.Path + "/export")}
	if page.Rows, err = h.auditRows(ctx, found.Events); err != nil {
		h.Fail(w, r, err)
		return
	}
	page.Search = c.Form
	h.Render(w, r, c.Status(), AuditPage(h.Page(r, view.SectionAudit, text.AuditTitle(), pulse), page))
}

func (h *AuditHandler) auditForm(r *http.Request) (*shell.Criteria, error) {
	ctx := r.Context()
	c := shell.CriteriaOf(r, auditCriteria()...)
	actions, err := audit.Actions(ctx, h.pool)
	if err != nil {
		return nil, err
	}
	people, err := h.suggest.PeopleNames(ctx)
	if err != nil {
		return nil, err
	}
	agents, err := h.suggest.AgentNames(ctx)
	if err != nil {
		return nil, err
	}
	c.Field(view.Criterion{Name: "actor", Label: text.AuditBy(), Hint: text.AuditByHint(), Options: slices.Concat(people, agents, []string{audit.KindSystem})})
	c.Field(view.Criterion{Name: "action", Label: text.AuditAction(), Hint: text.AuditActionHint(), Options: actions})
	c.Field(view.Criterion{Name: "subject", Label: text.AuditSubject(), Hint: text.AuditSubjectHint()})
	c.Times()
	return c, nil
}

func (h *AuditHandler) auditFilter(ctx context.Context, c *shell.Criteria) (audit.Filter, error) {
	q := audit.Query{Actor: c.Get("actor"), Action: c.Get("action"), Subject: c.Get("subject"), From: c.Get("from"), To: c.Get("to"), Zone: c.Zone}
	return q.Parse(ctx, func(ctx context.Context, name string) ([]uuid.UUID, error) {
		people, err := h.identity.Named(ctx, name)
		if err != nil {
			return nil, err
		}
		agents, err := h.agents.AgentsNamed(ctx, name)
		return append(people, agents...), err
	})
}

// auditPages links to newer and older events.
func auditPages(c *shell.Criteria, found audit.Found, before int64) view.Pages {
	if found.Next == 0 {
		return c.Pages(before == 0, "", nil)
	}
	var searched *time.Time
	if found.Stopped && len(found.Events) > 0 {
		searched = &found.Events[len(found.Events)-1].At
	}
	return c.Pages(before == 0, strconv.FormatInt(found.Next, 10), searched)
}

func (h *AuditHandler) auditRows(ctx context.Context, events []audit.Event) ([]AuditRow, error) {
	known, err := h.parties(ctx, events)
	if err != nil {
		return nil, err
	}
	rows := make([]AuditRow, len(events))
	for i := range events {
		e := &events[i]
		rows[i] = AuditRow{
			ID: strconv.FormatInt(e.ID, 10), At: e.At, Action: e.Action,
			Actor: known.party(e.Actor.Kind, e.Actor.ID), Via: present.DescribeOrigin(e.Origin), Subject: known.subject(e),
		}
		by, about := &rows[i].Actor, &rows[i].Subject
		by.Events, by.EventsLabel = "/audit?actor="+by.ID, text.AuditEventsBy(by.Short)
		about.Events, about.EventsLabel = "/audit?subject="+about.ID, text.AuditEventsAbout(about.Short)
		if e.Raw != nil {
			if data, err := hostile.ReadPretty(e.Raw, hostile.Folded()); err == nil {
				rows[i].Data = &data
			}
		}
	}
	return rows, nil
}

// parties are the known actors and subjects of events.
type parties struct {
	names map[uuid.UUID]string
}

func (h *AuditHandler) parties(ctx context.Context, events []audit.Event) (parties, error) {
	ids := make([]uuid.UUID, 0, 2*len(events))
	for i := range events {
		ids = append(ids, events[i].Subject, events[i].Actor.ID)
	}
	known := parties{names: map[uuid.UUID]string{}}
	for _, look := range []func(context.Context, []uuid.UUID) (map[uuid.UUID]string, error){
		h.history.ReadTitles, h.agents.Names,
		func(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) { return h.Names(ctx, ids...) },
	} {
		names, err := look(ctx, ids)
		if err != nil {
			return parties{}, err
		}
		maps.Copy(known.names, names)
	}
	return known, nil
}

// pageOf is where the pages of a kind are; empty: it has none.
func pageOf(kind string) string {
	switch kind {
	case "call":
		return "/calls/"
	case "skill":
		return "/skills/"
	case "agent":
		return "/agents/"
	case "person":
		return "/members/"
	case "conversation":
		return "/conversations/"
	case "connection":
		return "/connections/"
	case "grant":
		return "/grants/"
	case "plan":
		return "/plans/"
	}
	return ""
}

// nameKind names an actor or a subject of a kind.
func nameKind(kind string) text.Message {
	switch kind {
	case audit.KindSystem:
		return text.EventHoldpoint()
	case "call":
		return text.EventCall()
	case "skill":
		return text.EventSkill()
	case "agent":
		return text.EventAgent()
	case "person":
		return text.EventPerson()
	case "conversation":
		return text.EventConversation()
	case "connection":
		return text.EventConnection()
	case "invitation":
		return text.EventInvitation()
	case "file":
		return text.EventFile()
	case "callback":
		return text.EventCallback()
	case "webhook":
		return text.EventWebhook()
	case "legal_hold":
		return text.EventLegalHold()
	case "rule":
		return text.EventRule()
	case "policy":
		return text.EventPolicy()
	case "schedule":
		return text.EventSchedule()
	case "grant":
		return text.EventGrant()
	case "plan":
		return text.EventPlan()
	case "change":
		return text.EventChange()
	case "guard":
		return text.EventGuard()
	}
	return text.EventNobody()
}

// subject returns what an event is about. A rule, a policy and a schedule have their names in the event: they may be deleted.
func (p parties) subject(e *audit.Event) Party {
	party := p.party(cmp.Or(e.Action.About(), e.Action.Noun()), e.Subject)
	if e.Action.Noun() == "change" {
		party.URL = present.ChangeURL(e.Subject)
	}
	if noun := e.Action.Noun(); noun == "rule" || noun == "policy" || noun == "schedule" {
		var data struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(e.Raw, &data); err == nil && data.Name != "" {
			party.Name = data.Name
			switch noun {
			case "policy":
				party.URL = present.PolicyURL(data.Name)
			case "schedule":
				party.URL = "/teams"
			default:
				party.URL = present.RuleURL(data.Name)
			}
		}
	}
	if e.Action.Noun() == "guard" {
		var data struct {
			Host    string `json:"host"`
			Machine string `json:"machine"`
		}
		if err := json.Unmarshal(e.Raw, &data); err == nil && data.Host != "" {
			party.Name = data.Host + " (" + data.Machine + ")"
		}
		party.URL = present.GuardsURL
	}
	if e.Action == audit.GrantReviewed { // it is about all of them
		party.URL = "/grants"
	}
	return party
}

func (p parties) party(kind string, id uuid.UUID) Party {
	if id == uuid.Nil {
		return Party{Kind: nameKind(kind)}
	}
	party := Party{Kind: nameKind(kind), Name: p.names[id], ID: id.String(), Short: present.ShortID(id)}
	if page := pageOf(kind); page != "" {
		party.URL = page + id.String()
	}
	return party
}
