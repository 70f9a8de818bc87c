package login

import (
	"context"
	"errors"
	"net/http"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/view"
)

// maxForm bounds what a sign-in may send.
const maxForm = 16 << 10

// showSignIn never uses a link up: link previews and prefetchers look, people press the button.
func (l *Login) showSignIn(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	form := view.SignIn{Link: query.Get("token"), Next: localPath(query.Get("next"))}
	if form.Link == "" {
		if _, ok, err := l.access(r.Context()); ok && err == nil {
			http.Redirect(w, r, form.Next, http.StatusSeeOther)
			return
		}
	}
	l.page(w, r, http.StatusOK, form)
}

func (l *Login) page(w http.ResponseWriter, r *http.Request, status int, form view.SignIn) {
	for _, p := range l.cfg.Providers {
		p.Warm(r.Context())
		form.Providers = append(form.Providers, view.SignInProvider{
			Name: p.Name(), URL: startURL(p, form.Next), Down: p.Failure() != nil,
		})
	}
	l.render(w, r, status, view.SignInPage(l.cfg.Page(r, "Sign in"), form))
}

func (l *Login) render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := page.Render(r.Context(), w); err != nil {
		l.cfg.Logger.Debug("writing a page of signing in", "error", err)
	}
}

func (l *Login) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		l.page(w, r, http.StatusBadRequest, view.SignIn{Error: "The form could not be read. Try again."})
		return
	}
	next, link := localPath(r.PostForm.Get("next")), r.PostForm.Get("link")
	access, complaint, err := l.credential(r.Context(), link, r.PostForm.Get("token"))
	switch {
	case err != nil:
		l.cfg.Logger.Error("signing in", "error", err)
		l.page(w, r, http.StatusInternalServerError, view.SignIn{Next: next, Error: "That did not work here. Try again."})
		return
	case complaint != "":
		l.cfg.Logger.Info("sign-in refused", "remote", clientaddr.FromContext(r.Context()).String())
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		l.page(w, r, http.StatusUnauthorized, view.SignIn{Next: next, Error: complaint})
		return
	}
	if link != "" && next == home { // who was asked to prove who they are, and did it with a new link
		next = localPath(l.sessions.GetString(r.Context(), keyNext))
	}
	session, err := l.cfg.Identity.BeginSession(r.Context(), access, identity.NewSession{Client: r.UserAgent(), Lifetime: sessionLifetime})
	if err == nil {
		err = l.begin(r.Context(), session)
	}
	if err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	l.welcome(w, r, session, next)
}

// credential checks what was sent; a complaint is for the person.
func (l *Login) credential(ctx context.Context, link, token string) (access identity.Access, complaint string, err error) {
	if link != "" {
		access, err = l.cfg.Identity.UseSignInLink(ctx, link)
		complaint = "This link was used before, or its time is over. Ask for a new one, or sign in with your token."
	} else {
		access, err = l.cfg.Identity.Authenticate(ctx, token)
		complaint = "This token is unknown, or was revoked."
	}
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return access, complaint, nil
	case err != nil:
		return access, "", err
	case !access.Has(identity.Reviewer) && !access.Has(identity.Operator):
		return access, "You have no role here. Ask an operator.", nil
	}
	return access, "", nil
}
