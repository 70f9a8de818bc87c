package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// maxIssuer bounds the name of an authorization server in a form.
const maxIssuer = 2048

// connect begins to connect a skill, and answers with a page that says where the person is going. It is no
// redirect: the policy form-action 'self' holds for redirects of a form too, and a person should see whose
// site comes next before it has the window.
func (u *UI) connect(w http.ResponseWriter, r *http.Request) {
	l, err := u.linkOfSkill(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if !l.connect {
		u.fail(w, r, errNotYours)
		return
	}
	issuer := r.PostFormValue("issuer")
	if len(issuer) > maxIssuer {
		issuer = ""
	}
	access, _ := login.Access(r.Context())
	begun, err := u.cfg.OAuth.Begin(r.Context(), access.Person.ID, l.key, issuer)
	var needs *oauthclient.NeedsConnectionError
	if errors.As(err, &needs) && needs.Need == oauthclient.NeedIssuer {
		u.letChoose(w, r, l)
		return
	}
	if err != nil {
		u.notConnected(w, r, err, l.skill.Name, skillURL(l.skill.ID))
		return
	}
	leave, err := leaveFor(begun)
	if err != nil {
		u.fail(w, r, fmt.Errorf("connect skill %s: %w", l.skill.ID, err))
		return
	}
	leave.Skill, leave.Back, leave.Own = l.skill.Name, skillURL(l.skill.ID), l.mine
	page := u.page(r, view.SectionSkills, "Connect "+printable(l.skill.Name), approval.Pulse{Now: u.cfg.Now()})
	u.render(w, r, http.StatusOK, view.LeavePage(page, leave))
}

// linkOfSkill is the signed-in person's link to the skill that the request's path names. The skill is read anew: what it
// says of whose its connections are decides who may connect it.
func (u *UI) linkOfSkill(r *http.Request) (*link, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	skill, _, err := u.cfg.Agents.FreshSkill(r.Context(), id)
	if err != nil {
		return nil, err
	}
	access, _ := login.Access(r.Context())
	return u.linkFor(r.Context(), access, skill, access.Person.ID)
}

// letChoose offers the authorization servers that the skill's server names.
func (u *UI) letChoose(w http.ResponseWriter, r *http.Request, l *link) {
	issuers, err := u.cfg.OAuth.Issuers(r.Context(), l.key)
	if err != nil {
		u.notConnected(w, r, err, l.skill.Name, skillURL(l.skill.ID))
		return
	}
	page := u.page(r, view.SectionSkills, "Connect "+printable(l.skill.Name), approval.Pulse{Now: u.cfg.Now()})
	u.render(w, r, http.StatusOK, view.ChoosePage(page, l.skill.Name, view.Connect{
		URL: skillURL(l.skill.ID) + "/connect", Label: "Connect", Issuers: issuers,
	}))
}

// leaveFor says where an authorization request leads.
func leaveFor(begun oauthclient.Request) (view.Leave, error) {
	to, err := url.Parse(begun.URL)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" || to.Host == "" || to.User != nil {
		return view.Leave{}, errors.New("the authorization request is no https URL")
	}
	query := to.Query()
	return view.Leave{
		URL: to.String(), Origin: to.Scheme + "://" + to.Host, Plain: to.Scheme != "https",
		Scopes: query.Get("scope"), Resource: query.Get("resource"), Issuer: begun.Issuer, Elsewhere: !sameOrigin(to, begun.Issuer),
	}, nil
}

// sameOrigin reports whether an issuer is where the request leads.
func sameOrigin(to *url.URL, issuer string) bool {
	u, err := url.Parse(issuer)
	return err == nil && u.Scheme == to.Scheme && strings.EqualFold(u.Host, to.Host)
}

// notConnected tells why a skill could not be connected.
func (u *UI) notConnected(w http.ResponseWriter, r *http.Request, err error, skill, back string) {
	n := view.Notice{Level: view.Danger, Title: "Not connected"}
	var known *oauthclient.Error
	var needs *oauthclient.NeedsConnectionError
	status := http.StatusUnprocessableEntity
	switch {
	case errors.As(err, &needs):
		n.Said = needs.Reason
	case errors.As(err, &known):
		n.Said = known.Error()
	case errors.Is(err, oauthclient.ErrFlow):
		status = http.StatusBadRequest
		n.Text = "What came back from the authorization server belongs to no request of yours, or came twice or too late. Connect again."
	default:
		u.fail(w, r, err)
		return
	}
	page := u.page(r, view.SectionConnections, n.Title, approval.Pulse{Now: u.cfg.Now()})
	u.render(w, r, status, view.NotConnectedPage(page, n, skill, back))
}
