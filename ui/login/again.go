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
	"github.com/holdpoint/holdpoint/ui/view"
)

// Fresh reports whether the person who sent the request proved who they are within the time given, by the
// database's clock. What cannot be told is not fresh.
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

// Reauthenticate answers a request by sending its person to prove again who they are. Afterwards the same session goes on, at next.
func (l *Login) Reauthenticate(w http.ResponseWriter, r *http.Request, next string) {
	send(w, r, againPath+"?next="+url.QueryEscape(localPath(next)), http.StatusUnauthorized)
}

// showAgain says what is wanted of the person, before it sends them anywhere.
func (l *Login) showAgain(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	access, ok, err := l.access(r.Context())
	switch {
	case err != nil:
		l.sessionFailed(w, r, err)
	case !ok:
		http.Redirect(w, r, SignInPath+"?next="+url.QueryEscape(next), http.StatusSeeOther)
	default:
		l.sessions.Put(r.Context(), keyNext, next)
		l.againPage(w, r, http.StatusOK, access, next, "")
	}
}

func (l *Login) againPage(w http.ResponseWriter, r *http.Request, status int, access identity.Access, next, complaint string) {
	form := view.SignInAgain{Name: access.Person.Name, Next: next, Error: complaint}
	if access.Method == identity.ByProvider {
		for _, p := range l.cfg.Providers {
			if p.Issuer() == access.Person.Issuer {
				form.Provider = &view.SignInProvider{Name: p.Name(), URL: startURL(p, next) + "&again"}
			}
		}
	}
	l.render(w, r, status, view.SignInAgainPage(l.cfg.Page(r, "Is it you?"), form))
}

func startURL(p *provider.Provider, next string) string {
	return startPath + "?provider=" + url.QueryEscape(p.Name()) + "&next=" + url.QueryEscape(next)
}

// again takes a token as a new proof. People of a provider prove it there.
func (l *Login) again(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := localPath(r.PostFormValue("next"))
	access, ok, err := l.access(r.Context())
	if err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	if !ok || access.Method == identity.ByProvider {
		http.Redirect(w, r, againPath+"?next="+url.QueryEscape(next), http.StatusSeeOther)
		return
	}
	proof, complaint, err := l.credential(r.Context(), "", r.PostFormValue("token"))
	if err == nil && complaint == "" && proof.Person.ID != access.Person.ID {
		complaint = "This is somebody else’s token."
	}
	if err == nil && complaint != "" {
		l.cfg.Logger.Info("proof refused", "person", access.Person.ID, "remote", clientaddr.FromContext(r.Context()).String())
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		l.againPage(w, r, http.StatusUnauthorized, access, next, complaint)
		return
	}
	var session identity.Session
	if err == nil {
		session, err = l.cfg.Identity.Reauthenticated(r.Context(), access.Session, proof.Person.ID, identity.ByToken)
	}
	if err == nil {
		err = l.renew(r.Context(), session)
	}
	if err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	l.sessions.Remove(r.Context(), keyNext)
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: localPath let it pass
}

// finishAgain takes a provider's word as a new proof. It must be of the person whose session the browser has, else
// nothing changes.
func (l *Login) finishAgain(w http.ResponseWriter, r *http.Request, p *provider.Provider, fl flow, answer provider.Answer) {
	current, err := l.current(r.Context())
	if err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	err = identity.ErrUnauthenticated
	var session identity.Session
	if current == fl.Session {
		session, err = l.cfg.Identity.SignInAgain(r.Context(), answer.Claims, fl.Session)
	}
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		l.cfg.Logger.Info("proof refused", "session", fl.Session, "remote", clientaddr.FromContext(r.Context()).String())
		l.refuse(w, r, http.StatusForbidden, view.SignInRefused{
			Title: "That is somebody else", Next: fl.Next,
			Text: "The identity provider vouches for another person than the one who is signed in here, or this session is over. Nothing was changed.",
		})
		return
	case err != nil:
		l.notLetIn(w, r, answer.Claims, err)
		return
	}
	if err := l.renew(r.Context(), session); err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	l.sessions.Remove(r.Context(), keyNext)
	http.Redirect(w, r, fl.Next, http.StatusSeeOther)
	l.vouched(r.Context(), session.Person, p, answer)
}
