// Package login owns people's way into the dashboard: the sign-in page, identity providers, one-time links and
// tokens, proving again who one is, sign-out, and the cookies of browsers (the table sessions, by way of scs).
// Who people are, what their credentials allow and which sessions they have is package identity's.
package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/alexedwards/scs/pgxstore"
	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Paths of this package's routes.
const (
	SignInPath  = "/sign-in"
	SignOutPath = "/sign-out"

	startPath = SignInPath + "/start"
	againPath = SignInPath + "/again"
)

// Config is what a [Login] is made of. All of it is required, but for Providers, Vouched and Failures.
type Config struct {
	Pool      *pgxpool.Pool
	Identity  *identity.Service
	Providers []*provider.Provider
	PublicURL *url.URL
	Logger    *slog.Logger
	Now       func() time.Time // for flows, which a provider times too
	// Page makes what all pages have in common.
	Page func(r *http.Request, title string) view.Page
	// Vouched is told whom a provider vouched for. It does not hold up the sign-in.
	Vouched func(ctx context.Context, person uuid.UUID, by *provider.Provider, answer provider.Answer)
	// Failures takes notice of credentials that are not valid. Nil: nobody does.
	Failures *authfail.Log
}

// Login signs people in and out and knows who is signed in.
type Login struct {
	cfg      Config
	sessions *scs.SessionManager
}

// sessionLifetime is how long a session lasts that no provider has a say in. There is no shorter limit on idleness: an open
// dashboard is never idle, and each request would cost a write.
const sessionLifetime = 7 * 24 * time.Hour

// New makes a Login.
func New(cfg Config) (*Login, error) {
	if cfg.Pool == nil || cfg.Identity == nil || cfg.PublicURL == nil || cfg.Logger == nil || cfg.Now == nil || cfg.Page == nil {
		return nil, errors.New("make login: Pool, Identity, PublicURL, Logger, Now and Page are required")
	}
	// A literal, because scs.New starts a store in memory whose goroutine never ends.
	sessions := &scs.SessionManager{
		Lifetime:         sessionLifetime,
		Store:            pgxstore.NewWithCleanupInterval(cfg.Pool, 0), // see sweep
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
	sessions.ErrorFunc = l.sessionFailed
	return l, nil
}

func (l *Login) sessionFailed(w http.ResponseWriter, _ *http.Request, err error) {
	l.cfg.Logger.Error("session", "error", err)
	http.Error(w, "The session could not be read or written. Try again.", http.StatusInternalServerError)
}

// Mount adds the routes of signing in and out.
func (l *Login) Mount(mux *http.ServeMux) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET " + SignInPath:               l.showSignIn,
		"POST " + SignInPath:              l.signIn,
		"GET " + startPath:                l.start,
		"GET " + provider.CallbackPath:    l.callback,
		"GET " + againPath:                l.showAgain,
		"POST " + againPath:               l.again,
		"GET " + identity.InvitationPath:  l.showInvitation,
		"POST " + identity.InvitationPath: l.redeem,
		"POST " + SignOutPath:             l.signOut,
	} {
		mux.Handle(pattern, l.sessions.LoadAndSave(handle))
	}
}

// sweep removes sessions that are over. It runs whenever somebody signs in, which
// is as often as sessions are made.
func (l *Login) sweep(ctx context.Context) {
	_, err := l.cfg.Pool.Exec(ctx, `DELETE FROM sessions WHERE expiry < current_timestamp`)
	if err = errors.Join(err, l.cfg.Identity.SweepSessions(ctx)); err != nil {
		l.cfg.Logger.Warn("removing old sessions", "error", fmt.Errorf("remove sessions: %w", err))
	}
}
