package login

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 16 << 10

// showSignIn shows the sign-in page. It does not use up a sign-in link, since previews and prefetchers open links too.
func (l *Login) showSignIn(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	form := view.SignIn{Link: query.Get("token"), Next: localPath(query.Get("next"))}
	if form.Link == "" {
		if _, ok, err := l.currentAccess(r.Context()); ok && err == nil {
			http.Redirect(w, r, form.Next, http.StatusSeeOther)
			return
		}
	}
	l.renderSignIn(w, r, http.StatusOK, form)
}

func (l *Login) renderSignIn(w http.ResponseWriter, r *http.Request, status int, form view.SignIn) {
	for _, p := range l.cfg.Providers {
		p.Warm(r.Context())
		form.Providers = append(form.Providers, view.SignInProvider{
			Name: p.Name(), URL: startURL(p, form.Next), Down: p.Failure() != nil,
		})
	}
	l.renderPage(w, r, status, view.SignInPage(l.cfg.Page(r, text.SignInTitle()), form))
}

func (l *Login) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		l.renderSignIn(w, r, http.StatusBadRequest, view.SignIn{Error: text.SignInFormUnreadable()})
		return
	}
	next, link, token := localPath(r.PostForm.Get("next")), r.PostForm.Get("link"), strings.TrimSpace(r.PostForm.Get("token"))
	if link == "" && secret.SignIn.Is(token) { // copied from the link
		link = token
	}
	access, complaint, err := l.checkCredential(r.Context(), link, token)
	switch {
	case err != nil:
		l.cfg.Logger.Error("sign in", "error", err)
		l.renderSignIn(w, r, inbound.FailureStatus(w.Header(), err), view.SignIn{Next: next, Error: text.SignInSomethingWrong()})
		return
	case !complaint.IsZero():
		l.cfg.Logger.Info("sign-in refused", "remote", clientaddr.FromContext(r.Context()).String())
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		form := view.SignIn{Next: next, Error: complaint}
		if current, ok, err := l.currentAccess(r.Context()); link != "" && ok && err == nil {
			form.SignedIn = current.Person.Name
		}
		l.renderSignIn(w, r, http.StatusUnauthorized, form)
		return
	}
	if link != "" && next == home { // the person was asked to authenticate again, and used a new link
		next = localPath(l.sessions.GetString(r.Context(), keyNext))
	}
	session, err := l.cfg.Identity.BeginSession(r.Context(), access, identity.NewSession{Client: r.UserAgent(), Lifetime: sessionLifetime})
	if err == nil {
		err = l.beginSession(r.Context(), session)
	}
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	l.finishSignIn(w, r, session, next)
}

// checkCredential checks a link or a token. complaint is for the person.
func (l *Login) checkCredential(ctx context.Context, link, token string) (access identity.Access, complaint text.Message, err error) {
	if link != "" {
		access, err = l.cfg.Identity.UseSignInLink(ctx, link)
		complaint = text.SignInLinkUsed()
	} else {
		access, err = l.cfg.Identity.Authenticate(ctx, token)
		complaint = text.SignInTokenUnknown()
	}
	switch {
	case errors.Is(err, identity.ErrTokensOff):
		return access, text.TokenOff(), nil
	case errors.Is(err, identity.ErrUnauthenticated):
		return access, complaint, nil
	case err != nil:
		return access, text.Message{}, err
	case !access.Has(identity.Reviewer) && !access.Has(identity.Operator):
		return access, text.SignInNoRoleHere(), nil
	}
	return access, text.Message{}, nil
}

// finishSignIn ends a sign-in that succeeded.
func (l *Login) finishSignIn(w http.ResponseWriter, r *http.Request, session identity.Session, next string) {
	l.sweepSessions(r.Context())
	l.cfg.Logger.Info("signed in", "person", session.Person, "method", session.Method)
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: localPath checked it
}

func (l *Login) signOut(w http.ResponseWriter, r *http.Request) {
	access, ok, err := l.currentAccess(r.Context())
	if ok {
		err = l.cfg.Identity.EndSession(r.Context(), audit.Person(access.Person.ID), access.Person.ID, access.Session)
		if errors.Is(err, identity.ErrNotFound) {
			err = nil // it has ended already
		}
	}
	if err == nil {
		err = l.sessions.Destroy(r.Context())
	}
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	http.Redirect(w, r, SignInPath, http.StatusSeeOther)
}

// SignOutEverywhere ends all sessions of the signed-in person, in all browsers.
func (l *Login) SignOutEverywhere(w http.ResponseWriter, r *http.Request) {
	access, _ := Access(r.Context())
	_, err := l.cfg.Identity.EndSessions(r.Context(), audit.Person(access.Person.ID), access.Person.ID, uuid.Nil)
	if err == nil {
		err = l.sessions.Destroy(r.Context())
	}
	if err != nil {
		l.reportSessionError(w, r, err)
		return
	}
	http.Redirect(w, r, SignInPath, http.StatusSeeOther)
}
