package ui

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
	"github.com/holdpoint/holdpoint/ui/view"
)

func connectionURL(id uuid.UUID) string { return "/connections/" + id.String() }

func skillURL(id uuid.UUID) string { return "/skills/" + id.String() }

// link is a skill's connection, or the place of one that is not there yet, as one person may use it.
type link struct {
	skill *agent.Skill
	key   oauthclient.Key
	there *oauthclient.Connection // nil: there is none yet
	stray bool                    // it is no longer the one that its key stands for: the skill was changed, or people were linked
	mine  bool                    // it is the person's own
	// What the person may do.
	connect, disconnect, operator bool
}

// link finds what a key of a skill stands for.
func (u *UI) link(ctx context.Context, access identity.Access, skill *agent.Skill, key oauthclient.Key) (*link, error) {
	var err error
	if key.Principal, err = u.cfg.Identity.SameAs(ctx, key.Principal); err != nil {
		return nil, err
	}
	l := &link{skill: skill, key: key, operator: access.Has(identity.Operator)}
	if l.connect, l.disconnect, err = u.cfg.OAuth.May(ctx, access, key); err != nil {
		return nil, err
	}
	l.mine = key.Principal != uuid.Nil && l.connect
	there, err := u.cfg.OAuth.Find(ctx, key)
	switch {
	case errors.Is(err, oauthclient.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		l.there, l.key = &there, there.Key
	}
	if skill.PerUser && key.Principal == uuid.Nil { // of when the skill had one for all
		l.stray, l.connect = true, false
	}
	l.connect = l.connect && l.asksPeople()
	l.disconnect = l.disconnect && l.there != nil && l.there.ConnectedAt != nil
	return l, nil
}

// linkFor is the link that a skill has for a person: the shared one, or their own.
func (u *UI) linkFor(ctx context.Context, access identity.Access, skill *agent.Skill, person uuid.UUID) (*link, error) {
	key, err := u.cfg.OAuth.KeyFor(ctx, skill.ID, skill.PerUser, person)
	if err != nil {
		return nil, err
	}
	return u.link(ctx, access, skill, key)
}

// linkOf is the link of a connection that was listed.
func (u *UI) linkOf(ctx context.Context, access identity.Access, c oauthclient.Connection) (*link, error) {
	skill, _, err := u.cfg.Agents.Skill(ctx, c.SkillID)
	if err != nil {
		return nil, err
	}
	l, err := u.link(ctx, access, skill, c.Key)
	if err != nil {
		return nil, err
	}
	if l.there == nil || l.there.ID != c.ID {
		l.there, l.key, l.stray, l.connect, l.disconnect = &c, c.Key, true, false, false
	}
	return l, nil
}

// visible reports whether the person may know of the connection: their own and the shared ones, and
// operators, who look after them, of all.
func (l *link) visible() bool { return l.operator || l.mine || l.key.Principal == uuid.Nil }

// connectable reports whether a skill's server could ask for a connection at all.
func connectable(skill *agent.Skill) bool {
	return tool.TakesTokens(skill.Transport, skill.URL, slices.Values(skill.HeaderNames))
}

// asksPeople reports whether a person can connect the skill; some grants need none.
func (l *link) asksPeople() bool {
	return connectable(l.skill) && (l.skill.OAuth == nil || !tool.Unattended(l.skill.OAuth.Grant))
}

// needless reports whether the skill's server lets Holdpoint in as it is.
func (l *link) needless() bool {
	return l.there == nil && !l.skill.PerUser && l.skill.OAuth == nil && l.skill.Health.DiscoveredAt != nil && l.skill.Health.ErrorKind == ""
}

// showConnection shows one connection.
func (u *UI) showConnection(w http.ResponseWriter, r *http.Request) {
	u.answerWithConnection(w, r, http.StatusOK, false, nil)
}

// answerWithConnection answers with the page of the connection that the request is about.
func (u *UI) answerWithConnection(w http.ResponseWriter, r *http.Request, status int, confirm bool, notice *view.Notice) {
	l, err := u.linkByID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	cards, err := u.cards(r.Context(), []*link{l}, l.skill.ID, pulse.Now)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	card := cards[0]
	card.Confirm = confirm && l.disconnect
	if notice == nil {
		notice = doneNotice(r.URL.Query().Get("done"), l)
	}
	page := u.page(r, view.SectionConnections, "Connection of "+printable(l.skill.Name), pulse)
	u.render(w, r, status, view.ConnectionPage(page, card, notice))
}

// doneNotice says what was just done, if that is how it is.
func doneNotice(done string, l *link) *view.Notice {
	switch {
	case done == "connected" && l.there.Connected():
		return &view.Notice{Level: view.Good, Title: "Connected.", Text: "Calls that waited for this go on by themselves."}
	case done == "disconnected" && l.there.ConnectedAt == nil:
		return &view.Notice{
			Level: view.Good, Title: "Disconnected.",
			Text: "Its tokens are forgotten here, and are being revoked where they were issued.",
		}
	}
	return nil
}

// linkByID is the connection that the request's path names; to whom it does not concern it does not exist.
func (u *UI) linkByID(r *http.Request) (*link, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, oauthclient.ErrNotFound
	}
	c, err := u.cfg.OAuth.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	access, _ := login.Access(r.Context())
	l, err := u.linkOf(r.Context(), access, c)
	if err == nil && !l.visible() {
		err = oauthclient.ErrNotFound
	}
	return l, err
}
