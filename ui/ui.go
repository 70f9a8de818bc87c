// Package ui is the dashboard: the table of its routes and their roles, the headers and the sign-in around them, and the stream
// that signals changes to pages. The pages are in packages by audience, which import package shell and never each other.
package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	callhistory "github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
	"github.com/holdpoint/holdpoint/ui/conversations"
	figurepages "github.com/holdpoint/holdpoint/ui/figures"
	"github.com/holdpoint/holdpoint/ui/history"
	"github.com/holdpoint/holdpoint/ui/live"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/operate/admin"
	"github.com/holdpoint/holdpoint/ui/operate/agents"
	"github.com/holdpoint/holdpoint/ui/operate/changes"
	"github.com/holdpoint/holdpoint/ui/operate/connections"
	"github.com/holdpoint/holdpoint/ui/operate/grants"
	"github.com/holdpoint/holdpoint/ui/operate/guards"
	"github.com/holdpoint/holdpoint/ui/operate/rules"
	"github.com/holdpoint/holdpoint/ui/operate/skills"
	"github.com/holdpoint/holdpoint/ui/review"
	"github.com/holdpoint/holdpoint/ui/review/queue"
	"github.com/holdpoint/holdpoint/ui/search"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/static"
	"github.com/holdpoint/holdpoint/ui/teams"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Config configures a [UI]. All fields are required except Providers, Failures, ProofAge and Server.
type Config struct {
	Calls     *call.Service
	Figures   *figures.Service
	History   *callhistory.Service
	Agents    *agent.Service
	Trials    *trial.Service
	Catalog   *catalog.Service
	Discovery *tool.Discovery // definitions of tools, by pin
	Identity  *identity.Service
	OAuth     *oauthclient.Service
	Notify    *notify.Service
	OnCall    *oncall.Service
	Callbacks *callback.Service
	Converse  *converse.Service
	Exports   Exports
	Holds     *legalhold.Service
	Control   *dualcontrol.Service
	Guards    *guarded.Service
	Failures  *authfail.Log        // counts invalid credentials; may be nil
	Providers []*provider.Provider // identity providers; without any, people sign in with tokens and links
	Pool      *pgxpool.Pool        // stores sessions
	PublicURL string               // its scheme selects the cookie
	// ProofAge is how recent a sign-in must be to approve calls of high-risk tools. Zero: [DefaultProofAge].
	ProofAge time.Duration
	Logger   *slog.Logger
	Now      func() time.Time
	Server   Server // shown to operators
}

// Server is the server's configuration, for the settings page of operators.
type Server = admin.Server

// Exports starts the exports that people download.
type Exports = history.Exports

// DefaultProofAge is the default of [Config.ProofAge].
const DefaultProofAge = 15 * time.Minute

// UI is the dashboard.
type UI struct {
	*shell.Shell

	cfg        Config
	assets     *static.Assets
	workers    map[string]http.Handler // the service worker's script, by language
	login      *login.Login
	feed       *live.Feed
	talks      *converse.News
	protection *http.CrossOriginProtection

	queue         *queue.Handler
	review        *review.Handlers
	history       *history.Handlers
	conversations *conversations.Handlers
	figures       *figurepages.Handler
	search        *search.Handler
	skills        *skills.Handlers
	agents        *agents.Handlers
	rules         *rules.Handler
	grants        *grants.Handler
	changes       *changes.Handler
	guards        *guards.Handler
	connections   *connections.Handler
	admin         *admin.Handlers
	teams         *teams.Handler
}

