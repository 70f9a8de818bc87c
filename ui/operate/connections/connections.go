package connections

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
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// PageSize is how many connections a page lists.
const PageSize = 50

const skillPageSize = 200 // skills of which a person may have no link yet, on the first page

// ShowConnections lists the connections that the person may see. The first page begins with those that they could make.
func (h *Handler) ShowConnections(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	before, err := uuid.Parse(r.URL.Query().Get("before"))
	if err != nil {
		before = uuid.Nil
	}
	links, next, err := h.Links(r.Context(), access, oauthclient.Filter{Before: before, Limit: PageSize})
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if before == uuid.Nil {
		open, err := h.listUnmade(r.Context(), access)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		links = append(open, links...)
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	list := Connections{Newest: before == uuid.Nil}
	if list.List, err = h.Cards(r.Context(), links, uuid.Nil, pulse.Now); err != nil {
		h.Fail(w, r, err)
		return
	}
	if next != uuid.Nil {
		list.Next = "/connections?before=" + next.String()
	}
	h.Render(w, r, http.StatusOK, ConnectionsPage(h.Page(r, view.SectionConnections, text.ConnectionTitle(), pulse), list))
}

// Links returns the connections of a filter that the person may see.
func (h *Handler) Links(ctx context.Context, access identity.Access, f oauthclient.Filter) ([]*Link, uuid.UUID, error) {
	if !access.Has(identity.Operator) {
		f.VisibleTo = access.Person.ID
	}
	found, next, err := h.oauth.List(ctx, f)
	if err != nil {
		return nil, uuid.Nil, err
	}
	var links []*Link
	for _, c := range found {
		l, err := h.linkOf(ctx, access, c)
		if errors.Is(err, agent.ErrNotFound) {
			continue // just deleted
		}
		if err != nil {
			return nil, uuid.Nil, err
		}
		links = append(links, l)
	}
	return links, next, nil
}

// listUnmade returns the connections that the person could make and that do not exist yet.
func (h *Handler) listUnmade(ctx context.Context, access identity.Access) ([]*Link, error) {
	skills, _, err := h.agents.Skills(ctx, "", skillPageSize)
	if err != nil {
		return nil, err
	}
	var open []*Link
	for i := range skills {
		skill := &skills[i]
		// The server of any other shared skill decides whether it needs a connection.
		if !Connectable(skill) || !skill.PerUser && skill.OAuth == nil {
			continue
		}
		l, err := h.linkFor(ctx, access, skill, access.Person.ID)
		if err != nil {
			return nil, err
		}
		if l.There == nil && l.connect {
			open = append(open, l)
		}
	}
	return open, nil
}

// Cards presents links, each with the calls that wait for it. All are of one skill unless skillID is uuid.Nil.
func (h *Handler) Cards(ctx context.Context, links []*Link, skillID uuid.UUID, now time.Time) ([]Connection, error) {
	waiting, err := h.calls.ListUnconnected(ctx, skillID, present.WaitWindow)
	if err != nil {
		return nil, err
	}
	people := present.Principals(waiting)
	for _, l := range links {
		people = append(people, l.key.Principal)
		if l.There != nil {
			people = append(people, l.There.ConnectedBy)
		}
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return nil, err
	}
	cards := make([]Connection, len(links))
	at := map[oauthclient.Key]int{}
	for i, l := range links {
		cards[i] = presentLink(l, names, now)
		if !l.stray {
			at[l.key] = i
		}
	}
	for i := range waiting {
		skill, _, err := h.agents.Skill(ctx, waiting[i].Call.SkillID)
		if errors.Is(err, agent.ErrNotFound) {
			continue // just deleted
		}
		if err != nil {
			return nil, err
		}
		key, err := h.oauth.KeyFor(ctx, skill.ID, skill.PerUser, waiting[i].Call.PrincipalID)
		if err != nil {
			return nil, err
		}
		if n, ok := at[key]; ok {
			cards[n].Waiting = append(cards[n].Waiting, present.Wait(&waiting[i], names, now))
		}
	}
	return cards, nil
}
