package login

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ProveURL returns the page on which a signed-in person authenticates again. It leads on to next.
func ProveURL(next string) string { return againPath + "?next=" + url.QueryEscape(localPath(next)) }

// Fresh reports whether the person of the request authenticated within this time, by the database's clock. An unknown time is
// not fresh.
func (l *Login) Fresh(r *http.Request, within time.Duration) bool {
	access, ok := Access(r.Context())
	if !ok || access.Session == uuid.Nil {
		return false
	}
	fresh, err := l.cfg.Identity.SessionFresh(r.Context(), access.Session, within)
	if err != nil {
		l.cfg.Logger.Error("session", "error", err)
		return false
	}
	return fresh
}

// Reauthenticate answers a request by asking its person to authenticate again. The same session then continues at next.
func (l *Login) Reauthenticate(w http.ResponseWriter, r *http.Request, next string) {
	redirectTo(w, r, againPath+"?next="+url.QueryEscape(localPath(next)), http.StatusUnauthorized)
}

// showAgain shows why the person has to authenticate again, before it sends them to a provider.
func (l *Login) showAgain(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	access, ok, err := l.currentAccess(r.Context())
	switch {
	case err != nil:
		l.reportSessionError(w, r, err)
	case !ok:
		http.Redirect(w, r, SignInPath+"?next="+url.QueryEscape(next), http.StatusSeeOther)
	default:
		l.sessions.Put(r.Context(), keyNext, next)
		l.renderAgain(w, r, http.StatusOK, access, next, text.Message{})
	}
}

func (l *Login) renderAgain(w http.ResponseWriter, r *http.Request, status int, access identity.Access, next string, complaint text.Message) {
	form := view.SignInAgain{Name: access.Person.Name, Next: next, Error: complaint}
	if access.Method == identity.ByProvider {
		for _, p := range l.cfg.Providers {
			if p.Issuer() == access.Person.Issuer {
				form.Provider = &view.SignInProvider{Name: p.Name(), URL: startURL(p, next) + "&again"}
			}
		}
	}
	l.renderPage(w, r, status, view.SignInAgainPage(l.cfg.Page(r, text.SignInAgainTitle()), form))
}

func startURL(p *provider.Provider, next string) string {
	return startPath + "?provider=" + url.QueryEscape(p.Name()) + "&next=" + url.QueryEscape(next)
}

// handleAgain authenticates a person again by their token. People of a provider authenticate there.
func (l *Login) handleAgain(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := localPath(r.PostFormValue("next"))
	access, ok, err := l.currentAccess(r.Context())
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	if !ok || access.Method == identity.ByProvider {
		http.Redirect(w, r, againPath+"?next="+url.QueryEscape(next), http.StatusSeeOther)
		return
	}
	proof, complaint, err := l.checkCredential(r.Context(), "", r.PostFormValue("token"))
	if err == nil && complaint.IsZero() && proof.Person.ID != access.Person.ID {
		complaint = text.SignInTokenOfOther()
	}
	if err == nil && !complaint.IsZero() {
		l.cfg.Logger.Info("re-authentication refused", "person", access.Person.ID, "remote", clientaddr.FromContext(r.Context()).String())
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		l.renderAgain(w, r, http.StatusUnauthorized, access, next, complaint)
		return
	}
	var session identity.Session
	if err == nil {
		session, err = l.cfg.Identity.Reauthenticated(r.Context(), access.Session, proof.Person.ID, identity.ByToken)
	}
	if err == nil {
		err = l.renewCookie(r.Context(), session)
	}
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	l.sessions.Remove(r.Context(), keyNext)
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: localPath checked it
}

// finishAgain authenticates the person of the session again by a response of a provider. If the response is for another person
// or session, nothing changes.
func (l *Login) finishAgain(w http.ResponseWriter, r *http.Request, p *provider.Provider, fl flow, answer provider.Answer) {
	current, err := l.currentSession(r.Context())
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	err = identity.ErrUnauthenticated
	var session identity.Session
	if current == fl.Session {
		session, err = l.cfg.Identity.SignInAgain(r.Context(), answer.Claims, fl.Session)
	}
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		l.cfg.Logger.Info("re-authentication refused", "session", fl.Session, "remote", clientaddr.FromContext(r.Context()).String())
		l.renderRefusal(w, r, http.StatusForbidden, view.SignInRefused{
			Title: text.SignInOtherPerson(), Next: fl.Next,
			Text: text.SignInOtherPersonMeaning(),
		})
		return
	case err != nil:
		l.refuseClaims(w, r, answer.Claims, err)
		return
	}
	if err := l.renewCookie(r.Context(), session); err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	l.sessions.Remove(r.Context(), keyNext)
	http.Redirect(w, r, fl.Next, http.StatusSeeOther)
	l.reportVouched(r.Context(), session.Person, p, answer)
}
