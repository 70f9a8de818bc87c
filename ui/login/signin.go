package login

import (
	"context"
	"errors"
	"net/http"

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
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := view.SignInPage(l.cfg.Page(r, "Sign in"), form).Render(r.Context(), w); err != nil {
		l.cfg.Logger.Debug("writing the sign-in page", "error", err)
	}
}

func (l *Login) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		l.page(w, r, http.StatusBadRequest, view.SignIn{Error: "The form could not be read. Try again."})
		return
	}
	next := localPath(r.PostForm.Get("next"))
	access, complaint, err := l.credential(r.Context(), r.PostForm.Get("link"), r.PostForm.Get("token"))
	switch {
	case err != nil:
		l.cfg.Logger.Error("signing in", "error", err)
		l.page(w, r, http.StatusInternalServerError, view.SignIn{Next: next, Error: "That did not work here. Try again."})
		return
	case complaint != "":
		l.cfg.Logger.Info("sign-in refused", "remote", r.RemoteAddr)
		l.page(w, r, http.StatusUnauthorized, view.SignIn{Next: next, Error: complaint})
		return
	}
	if err := l.begin(r.Context(), access); err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	l.sweep(r.Context())
	l.cfg.Logger.Info("signed in", "person", access.Person.ID)
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: localPath let it pass
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
