package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// flow is a pending sign-in with a provider. It is stored in the session of the browser that began it, so no other browser can
// complete it.
type flow struct {
	provider.Flow

	Next    string    `json:"next"`
	Session uuid.UUID `json:"session"` // the session to authenticate again; uuid.Nil: a new session
}

const (
	// flowLimit is how long a person may take at the provider.
	flowLimit = 15 * time.Minute
	// maxFlows is how many sign-ins may be pending in one browser, in several tabs.
	maxFlows = 5
)

// startFlow redirects a person to a provider. It is a link, because the policy form-action 'self' also applies to redirects
// after a form. Other sites can only make it show the sign-in page.
func (l *Login) startFlow(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	next := localPath(query.Get("next"))
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" || r.Header.Get("Sec-Purpose") != "" {
		http.Redirect(w, r, SignInPath+"?next="+url.QueryEscape(next), http.StatusSeeOther)
		return
	}
	p := l.providerByName(query.Get("provider"))
	if p == nil {
		l.renderSignIn(w, r, http.StatusNotFound, view.SignIn{Next: next, Error: text.SignInUnknownProvider()})
		return
	}
	fl := flow{Next: next}
	access, signedIn, err := l.currentAccess(r.Context())
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	if again := query.Has("again"); again && signedIn && access.Person.Issuer == p.Issuer() {
		fl.Session = access.Session
	}
	to, begun, err := p.Begin(r.Context(), fl.Session != uuid.Nil)
	if err == nil {
		fl.Flow = begun
		err = l.keepFlow(r.Context(), fl, signedIn)
	}
	if err != nil {
		l.refuseFlow(w, r, p, next, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// handleCallback takes the authorization response. SameSite=Lax sends the cookie with top-level navigations only, so it
// answers no other requests. The address contains a code, so no page is shown that could send it to another site in a Referer
// header.
func (l *Login) handleCallback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "strict-origin")
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" {
		l.renderRefusal(w, r, http.StatusForbidden, view.SignInRefused{Text: text.SignInCallbackOnly()})
		return
	}
	fl, ok, err := l.takeFlow(r.Context(), r.URL.Query().Get("state"))
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	p := l.providerByName(fl.Provider)
	if !ok || p == nil {
		l.cfg.Logger.Info("sign-in refused", "reason", "no such flow", "remote", clientaddr.FromContext(r.Context()).String())
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		l.renderRefusal(w, r, http.StatusBadRequest, view.SignInRefused{
			Text: text.SignInUnknownFlow(),
		})
		return
	}
	answer, err := p.Finish(r.Context(), fl.Flow, r.URL.Query())
	if err != nil {
		l.refuseFlow(w, r, p, fl.Next, err)
		return
	}
	if fl.Session != uuid.Nil {
		l.finishAgain(w, r, p, fl, answer)
		return
	}
	session, invited, err := l.signInWithClaims(r, answer.Claims, identity.NewSession{Client: r.UserAgent(), Lifetime: p.Session()})
	if err == nil {
		err = l.beginSession(r.Context(), session)
	}
	if err != nil && invited {
		l.refuseInvitation(w, r, err)
		return
	}
	if err != nil {
		l.refuseClaims(w, r, answer.Claims, err)
		return
	}
	l.finishSignIn(w, r, session, fl.Next)
	l.reportVouched(r.Context(), session.Person, p, answer)
}

// signInWithClaims signs in the person of the claims, with the invitation that the browser opened before, if any.
func (l *Login) signInWithClaims(r *http.Request, claims identity.Claims, n identity.NewSession) (_ identity.Session, invited bool, _ error) {
	ctx := r.Context()
	invitation := l.sessions.PopString(ctx, keyInvitation)
	if invitation == "" {
		session, err := l.cfg.Identity.SignIn(ctx, claims, n)
		return session, false, err
	}
	session, err := l.cfg.Identity.SignInInvited(ctx, claims, invitation, n)
	return session, true, err
}

// refuseFlow says why a sign-in with a provider failed.
func (l *Login) refuseFlow(w http.ResponseWriter, r *http.Request, p *provider.Provider, next string, err error) {
	refused := view.SignInRefused{Next: next, Text: text.SignInSomethingWrong()}
	status := inbound.FailureStatus(w.Header(), err)
	var known *provider.Error
	switch {
	case errors.Is(err, provider.ErrUnreachable):
		status = http.StatusBadGateway
		refused.Text = text.SignInProviderUnavailable(p.Name())
	case errors.As(err, &known):
		status = http.StatusUnauthorized
		refused.Text, refused.Said = text.Literal(known.Text), known.Said
	}
	l.cfg.Logger.Warn("sign-in with an identity provider failed", "provider", p.Name(), "error", err)
	l.renderRefusal(w, r, status, refused)
}

