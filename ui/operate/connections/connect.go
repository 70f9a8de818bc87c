package connections

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// listLimit is how long a person who connected a skill waits for its tools to be listed.
const listLimit = 5 * time.Second

// Callback receives a person from an authorization server. It accepts only navigations of the window, for which
// SameSite=Lax sends the session's cookie. The address has a code in it, so it shows no page that could leak it.
func (h *Handler) Callback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "strict-origin")
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" || r.Method != http.MethodGet {
		h.Fail(w, r, errNoWindow)
		return
	}
	access, _ := login.Access(r.Context())
	key, err := h.oauth.Callback(r.Context(), access.Person.ID, r.URL.Query())
	if err != nil {
		skill, back := "", "/connections"
		if found, _, err := h.agents.Skill(r.Context(), key.SkillID); err == nil {
			skill, back = found.Name, present.SkillURL(found.ID)
		}
		h.answerNotConnected(w, r, err, skill, back)
		return
	}
	connected, err := h.oauth.Find(r.Context(), key)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	// The tools could not be listed before. If it fails, the skill's page shows it.
	ctx, cancel := context.WithTimeout(r.Context(), listLimit)
	defer cancel()
	if _, err := h.trials.ListAgain(ctx, key.SkillID, access.Person.ID); err != nil {
		h.Log.Info("listing the tools of a skill that was connected", "skill_id", key.SkillID, "error", err)
	}
	shell.Redirect(w, r, present.ConnectionURL(connected.ID)+"?done=connected")
}

var (
	errNoWindow = errors.New("not a navigation of the window")
	errNotYours = errors.New("the connection belongs to another person")
)

// ExplainError explains errors about connections and tools.
func ExplainError(_ *http.Request, err error) (status int, n view.Notice, ok bool) {
	n.Level = view.Danger
	switch {
	case errors.Is(err, oauthclient.ErrNotFound):
		n.Title, n.Text = text.ConnectionNotFound(), text.ConnectionNotFoundHere()
		return http.StatusNotFound, n, true
	case errors.Is(err, tool.ErrNotFound):
		n.Title, n.Text = text.ConnectionToolNotFound(), text.ConnectionToolNotFoundHere()
		return http.StatusNotFound, n, true
	case errors.Is(err, errNotYours):
		n.Title, n.Text = text.ConnectionNotYours(), text.ConnectionNotYoursHere()
		return http.StatusForbidden, n, true
	case errors.Is(err, errNoWindow):
		n.Title, n.Text = text.ConnectionRefused(), text.ConnectionRefusedHere()
		return http.StatusForbidden, n, true
	}
	return 0, n, false
}

// maxIssuer bounds the name of an authorization server in a form.
const maxIssuer = 2048

// Connect begins to connect a skill and answers with a page that shows the site that comes next. It does not redirect,
// because the policy form-action 'self' holds for redirects of a form too, and people should see the site first.
func (h *Handler) Connect(w http.ResponseWriter, r *http.Request) {
	l, err := h.LinkOfSkill(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if !l.connect {
		h.Fail(w, r, errNotYours)
		return
	}
	issuer := r.PostFormValue("issuer")
	if len(issuer) > maxIssuer {
		issuer = ""
	}
	access, _ := login.Access(r.Context())
	begun, err := h.oauth.Begin(r.Context(), access.Person.ID, l.key, issuer)
	var needs *oauthclient.NeedsConnectionError
	if errors.As(err, &needs) && needs.Need == oauthclient.NeedIssuer {
		h.letChoose(w, r, l)
		return
	}
	if err != nil {
		h.answerNotConnected(w, r, err, l.Skill.Name, present.SkillURL(l.Skill.ID))
		return
	}
	leave, err := describeRequest(begun)
	if err != nil {
		h.Fail(w, r, fmt.Errorf("connect skill %s: %w", l.Skill.ID, err))
		return
	}
	leave.Skill, leave.Back, leave.Own = l.Skill.Name, present.SkillURL(l.Skill.ID), l.mine
	page := h.Page(r, view.SectionSkills, text.ConnectionConnectTo(view.Printable(l.Skill.Name)), approval.Pulse{Now: h.Now()})
	h.Render(w, r, http.StatusOK, LeavePage(page, leave))
}

// LinkOfSkill returns the signed-in person's link to the skill that the request's path names. It reads the skill again,
// because its settings decide who may connect it.
func (h *Handler) LinkOfSkill(r *http.Request) (*Link, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	skill, _, err := h.agents.FreshSkill(r.Context(), id)
	if err != nil {
		return nil, err
	}
	access, _ := login.Access(r.Context())
	return h.linkFor(r.Context(), access, skill, access.Person.ID)
}

// letChoose offers the authorization servers that the skill's server names.
func (h *Handler) letChoose(w http.ResponseWriter, r *http.Request, l *Link) {
	issuers, err := h.oauth.Issuers(r.Context(), l.key)
	if err != nil {
		h.answerNotConnected(w, r, err, l.Skill.Name, present.SkillURL(l.Skill.ID))
		return
	}
	page := h.Page(r, view.SectionSkills, text.ConnectionConnectTo(view.Printable(l.Skill.Name)), approval.Pulse{Now: h.Now()})
	h.Render(w, r, http.StatusOK, ChoosePage(page, l.Skill.Name, Connect{
		URL: present.SkillURL(l.Skill.ID) + "/connect", Label: text.ConnectionConnect(), Issuers: issuers,
	}))
}

// describeRequest returns the site that an authorization request leads to.
func describeRequest(begun oauthclient.Request) (Leave, error) {
	to, err := url.Parse(begun.URL)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" || to.Host == "" || to.User != nil {
		return Leave{}, errors.New("the authorization request is not an https URL")
	}
	query := to.Query()
	return Leave{
		URL: to.String(), Origin: to.Scheme + "://" + to.Host, Plain: to.Scheme != "https",
		Scopes: query.Get("scope"), Resource: query.Get("resource"), Issuer: begun.Issuer, Elsewhere: !sameOrigin(to, begun.Issuer),
	}, nil
}

// sameOrigin reports whether an issuer is where the request leads.
func sameOrigin(to *url.URL, issuer string) bool {
	u, err := url.Parse(issuer)
	return err == nil && u.Scheme == to.Scheme && strings.EqualFold(u.Host, to.Host)
}

// answerNotConnected explains why a skill could not be connected.
func (h *Handler) answerNotConnected(w http.ResponseWriter, r *http.Request, err error, skill, back string) {
	n := view.Notice{Level: view.Danger, Title: text.ConnectionNotConnected()}
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
		n.Text = text.ConnectionResponseUnknown()
	default:
		h.Fail(w, r, err)
		return
	}
	page := h.Page(r, view.SectionConnections, n.Title, approval.Pulse{Now: h.Now()})
	h.Render(w, r, status, NotConnectedPage(page, n, skill, back))
}
