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
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/ui/view"
)

// flow is an attempt to sign in with a provider. It belongs to the browser that began it: nobody else's
// cookie leads to it.
type flow struct {
	provider.Flow

	Next    string    `json:"next"`
	Session uuid.UUID `json:"session"` // that is to be proved again; uuid.Nil: a new one is to begin
}

const (
	// flowLimit is how long a person may take at the provider.
	flowLimit = 15 * time.Minute
	// maxFlows is how many a browser may have on their way, in several tabs.
	maxFlows = 5
)

// start sends a person to a provider. It is a link and no form, because the policy form-action 'self' holds for where
// forms lead too; what other sites make of it is only that somebody finds the sign-in page.
func (l *Login) start(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	next := localPath(query.Get("next"))
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" || r.Header.Get("Sec-Purpose") != "" {
		http.Redirect(w, r, SignInPath+"?next="+url.QueryEscape(next), http.StatusSeeOther)
		return
	}
	p := l.provider(query.Get("provider"))
	if p == nil {
		l.page(w, r, http.StatusNotFound, view.SignIn{Next: next, Error: "There is no such way to sign in."})
		return
	}
	fl := flow{Next: next}
	access, signedIn, err := l.access(r.Context())
	if err != nil {
		l.sessionFailed(w, r, err)
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
		l.flowFailed(w, r, p, next, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (l *Login) provider(name string) *provider.Provider {
	for _, p := range l.cfg.Providers {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// flows are those of the browser that are still on their way.
func (l *Login) flows(ctx context.Context) ([]flow, error) {
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
		return fmt.Errorf("keep flows of a session: %w", err)
	}
	l.sessions.Put(ctx, keyFlows, text)
	return nil
}

// keepFlow binds a flow to the browser. Of somebody who only looks, nothing stays longer than it is needed.
func (l *Login) keepFlow(ctx context.Context, fl flow, signedIn bool) error {
	flows, err := l.flows(ctx)
	if err != nil {
		return err
	}
	flows = append(flows, fl)
	if !signedIn {
		l.sessions.SetDeadline(ctx, l.cfg.Now().Add(flowLimit).UTC())
	}
	return l.setFlows(ctx, flows[max(0, len(flows)-maxFlows):])
}

// takeFlow finds the flow of a state, which is used up by that.
func (l *Login) takeFlow(ctx context.Context, state string) (flow, bool, error) {
	flows, err := l.flows(ctx)
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

// callback takes a person back from a provider. The cookie is there: SameSite=Lax lets it go with a navigation of the
// whole window, which is all that this answers to. The address has a code in it: no page is shown there that
// would tell it to another site.
func (l *Login) callback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "strict-origin")
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" {
		l.refuse(w, r, http.StatusForbidden, view.SignInRefused{Text: "This address is only for coming back from an identity provider."})
		return
	}
	fl, ok, err := l.takeFlow(r.Context(), r.URL.Query().Get("state"))
	if err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	p := l.provider(fl.Provider)
	if !ok || p == nil {
		l.cfg.Logger.Info("sign-in refused", "reason", "no such flow", "remote", clientaddr.FromContext(r.Context()).String())
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		l.refuse(w, r, http.StatusBadRequest, view.SignInRefused{
			Text: "What came back belongs to no sign-in that this browser began, or it came twice or too late. Nobody was signed in by it.",
		})
		return
	}
	answer, err := p.Finish(r.Context(), fl.Flow, r.URL.Query())
	if err != nil {
		l.flowFailed(w, r, p, fl.Next, err)
		return
	}
	if fl.Session != uuid.Nil {
		l.finishAgain(w, r, p, fl, answer)
		return
	}
	session, invited, err := l.signInClaimed(r, answer.Claims, identity.NewSession{Client: r.UserAgent(), Lifetime: p.Session()})
	if err == nil {
		err = l.begin(r.Context(), session)
	}
	if err != nil && invited {
		l.invitationRefused(w, r, err)
		return
	}
	if err != nil {
		l.notLetIn(w, r, answer.Claims, err)
		return
	}
	l.welcome(w, r, session, fl.Next)
	l.vouched(r.Context(), session.Person, p, answer)
}

// signInClaimed signs in whom a provider vouches for, with the invitation that the browser opened before, if it did.
func (l *Login) signInClaimed(r *http.Request, claims identity.Claims, n identity.NewSession) (_ identity.Session, invited bool, _ error) {
	ctx := r.Context()
	invitation := l.sessions.PopString(ctx, keyInvitation)
	if invitation == "" {
		session, err := l.cfg.Identity.SignIn(ctx, claims, n)
		return session, false, err
	}
	session, err := l.cfg.Identity.SignInInvited(ctx, claims, invitation, n)
	return session, true, err
}

// welcome ends a sign-in that succeeded.
func (l *Login) welcome(w http.ResponseWriter, r *http.Request, session identity.Session, next string) {
	l.sweep(r.Context())
	l.cfg.Logger.Info("signed in", "person", session.Person, "method", session.Method)
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: localPath let it pass
}

func (l *Login) vouched(ctx context.Context, person uuid.UUID, p *provider.Provider, answer provider.Answer) {
	if l.cfg.Vouched != nil {
		l.cfg.Vouched(ctx, person, p, answer)
	}
}

// flowFailed says why a flow did not begin or did not end well.
func (l *Login) flowFailed(w http.ResponseWriter, r *http.Request, p *provider.Provider, next string, err error) {
	refused := view.SignInRefused{Next: next, Text: "That did not work here. Try again."}
	status := http.StatusInternalServerError
	var known *provider.Error
	switch {
	case errors.Is(err, provider.ErrUnreachable):
		status = http.StatusBadGateway
		refused.Text = p.Name() + " cannot be reached now, so it cannot say who you are. Try again later, or sign in another way."
	case errors.As(err, &known):
		status = http.StatusUnauthorized
		refused.Text, refused.Said = known.Text, known.Said
	}
	l.cfg.Logger.Warn("sign-in with an identity provider failed", "provider", p.Name(), "error", err)
	l.refuse(w, r, status, refused)
}

// notLetIn says why somebody does not get in whom a provider vouched for.
func (l *Login) notLetIn(w http.ResponseWriter, r *http.Request, claims identity.Claims, err error) {
	refused := view.SignInRefused{
		Title: "Not let in", Name: claims.Name,
		Facts: []view.Fact{{Name: "Known by", Text: claims.Issuer, Code: true}, {Name: "As", Text: claims.Subject, Code: true}},
	}
	var invalid *identity.InvalidError
	switch {
	case errors.Is(err, identity.ErrNoRole):
		refused.Text = "You have no role here: none of your groups gives you one, and no operator did. Ask an operator, who finds you among the members now."
	case errors.Is(err, identity.ErrBlocked):
		refused.Text = "An operator has blocked you here."
	case errors.As(err, &invalid):
		refused.Text = "What the identity provider says of you cannot be kept: " + invalid.Error() + "."
		refused.Facts = nil
	default:
		l.cfg.Logger.Error("signing in", "error", err)
		l.page(w, r, http.StatusInternalServerError, view.SignIn{Error: "That did not work here. Try again."})
		return
	}
	l.cfg.Logger.Info("sign-in refused", "issuer", claims.Issuer, "reason", strings.TrimSpace(err.Error()), "remote", clientaddr.FromContext(r.Context()).String())
	l.refuse(w, r, http.StatusForbidden, refused)
}

func (l *Login) refuse(w http.ResponseWriter, r *http.Request, status int, refused view.SignInRefused) {
	if refused.Title == "" {
		refused.Title = "Not signed in"
	}
	l.render(w, r, status, view.SignInRefusedPage(l.cfg.Page(r, refused.Title), refused))
}
