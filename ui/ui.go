// Package ui owns the dashboard: its routes, one action a file, what each of them may do for
// whom, and the translation of calls and approvals into what package view draws. It owns no
// data and decides nothing: decisions are package call's, people are package identity's.
package ui

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/live"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/static"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Config is what a [UI] is made of. All of it is required, but for Providers, Failures, ProofAge and Server.
type Config struct {
	Calls     *call.Service
	Figures   *figures.Service
	Agents    *agent.Service
	Catalog   *catalog.Service
	Discovery *tool.Discovery // definitions of tools, by pin
	Identity  *identity.Service
	OAuth     *oauthclient.Service
	Notify    *notify.Service
	Callbacks *callback.Service
	Converse  *converse.Service
	Exports   Exports
	Failures  *authfail.Log        // takes notice of credentials that are not valid; nil: nobody does
	Providers []*provider.Provider // of identities; none: people sign in with tokens and links
	Pool      *pgxpool.Pool        // for the sessions of browsers
	PublicURL string               // its scheme says which cookie is used
	// ProofAge is for how long somebody who signed in may approve calls of tools that operators marked as of high risk,
	// before they have to prove again who they are. Zero: [DefaultProofAge].
	ProofAge time.Duration
	Logger   *slog.Logger
	Now      func() time.Time
	Server   Server // what its operators want to know of it
}

// DefaultProofAge is [Config.ProofAge] where nothing is said.
const DefaultProofAge = 15 * time.Minute

// UI is the dashboard.
type UI struct {
	cfg        Config
	log        *slog.Logger
	assets     *static.Assets
	assetURLs  view.Assets
	worker     http.Handler // the service worker's script
	login      *login.Login
	feed       *live.Feed
	talks      *converse.News
	presence   live.Presence
	queues     live.Shared[*queue]
	examined   examined
	zippers    sync.Pool // of *gzip.Writer
	protection *http.CrossOriginProtection
}

// New makes the dashboard. [UI.Close] ends it.
func New(cfg Config) (*UI, error) {
	if cfg.Calls == nil || cfg.Figures == nil || cfg.Agents == nil || cfg.Catalog == nil || cfg.Discovery == nil || cfg.Identity == nil || cfg.OAuth == nil || cfg.Notify == nil || cfg.Callbacks == nil ||
		cfg.Converse == nil || cfg.Exports == nil || cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("make dashboard: Calls, Figures, Agents, Discovery, Identity, OAuth, Notify, Callbacks, Converse, Exports, Pool, Logger and Now are required")
	}
	if cfg.ProofAge == 0 {
		cfg.ProofAge = DefaultProofAge
	}
	publicURL, err := url.Parse(cfg.PublicURL)
	if err != nil || publicURL.Host == "" {
		return nil, fmt.Errorf("make dashboard: public URL %q: want a scheme and a host", cfg.PublicURL)
	}
	u := &UI{cfg: cfg, log: cfg.Logger, protection: http.NewCrossOriginProtection(), presence: live.Presence{Pool: cfg.Pool}}
	u.protection.SetDenyHandler(http.HandlerFunc(u.crossOrigin))
	if u.assets, err = static.Load(); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	if u.worker, err = static.Worker(); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	u.assetURLs = view.Assets{
		CSS: u.assets.URL(static.CSS), JS: u.assets.URL(static.JS), Push: u.assets.URL(static.Push), HTMX: u.assets.URL(static.HTMX),
		HTMXCSP: u.assets.URL(static.HTMXCSP), Mark: u.assets.URL(static.Mark), MarkWaiting: u.assets.URL(static.MarkWaiting),
	}
	if u.login, err = login.New(login.Config{
		Pool: cfg.Pool, Identity: cfg.Identity, Providers: cfg.Providers, PublicURL: publicURL, Logger: cfg.Logger, Now: cfg.Now,
		Page: u.barePage, Vouched: u.vouched, Failures: cfg.Failures,
	}); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	if u.feed, err = live.New(live.Config{Pulse: cfg.Calls.Pulse, Waits: u.around, News: u.news, Logger: cfg.Logger}); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	u.talks = cfg.Converse.News()
	return u, nil
}

// Close ends the streams of open dashboards. It comes before the HTTP server's shutdown, which
// waits for them.
func (u *UI) Close() {
	u.feed.Close()
	u.talks.Close()
}

// news are the conversations in which something happened, for open dashboards that show one of them.
func (u *UI) news() []string {
	ids, all := u.talks.Take()
	if all {
		return []string{live.AnyConversation}
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list
}

// mountFiles adds what is the same for everybody, and the stream, which no session can be saved in.
func (u *UI) mountFiles(mux *http.ServeMux) {
	mux.Handle("GET "+static.Prefix, u.assets)
	mux.Handle("GET "+static.WorkerPath, u.worker)
	mux.HandleFunc("GET /events", u.streamEvents)
}