// New returns the dashboard. [UI.Close] ends it.
func New(cfg Config) (*UI, error) {
	if cfg.Calls == nil || cfg.Figures == nil || cfg.History == nil || cfg.Agents == nil || cfg.Trials == nil || cfg.Catalog == nil || cfg.Discovery == nil || cfg.Identity == nil || cfg.OAuth == nil || cfg.Notify == nil || cfg.Callbacks == nil ||
		cfg.Converse == nil || cfg.Exports == nil || cfg.Holds == nil || cfg.Control == nil || cfg.Guards == nil || cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("make dashboard: Calls, Figures, History, Agents, Trials, Catalog, Discovery, Identity, OAuth, Notify, Callbacks, Converse, Exports, Holds, Control, Guards, Pool, Logger and Now are required")
	}
	if cfg.ProofAge == 0 {
		cfg.ProofAge = DefaultProofAge
	}
	publicURL, err := url.Parse(cfg.PublicURL)
	if err != nil || publicURL.Host == "" {
		return nil, fmt.Errorf("make dashboard: public URL %q: must have a scheme and a host", cfg.PublicURL)
	}
	u := &UI{cfg: cfg, protection: http.NewCrossOriginProtection()}
	u.protection.SetDenyHandler(http.HandlerFunc(u.refuseCrossOrigin))
	if u.assets, err = static.Load(); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	u.workers = map[string]http.Handler{}
	for _, language := range text.Languages() {
		texts := text.Scripts(text.WithLanguage(context.Background(), language.Tag))
		if u.workers[language.Tag], err = static.Worker(language.Tag, texts); err != nil {
			return nil, fmt.Errorf("make dashboard: %w", err)
		}
	}
	u.Shell = shell.New(shell.Config{
		Calls: cfg.Calls, History: cfg.History, Identity: cfg.Identity, Logger: cfg.Logger, Now: cfg.Now,
		Assets: view.Assets{
			CSS: u.assets.URL(static.CSS), JS: u.assets.URL(static.JS), Push: u.assets.URL(static.Push), HTMX: u.assets.URL(static.HTMX),
			HTMXCSP: u.assets.URL(static.HTMXCSP), Mark: u.assets.URL(static.Mark), MarkWaiting: u.assets.URL(static.MarkWaiting), Icon: u.assets.URL(static.Icon192),
		},
		Explain: []shell.Explainer{
			u.explainError, explainFormError, connections.ExplainError, admin.ExplainError, changes.ExplainError, conversations.ExplainError, grants.ExplainError,
			review.ExplainPlanError,
		},
	})
	if u.login, err = login.New(login.Config{
		Pool: cfg.Pool, Identity: cfg.Identity, Providers: cfg.Providers, PublicURL: publicURL, Logger: cfg.Logger, Now: cfg.Now,
		Page: u.BarePage, Fail: u.Fail, Vouched: u.passIDToken, Failures: cfg.Failures,
	}); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	u.makeHandlers()
	if u.feed, err = live.New(live.Config{Pulse: cfg.Calls.ReadPulse, Waits: u.queue.State, Viewers: u.queue.ReadViewers, News: u.takeNews, Logger: cfg.Logger}); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	u.talks = cfg.Converse.News()
	return u, nil
}