// refuseClaims says why a person whom a provider verified is not signed in.
func (l *Login) refuseClaims(w http.ResponseWriter, r *http.Request, claims identity.Claims, err error) {
	refused := view.SignInRefused{
		Title: text.SignInAccessDenied(), Name: claims.Name,
		Facts: []view.Fact{{Name: text.SignInIdentityProvider(), Text: text.Literal(claims.Issuer), Code: true}, {Name: text.SignInSubject(), Text: text.Literal(claims.Subject), Code: true}},
	}
	var invalid *fault.InvalidError
	switch {
	case errors.Is(err, identity.ErrNoRole):
		refused.Text = text.SignInNoRole()
	case errors.Is(err, identity.ErrBlocked):
		refused.Text = text.SignInBlocked()
	case errors.As(err, &invalid):
		refused.Text = text.SignInInvalidClaims(invalid.Error())
		refused.Facts = nil
	default:
		l.cfg.Logger.Error("sign in", "error", err)
		l.renderSignIn(w, r, inbound.FailureStatus(w.Header(), err), view.SignIn{Error: text.SignInSomethingWrong()})
		return
	}
	l.cfg.Logger.Info("sign-in refused", "issuer", claims.Issuer, "reason", strings.TrimSpace(err.Error()), "remote", clientaddr.FromContext(r.Context()).String())
	l.renderRefusal(w, r, http.StatusForbidden, refused)
}

func (l *Login) renderRefusal(w http.ResponseWriter, r *http.Request, status int, refused view.SignInRefused) {
	if refused.Title.IsZero() {
		refused.Title = text.SignInNotSignedIn()
	}
	l.renderPage(w, r, status, view.SignInRefusedPage(l.cfg.Page(r, refused.Title), refused))
}

func (l *Login) reportVouched(ctx context.Context, person uuid.UUID, p *provider.Provider, answer provider.Answer) {
	if l.cfg.Vouched != nil {
		l.cfg.Vouched(ctx, person, p, answer)
	}
}

func (l *Login) providerByName(name string) *provider.Provider {
	for _, p := range l.cfg.Providers {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// pendingFlows returns the pending sign-ins of the browser.
func (l *Login) pendingFlows(ctx context.Context) ([]flow, error) {
	var flows []flow
	if text := l.sessions.GetBytes(ctx, keyFlows); len(text) > 0 {
		if err := json.Unmarshal(text, &flows); err != nil {
			return nil, fmt.Errorf("read flows of a session: %w", err)
		}
	}
	return slices.DeleteFunc(flows, func(fl flow) bool { return l.cfg.Now().Sub(fl.Began) > flowLimit }), nil
}

func (l *Login) setFlows(ctx context.Context, flows []flow) error {
	text, err := json.Marshal(flows)
	if err != nil {
		return fmt.Errorf("store flows of a session: %w", err)
	}
	l.sessions.Put(ctx, keyFlows, text)
	return nil
}

// keepFlow stores a sign-in in the session of the browser. A session without a person lasts only as long as the sign-in.
func (l *Login) keepFlow(ctx context.Context, fl flow, signedIn bool) error {
	flows, err := l.pendingFlows(ctx)
	if err != nil {
		return err
	}
	flows = append(flows, fl)
	if !signedIn {
		l.sessions.SetDeadline(ctx, l.cfg.Now().Add(flowLimit).UTC())
	}
	return l.setFlows(ctx, flows[max(0, len(flows)-maxFlows):])
}

// takeFlow returns the pending sign-in with this state, and removes it.
func (l *Login) takeFlow(ctx context.Context, state string) (flow, bool, error) {
	flows, err := l.pendingFlows(ctx)
	if err != nil || state == "" {
		return flow{}, false, err
	}
	at := slices.IndexFunc(flows, func(fl flow) bool { return fl.State == state })
	if at < 0 {
		return flow{}, false, nil
	}
	taken := flows[at]
	return taken, true, l.setFlows(ctx, slices.Delete(flows, at, at+1))
}
