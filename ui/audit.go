package ui

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const auditPage = 50

func auditCriteria() []string { return []string{"actor", "action", "subject", "from", "to"} }

// showAudit lists what happened, newest first.
func (u *UI) showAudit(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	c, err := u.auditForm(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	filter, err := u.auditFilter(ctx, c)
	if before, numberErr := strconv.ParseInt(r.URL.Query().Get(pageParameter), 10, 64); numberErr == nil {
		filter.Before = max(before, 0)
	}
	filter.Limit = auditPage
	var found audit.Found
	if err == nil {
		found, err = audit.Search(ctx, u.cfg.Pool, filter)
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
	page := view.Audit{Pages: c.auditPages(found, filter.Before), Export: c.url(c.path + "/export")}
	if page.Rows, err = u.auditRows(ctx, found.Events); err != nil {
		u.fail(w, r, err)
		return
	}
	page.Search = c.form
	u.render(w, r, c.status(), view.AuditPage(u.page(r, view.SectionAudit, "Audit", pulse), page))
}

func (u *UI) auditForm(r *http.Request) (*criteria, error) {
	ctx := r.Context()
	c := criteriaOf(r, auditCriteria()...)
	actions, err := audit.Actions(ctx, u.cfg.Pool)
	if err != nil {
		return nil, err
	}
	people, err := u.peopleNames(ctx)
	if err != nil {
		return nil, err
	}
	agents, err := u.agentNames(ctx)
	if err != nil {
		return nil, err
	}
	c.field(view.Criterion{Name: "actor", Label: "By", Hint: "a name, an id, or system", Options: slices.Concat(people, agents, []string{audit.KindSystem})})
	c.field(view.Criterion{Name: "action", Label: "Action", Hint: "call.parked, or all of call", Options: actions})
	c.field(view.Criterion{Name: "subject", Label: "About", Hint: "the id of a call, skill, agent, person"})
	c.times()
	return c, nil
}

func (u *UI) auditFilter(ctx context.Context, c *criteria) (audit.Filter, error) {
	q := audit.Query{Actor: c.get("actor"), Action: c.get("action"), Subject: c.get("subject"), From: c.get("from"), To: c.get("to")}
	return q.Parse(ctx, func(ctx context.Context, name string) ([]uuid.UUID, error) {
		people, err := u.cfg.Identity.Named(ctx, name)
		if err != nil {
			return nil, err
		}
		agents, err := u.cfg.Agents.AgentsNamed(ctx, name)
		return append(people, agents...), err
	})
}

func (c *criteria) auditPages(found audit.Found, before int64) view.Pages {
	if found.Next == 0 {
		return c.pages(before == 0, "", nil)
	}
	var searched *time.Time
	if found.Stopped && len(found.Events) > 0 {
		searched = &found.Events[len(found.Events)-1].At
	}
	return c.pages(before == 0, strconv.FormatInt(found.Next, 10), searched)
}

func (u *UI) auditRows(ctx context.Context, events []audit.Event) ([]view.AuditRow, error) {
	known, err := u.parties(ctx, events)
	if err != nil {
		return nil, err
	}
	rows := make([]view.AuditRow, len(events))
	for i := range events {
		e := &events[i]
		noun, _, _ := strings.Cut(e.Action, ".")
		rows[i] = view.AuditRow{
			ID: strconv.FormatInt(e.ID, 10), At: e.At, Action: e.Action,
			Actor: known.party(e.Actor.Kind, e.Actor.ID), Via: originWords(e.Origin), Subject: known.party(kindOf(noun), e.Subject),
		}
		by, about := &rows[i].Actor, &rows[i].Subject
		by.Events, by.EventsLabel = "/audit?actor="+by.ID, "All events by"
		about.Events, about.EventsLabel = "/audit?subject="+about.ID, "All events about"
		if e.Raw != nil {
			if data, err := hostile.ReadPretty(e.Raw, hostile.Folded()); err == nil {
				rows[i].Data = &data
			}
		}
	}
	return rows, nil
}

// kindOf says what the events of a noun are about.
func kindOf(noun string) string {
	switch noun {
	case "call", "approval", "question":
		return "call"
	case "skill", "tool":
		return "skill"
	case "agent", "assignment", "agent_key":
		return "agent"
	case "person", "token", "session", "sign_in_link", "calls", "audit":
		return "person"
	}
	return noun
}

// parties are what is known of those whom events are by and about.
type parties struct {
	names map[uuid.UUID]string
}

func (u *UI) parties(ctx context.Context, events []audit.Event) (parties, error) {
	ids := make([]uuid.UUID, 0, 2*len(events))
	for i := range events {
		ids = append(ids, events[i].Subject, events[i].Actor.ID)
	}
	known := parties{names: map[uuid.UUID]string{}}
	for _, look := range []func(context.Context, []uuid.UUID) (map[uuid.UUID]string, error){
		u.cfg.Calls.Titles, u.cfg.Agents.Names,
		func(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) { return u.names(ctx, ids...) },
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
	}
	return ""
}

func (p parties) party(kind string, id uuid.UUID) view.Party {
	if id == uuid.Nil {
		return view.Party{Kind: kind}
	}
	party := view.Party{Kind: kind, Name: p.names[id], ID: id.String(), Short: shortID(id)}
	if page := pageOf(kind); page != "" {
		party.URL = page + id.String()
	}
	return party
}
