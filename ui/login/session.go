package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// Keys of a session's data.
const (
	keyPerson     = "person"
	keyRoles      = "roles"
	keyCredential = "credential"
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
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accessKey{}, access)))
		}
	}))
}

// Watch is who sent the request of a stream, which no session can be saved in, and a check to
// repeat while the stream lasts: it reports false once the session is over.
func (l *Login) Watch(r *http.Request) (check func(context.Context) bool) {
	token := ""
	if cookie, err := r.Cookie(l.sessions.Cookie.Name); err == nil {
		token = cookie.Value
	}
	return func(ctx context.Context) bool {
		ctx, err := l.sessions.Load(ctx, token)
		if err != nil {
			return false
		}
		_, ok, err := l.access(ctx)
		return ok && err == nil
	}
}

// access reads the session in ctx and checks that its person still exists, and
// that the token which began it still holds.
func (l *Login) access(ctx context.Context) (identity.Access, bool, error) {
	if credential := l.sessions.GetString(ctx, keyCredential); credential != "" {
		access, err := l.cfg.Identity.Recheck(ctx, credential)
		if errors.Is(err, identity.ErrUnauthenticated) {
			return identity.Access{}, false, l.sessions.Destroy(ctx)
		}
		return access, err == nil, err
	}
	text := l.sessions.GetString(ctx, keyPerson)
	if text == "" {
		return identity.Access{}, false, nil // nobody signed in
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return identity.Access{}, false, fmt.Errorf("read session: %w", err)
	}
	people, err := l.cfg.Identity.People(ctx, []uuid.UUID{id})
	if err != nil {
		return identity.Access{}, false, fmt.Errorf("check person %s: %w", id, err)
	}
	person, ok := people[id]
	if !ok {
		return identity.Access{}, false, l.sessions.Destroy(ctx)
	}
	access := identity.Access{Person: person}
	for role := range strings.FieldsSeq(l.sessions.GetString(ctx, keyRoles)) {
		access.Roles = append(access.Roles, identity.Role(role))
	}
	return access, true, nil
}

func (l *Login) begin(ctx context.Context, access identity.Access) error {
	if err := l.sessions.RenewToken(ctx); err != nil {
		return fmt.Errorf("begin session of %s: %w", access.Person.ID, err)
	}
	roles := make([]string, len(access.Roles))
	for i, role := range access.Roles {
		roles[i] = string(role)
	}
	l.sessions.Put(ctx, keyCredential, access.Credential)
	l.sessions.Put(ctx, keyPerson, access.Person.ID.String())
	l.sessions.Put(ctx, keyRoles, strings.Join(roles, " "))
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
	target := SignInPath + "?next=" + url.QueryEscape(localPath(next))
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", target)
		w.WriteHeader(http.StatusUnauthorized)
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
