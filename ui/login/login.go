// Package login owns how people sign in to the dashboard: the sign-in page, identity providers, sign-in links, tokens,
// invitations, authenticating again, signing out, and the cookies of browsers (table sessions, through scs). Package identity
// owns people, what their credentials allow, and their sessions.
package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/a-h/templ"
	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Paths of this package's routes.
const (
	SignInPath  = "/sign-in"
	SignOutPath = "/sign-out"

	startPath = SignInPath + "/start"
	againPath = SignInPath + "/again"
)

// Config configures a [Login]. All fields are required except Providers, Vouched and Failures.
type Config struct {
	Pool      *pgxpool.Pool
	Identity  *identity.Service
	Providers []*provider.Provider
	PublicURL *url.URL
	Logger    *slog.Logger
	Now       func() time.Time // for pending sign-ins, which the provider times too
	// Page returns the common parts of a page.
	Page func(r *http.Request, title text.Message) view.Page
	// Fail answers with a page that explains an error, and logs the error.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// Vouched is called after a sign-in with a provider. It must return at once. Nil: nothing is called.
	Vouched func(ctx context.Context, person uuid.UUID, by *provider.Provider, answer provider.Answer)
	// Failures records invalid credentials. Nil: they are not recorded.
	Failures *authfail.Log
}

// Login signs people in and out, and knows who is signed in.
type Login struct {
	cfg      Config
	sessions *scs.SessionManager
}

// sessionLifetime is the lifetime of a session that no provider limits. There is no idle timeout: an open dashboard is never
// idle, and each request would cost a write.
const sessionLifetime = 7 * 24 * time.Hour

// New makes a login.
func New(cfg Config) (*Login, error) {
	if cfg.Pool == nil || cfg.Identity == nil || cfg.PublicURL == nil || cfg.Logger == nil || cfg.Now == nil || cfg.Page == nil || cfg.Fail == nil {
		return nil, errors.New("make login: Pool, Identity, PublicURL, Logger, Now, Page and Fail are required")
	}
	// scs.New would start an in-memory store, whose goroutine never ends.
	sessions := &scs.SessionManager{
		Lifetime:         sessionLifetime,
		Store:            sessionStore{cfg.Pool},
		Codec:            scs.GobCodec{},
		HashTokenInStore: true,
		Cookie: scs.SessionCookie{
			Name: "holdpoint", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Persist: true,
		},
	}
	if cfg.PublicURL.Scheme == "https" {
		sessions.Cookie.Name, sessions.Cookie.Secure = "__Host-holdpoint", true
	}
	l := &Login{cfg: cfg, sessions: sessions}
	sessions.ErrorFunc = l.reportSessionError
	return l, nil
}

// Mount adds the routes of this package.
func (l *Login) Mount(mux *http.ServeMux) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET " + SignInPath:               l.showSignIn,
		"POST " + SignInPath:              l.signIn,
		"GET " + startPath:                l.startFlow,
		"GET " + provider.CallbackPath:    l.handleCallback,
		"GET " + againPath:                l.showAgain,
		"POST " + againPath:               l.handleAgain,
		"GET " + identity.InvitationPath:  l.showInvitation,
		"POST " + identity.InvitationPath: l.redeemInvitation,
		"POST " + SignOutPath:             l.signOut,
	} {
		mux.Handle(pattern, l.sessions.LoadAndSave(handle))
	}
}

// Required calls next for signed-in people. Others are sent to the sign-in page, and return to the page afterwards.
func (l *Login) Required(next http.Handler) http.Handler {
	return l.sessions.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access, ok, err := l.currentAccess(r.Context())
		switch {
		case err != nil:
			l.reportSessionError(w, r, err)
		case !ok:
			l.requireSignIn(w, r)
		default:
			ctx := audit.WithCredential(r.Context(), audit.Person(access.Person.ID), access.AuditCredential())
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, accessKey{}, access)))
		}
	}))
}

type accessKey struct{}

// Access returns the access of the signed-in person, for handlers behind [Login.Required]. It returns false if no one is
// signed in.
func Access(ctx context.Context) (identity.Access, bool) {
	access, ok := ctx.Value(accessKey{}).(identity.Access)
	return access, ok
}

// Watch returns a check to repeat during a stream, in which no session can be saved. The check returns false once the session
// has ended. If the database is not available, a check that succeeded before stays true.
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
		return l.currentSession(ctx)
	})
	isAllowed := false
	return func(ctx context.Context) bool {
		id, err := session()
		if err != nil || id == uuid.Nil {
			return false
		}
		_, err = l.cfg.Identity.SessionAccess(ctx, id)
		isAllowed = err == nil || isAllowed && !errors.Is(err, identity.ErrUnauthenticated)
		return isAllowed
	}
}

// Changed returns a channel that is closed when a check of [Login.Watch] may have a new result.
func (l *Login) Changed() <-chan struct{} { return l.cfg.Identity.Changed() }

// requireSignIn redirects to the sign-in page, and afterwards back to the page that the request belongs to.
func (l *Login) requireSignIn(w http.ResponseWriter, r *http.Request) {
	next := r.URL.RequestURI()
	if page, err := url.Parse(r.Header.Get("HX-Current-URL")); err == nil && r.Header.Get("HX-Request") != "" {
		next = page.RequestURI()
	} else if r.Method != http.MethodGet && r.Method != http.MethodHead {
		next = parentPath(r.URL.Path)
	}
	redirectTo(w, r, SignInPath+"?next="+url.QueryEscape(localPath(next)), http.StatusUnauthorized)
}

// redirectTo redirects to a page of this package. A request of htmx for a part of a page makes the whole page go there.
func redirectTo(w http.ResponseWriter, r *http.Request, target string, status int) {
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", target)
		w.WriteHeader(status)
		return
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// parentPath returns the path of the page with a form: /calls/ID for /calls/ID/reject.
func parentPath(path string) string {
	if at := strings.LastIndexByte(path, '/'); at > 0 {
		return path[:at]
	}
	return home
}

// home is where people are sent by default.
const home = "/"

// maxNext allows for an authorization response, whose code may be a JWT.
const maxNext = 8000

// localPath returns path and query of next if they are on this server, otherwise home. It refuses backslashes, control
// characters and leading double slashes: browsers take them for slashes, skip them, or take them for a host.
func localPath(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || len(next) > maxNext ||
		strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return home
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || strings.HasPrefix(u.Path, "//") {
		return home
	}
	if u.Path == SignInPath || u.Path == SignOutPath || strings.HasPrefix(u.Path, SignInPath+"/") {
		return home
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

func (l *Login) renderPage(w http.ResponseWriter, r *http.Request, status int, page templ.Component) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := page.Render(r.Context(), w); err != nil {
		l.cfg.Logger.Debug("write sign-in page", "error", err)
	}
}

func (l *Login) reportSessionError(w http.ResponseWriter, r *http.Request, err error) {
	l.cfg.Fail(w, r, fmt.Errorf("read or write session: %w", err))
}