// makeHandlers makes the handlers of each audience.
func (u *UI) makeHandlers() {
	cfg, presence := &u.cfg, &live.Presence{Pool: u.cfg.Pool}
	u.connections = connections.New(connections.Config{Shell: u.Shell, Calls: cfg.Calls, Agents: cfg.Agents, Trials: cfg.Trials, Identity: cfg.Identity, OAuth: cfg.OAuth})
	u.queue = queue.New(queue.Config{
		Shell: u.Shell, Calls: cfg.Calls, Agents: cfg.Agents, Identity: cfg.Identity, Discovery: cfg.Discovery, Presence: presence, Connections: u.connections, Pool: cfg.Pool,
	})
	u.review = review.New(review.Config{
		Shell: u.Shell, Calls: cfg.Calls, Identity: cfg.Identity, Agents: cfg.Agents, Converse: cfg.Converse, Discovery: cfg.Discovery, Pool: cfg.Pool,
		Presence: presence, Connections: u.connections, Login: u.login, ProofAge: cfg.ProofAge, Choices: u.queue.QueueChoices,
	})
	u.history = history.New(history.Config{
		Shell: u.Shell, Calls: cfg.Calls, History: cfg.History, Agents: cfg.Agents, Identity: cfg.Identity, Exports: cfg.Exports, Pool: cfg.Pool,
	})
	u.conversations = conversations.New(conversations.Config{
		Shell: u.Shell, Calls: cfg.Calls, History: cfg.History, Agents: cfg.Agents, Catalog: cfg.Catalog, Converse: cfg.Converse, Identity: cfg.Identity,
	})
	u.figures = figurepages.New(u.Shell, cfg.Calls, cfg.Agents, cfg.Figures)
	u.search = search.New(search.Config{
		Shell: u.Shell, Calls: cfg.Calls, History: cfg.History, Agents: cfg.Agents, Discovery: cfg.Discovery, Identity: cfg.Identity,
	})
	u.skills = skills.New(skills.Config{
		Shell: u.Shell, Agents: cfg.Agents, Trials: cfg.Trials, Calls: cfg.Calls, Discovery: cfg.Discovery, Connections: u.connections, Login: u.login, ProofAge: cfg.ProofAge,
		MayRunPrograms: cfg.Server.Stdio && cfg.Server.StdioFromDashboard,
	})
	suggest := &shell.Suggester{Agents: cfg.Agents, Identity: cfg.Identity}
	u.agents = agents.New(agents.Config{
		Shell: u.Shell, Agents: cfg.Agents, Calls: cfg.Calls, History: cfg.History, Callbacks: cfg.Callbacks, Catalog: cfg.Catalog, Discovery: cfg.Discovery,
		Suggest: suggest, PublicURL: cfg.PublicURL,
	})
	u.rules = rules.New(rules.Config{Shell: u.Shell, Agents: cfg.Agents, Calls: cfg.Calls, Identity: cfg.Identity, Suggest: suggest})
	u.teams = teams.New(teams.Config{Shell: u.Shell, Calls: cfg.Calls, Identity: cfg.Identity, OnCall: cfg.OnCall})
	u.grants = grants.New(grants.Config{Shell: u.Shell, Agents: cfg.Agents, Calls: cfg.Calls, History: cfg.History})
	u.changes = changes.New(changes.Config{Shell: u.Shell, Calls: cfg.Calls, Control: cfg.Control})
	u.guards = guards.New(guards.Config{Shell: u.Shell, Calls: cfg.Calls, Agents: cfg.Agents, Guards: cfg.Guards})
	u.admin = admin.New(admin.Config{
		Shell: u.Shell, Identity: cfg.Identity, Notify: cfg.Notify, Calls: cfg.Calls, Providers: cfg.Providers,
		PublicURL: cfg.PublicURL, ProofAge: cfg.ProofAge, Server: cfg.Server, Holds: cfg.Holds, Choices: u.queue.Choices,
	})
}

// Close ends the streams of open dashboards. Call it before the HTTP server's shutdown, which waits for them.
func (u *UI) Close() {
	u.feed.Close()
	u.talks.Close()
}

// takeNews returns the conversations that have changed since the last time.
func (u *UI) takeNews() []string {
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

// mountFiles adds the routes without sessions: files, the service worker and the stream.
func (u *UI) mountFiles(mux *http.ServeMux) {
	mux.Handle("GET "+static.Prefix, u.assets)
	mux.Handle("GET "+static.WorkerPath, speakLanguage(http.HandlerFunc(u.serveWorker)))
	mux.Handle("GET "+static.ManifestPath, u.assets.Manifest())
	mux.HandleFunc("GET /events", u.streamEvents)
}

// serveWorker serves the service worker in the language of its browser.
func (u *UI) serveWorker(w http.ResponseWriter, r *http.Request) {
	u.workers[text.LanguageOf(r.Context())].ServeHTTP(w, r)
}

// speakLanguage makes messages appear in the language of the reader.
func speakLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted := cmp.Or(shell.LanguageOf(r), r.Header.Get("Accept-Language"))
		next.ServeHTTP(w, r.WithContext(text.WithLanguage(r.Context(), accepted)))
	})
}

// passIDToken passes the ID token of a sign-in on: skills that trust the identity provider need no other connection.
func (u *UI) passIDToken(_ context.Context, person uuid.UUID, by *provider.Provider, answer provider.Answer) {
	u.cfg.OAuth.SignedIn(person, by.Issuer(), by.ClientID(), answer.IDToken)
}
