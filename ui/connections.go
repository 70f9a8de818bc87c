package ui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

const (
	connectionPage = 50
	skillPage      = 200
)

// showConnections lists the connections that the person may know of; before them, on the first page, what
// they could connect and did not.
func (u *UI) showConnections(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	before, err := uuid.Parse(r.URL.Query().Get("before"))
	if err != nil {
		before = uuid.Nil
	}
	links, next, err := u.links(r.Context(), access, oauthclient.Filter{Before: before, Limit: connectionPage})
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if before == uuid.Nil {
		open, err := u.unmade(r.Context(), access)
		if err != nil {
			u.fail(w, r, err)
			return
		}
		links = append(open, links...)
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	list := view.Connections{Newest: before == uuid.Nil}
	if list.List, err = u.cards(r.Context(), links, uuid.Nil, pulse.Now); err != nil {
		u.fail(w, r, err)
		return
	}
	if next != uuid.Nil {
		list.Next = "/connections?before=" + next.String()
	}
	u.render(w, r, http.StatusOK, view.ConnectionsPage(u.page(r, view.SectionConnections, "Connections", pulse), list))
}

// links are the connections of a filter that the person may know of.
func (u *UI) links(ctx context.Context, access identity.Access, f oauthclient.Filter) ([]*link, uuid.UUID, error) {
	if !access.Has(identity.Operator) {
		f.VisibleTo = access.Person.ID
	}
	found, next, err := u.cfg.OAuth.List(ctx, f)
	if err != nil {
		return nil, uuid.Nil, err
	}
	var links []*link
	for _, c := range found {
		l, err := u.linkOf(ctx, access, c)
		if errors.Is(err, agent.ErrNotFound) {
			continue // deleted in this moment
		}
		if err != nil {
			return nil, uuid.Nil, err
		}
		links = append(links, l)
	}
	return links, next, nil
}

// unmade are the connections that the person could make and that are not there at all yet.
func (u *UI) unmade(ctx context.Context, access identity.Access) ([]*link, error) {
	skills, _, err := u.cfg.Agents.Skills(ctx, "", skillPage)
	if err != nil {
		return nil, err
	}
	var open []*link
	for i := range skills {
		skill := &skills[i]
		// Of a shared one that says nothing of it, its server says whether it needs one.
		if !connectable(skill) || !skill.PerUser && skill.OAuth == nil {
			continue
		}
		l, err := u.linkFor(ctx, access, skill, access.Person.ID)
		if err != nil {
			return nil, err
		}
		if l.there == nil && l.connect {
			open = append(open, l)
		}
	}
	return open, nil
}

// cards present links, each with the calls that wait for it. All are of one skill, unless skillID is uuid.Nil.
func (u *UI) cards(ctx context.Context, links []*link, skillID uuid.UUID, now time.Time) ([]view.Connection, error) {
	waiting, err := u.cfg.Calls.Unconnected(ctx, skillID, waitWindow)
	if err != nil {
		return nil, err
	}
	people := principals(waiting)
	for _, l := range links {
		people = append(people, l.key.Principal)
		if l.there != nil {
			people = append(people, l.there.ConnectedBy)
		}
	}
	names, err := u.names(ctx, people...)
	if err != nil {
		return nil, err
	}
	cards := make([]view.Connection, len(links))
	at := map[oauthclient.Key]int{}
	for i, l := range links {
		cards[i] = presentLink(l, names, now)
		if !l.stray {
			at[l.key] = i
		}
	}
	for i := range waiting {
		skill, _, err := u.cfg.Agents.Skill(ctx, waiting[i].Call.SkillID)
		if errors.Is(err, agent.ErrNotFound) {
			continue // deleted in this moment
		}
		if err != nil {
			return nil, err
		}
		key, err := u.cfg.OAuth.KeyFor(ctx, skill.ID, skill.PerUser, waiting[i].Call.PrincipalID)
		if err != nil {
			return nil, err
		}
		if n, ok := at[key]; ok {
			cards[n].Waiting = append(cards[n].Waiting, presentWait(&waiting[i], names, now))
		}
	}
	return cards, nil
}
