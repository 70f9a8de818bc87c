package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// Keys of a session's data.
const (
	keySession    = "session"    // of package identity
	keyFlows      = "flows"      // to providers, on their way
	keyInvitation = "invitation" // that a sign-in with a provider redeems
	keyNext       = "next"       // where to go after a one-time link
)

type accessKey struct{}

// Access is who sent the request: the zero Access and false when nobody is signed in. It
// is there for handlers behind [Login.Required].
func Access(ctx context.Context) (identity.Access, bool) {
	access, ok := ctx.Value(accessKey{}).(identity.Access)
	return access, ok
}

// Required lets only signed-in people through; whoever else looks for a page is
// sent to sign in and comes back to it afterwards.
func (l *Login) Required(next http.Handler) http.Handler {
	return l.sessions.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access, ok, err := l.access(r.Context())
		switch {
		case err != nil:
			l.sessionFailed(w, r, err)
		case !ok:
			l.turnAway(w, r)
		default:
			ctx := audit.WithCredential(r.Context(), audit.Person(access.Person.ID), access.AuditCredential())
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, accessKey{}, access)))
		}
	}))
}

// Watch is a check to repeat while a stream lasts, which no session can be saved in: it reports false once
// nobody is signed in, or no longer. While the database cannot be asked a stream goes on that was let in.
func (l *Login) Watch(r *http.Request) (check func(context.Context) bool) {
	token := ""
	if cookie, err := r.Cookie(l.sessions.Cookie.Name); err == nil {
		token = cookie.Value
	}
	session := sync.OnceValues(func() (uuid.UUID, error) {
		ctx, err := l.sessions.Load(r.Context(), token)
		if err != nil {
			return uuid.Nil, err
		}
		return l.current(ctx)
	})
	let := false
	return func(ctx context.Context) bool {
		id, err := session()
		if err != nil || id == uuid.Nil {
			return false
		}
		_, err = l.cfg.Identity.SessionAccess(ctx, id)
		let = err == nil || let && !errors.Is(err, identity.ErrUnauthenticated)
		return let
	}
}

// Changed is closed when the check of [Login.Watch] may have another result.
func (l *Login) Changed() <-chan struct{} { return l.cfg.Identity.Changed() }

// current is the id of the session in ctx; uuid.Nil when nobody is signed in.
func (l *Login) current(ctx context.Context) (uuid.UUID, error) {
	text := l.sessions.GetString(ctx, keySession)
	if text == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, fmt.Errorf("read session: %w", err)
	}
	return id, nil
}

// access is what the session in ctx allows now.
func (l *Login) access(ctx context.Context) (identity.Access, bool, error) {
	id, err := l.current(ctx)
	if err != nil || id == uuid.Nil {
		return identity.Access{}, false, err
	}
	access, err := l.cfg.Identity.SessionAccess(ctx, id)
	if errors.Is(err, identity.ErrUnauthenticated) {
		return identity.Access{}, false, l.sessions.Destroy(ctx)
	}
	return access, err == nil, err
}

// begin makes the browser's cookie stand for a session that began, under a new token.
func (l *Login) begin(ctx context.Context, session identity.Session) error {
	before, err := l.current(ctx)
	if err != nil {
		return err
	}
	if before != uuid.Nil {
		if access, err := l.cfg.Identity.SessionAccess(ctx, before); err == nil {
			err = l.cfg.Identity.EndSession(ctx, audit.Person(access.Person.ID), access.Person.ID, before)
			if err != nil && !errors.Is(err, identity.ErrNotFound) {
				return err
			}
		}
	}
	l.sessions.Remove(ctx, keyFlows)
	l.sessions.Remove(ctx, keyNext)
	l.sessions.Put(ctx, keySession, session.ID.String())
	return l.renew(ctx, session)
}

// renew gives the browser a new token for its session.
func (l *Login) renew(ctx context.Context, session identity.Session) error {
	if err := l.sessions.RenewToken(ctx); err != nil {
		return fmt.Errorf("renew the token of session %s: %w", session.ID, err)
	}
	l.sessions.SetDeadline(ctx, session.ExpiresAt.UTC())
	return nil
}

// turnAway sends to the sign-in page. Parts of a page have the whole page go there.
func (l *Login) turnAway(w http.ResponseWriter, r *http.Request) {
	next := r.URL.RequestURI()
	if page, err := url.Parse(r.Header.Get("HX-Current-URL")); err == nil && r.Header.Get("HX-Request") != "" {
		next = page.RequestURI()
	} else if r.Method != http.MethodGet && r.Method != http.MethodHead {
		next = parent(r.URL.Path)
	}
	send(w, r, SignInPath+"?next="+url.QueryEscape(localPath(next)), http.StatusUnauthorized)
}

// send leads a browser to a page of this package. Parts of a page have the whole page go there.
func send(w http.ResponseWriter, r *http.Request, target string, status int) {
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", target)
		w.WriteHeader(status)
		return
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// parent is the page that a form belongs to: /calls/ID/reject is on /calls/ID.
func parent(path string) string {
	if at := strings.LastIndexByte(path, '/'); at > 0 {
		return path[:at]
	}
	return home
}
