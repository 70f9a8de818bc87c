package connections

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Link is a skill's connection as one person may use it. The connection may not exist yet.
type Link struct {
	Skill *agent.Skill
	key   oauthclient.Key
	There *oauthclient.Connection // nil: there is none yet
	stray bool                    // its key now stands for another one: the skill was changed, or identities were linked
	mine  bool                    // it is the person's own
	// The actions that the person may take.
	connect, disconnect, operator bool
}

// link finds the connection of a key of a skill.
func (h *Handler) link(ctx context.Context, access identity.Access, skill *agent.Skill, key oauthclient.Key) (*Link, error) {
	var err error
	if key.Principal, err = h.identity.SameAs(ctx, key.Principal); err != nil {
		return nil, err
	}
	l := &Link{Skill: skill, key: key, operator: access.Has(identity.Operator)}
	if l.connect, l.disconnect, err = h.oauth.May(ctx, access, key); err != nil {
		return nil, err
	}
	l.mine = key.Principal != uuid.Nil && l.connect
	there, err := h.oauth.Find(ctx, key)
	switch {
	case errors.Is(err, oauthclient.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		l.There, l.key = &there, there.Key
	}
	if skill.PerUser && key.Principal == uuid.Nil { // made when the skill had a shared one
		l.stray, l.connect = true, false
	}
	l.connect = l.connect && l.asksPeople()
	l.disconnect = l.disconnect && l.There != nil && l.There.ConnectedAt != nil
	return l, nil
}

// linkFor returns the link that a skill has for a person: the shared one, or their own.
func (h *Handler) linkFor(ctx context.Context, access identity.Access, skill *agent.Skill, person uuid.UUID) (*Link, error) {
	key, err := h.oauth.KeyFor(ctx, skill.ID, skill.PerUser, person)
	if err != nil {
		return nil, err
	}
	return h.link(ctx, access, skill, key)
}

// linkOf returns the link of a listed connection.
func (h *Handler) linkOf(ctx context.Context, access identity.Access, c oauthclient.Connection) (*Link, error) {
	skill, _, err := h.agents.Skill(ctx, c.SkillID)
	if err != nil {
		return nil, err
	}
	l, err := h.link(ctx, access, skill, c.Key)
	if err != nil {
		return nil, err
	}
	if l.There == nil || l.There.ID != c.ID {
		l.There, l.key, l.stray, l.connect, l.disconnect = &c, c.Key, true, false, false
	}
	return l, nil
}

// visible reports whether the person may see the connection: their own and shared ones; operators see all.
func (l *Link) visible() bool { return l.operator || l.mine || l.key.Principal == uuid.Nil }

// Connectable reports whether a skill's server could ask for a connection at all.
func Connectable(skill *agent.Skill) bool {
	return tool.TakesTokens(skill.Transport, skill.URL, slices.Values(skill.HeaderNames))
}

// asksPeople reports whether a person can connect the skill; some grants need none.
func (l *Link) asksPeople() bool {
	return Connectable(l.Skill) && (l.Skill.OAuth == nil || !tool.Unattended(l.Skill.OAuth.Grant))
}

// needless reports whether the skill's server needs no connection.
func (l *Link) needless() bool {
	return l.There == nil && !l.Skill.PerUser && l.Skill.OAuth == nil && l.Skill.Health.DiscoveredAt != nil && l.Skill.Health.ErrorKind == ""
}

// ShowConnection shows one connection.
func (h *Handler) ShowConnection(w http.ResponseWriter, r *http.Request) {
	h.answerWithConnection(w, r, http.StatusOK, false, nil)
}

// answerWithConnection answers with the page of the connection that the request is about.
func (h *Handler) answerWithConnection(w http.ResponseWriter, r *http.Request, status int, confirm bool, notice *view.Notice) {
	l, err := h.linkByID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	cards, err := h.Cards(r.Context(), []*Link{l}, l.Skill.ID, pulse.Now)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	card := cards[0]
	card.Confirm = confirm && l.disconnect
	if notice == nil {
		notice = doneNotice(r.URL.Query().Get("done"), l)
	}
	page := h.Page(r, view.SectionConnections, text.ConnectionPageOf(view.Printable(l.Skill.Name)), pulse)
	h.Render(w, r, status, ConnectionPage(page, card, notice))
}

// doneNotice tells the result of the last action if it still holds.
func doneNotice(done string, l *Link) *view.Notice {
	switch {
	case done == "connected" && l.There.Connected():
		return &view.Notice{Level: view.Good, Title: text.ConnectionConnectedDone(), Text: text.ConnectionConnectedNext()}
	case done == "disconnected" && l.There.ConnectedAt == nil:
		return &view.Notice{Level: view.Good, Title: text.ConnectionDisconnectedDone(), Text: text.ConnectionDisconnectedNext()}
	}
	return nil
}

// linkByID returns the connection that the request's path names. A connection that the person may not see is not found.
func (h *Handler) linkByID(r *http.Request) (*Link, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, oauthclient.ErrNotFound
	}
	c, err := h.oauth.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	access, _ := login.Access(r.Context())
	l, err := h.linkOf(r.Context(), access, c)
	if err == nil && !l.visible() {
		err = oauthclient.ErrNotFound
	}
	return l, err
}

// Disconnect deletes a connection's tokens after a second step that explains it.
func (h *Handler) Disconnect(w http.ResponseWriter, r *http.Request) {
	l, err := h.linkByID(r)
	switch {
	case err != nil:
		h.Fail(w, r, err)
		return
	case !l.disconnect:
		h.Fail(w, r, errNotYours)
		return
	case r.PostFormValue("confirmed") == "":
		h.answerWithConnection(w, r, http.StatusOK, true, nil)
		return
	}
	access, _ := login.Access(r.Context())
	if err := h.oauth.Disconnect(r.Context(), access.Person.ID, l.key); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, present.ConnectionURL(l.There.ID)+"?done=disconnected")
}
