// Package ui is the shell of the dashboard: the table of its routes, who may use each of them, the headers and the sign-in
// around them, and the stream that tells pages to look again. The pages themselves are packages of their own, one for each
// audience; they import package shell and never each other.
package ui

import (
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
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/notify"
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
	"github.com/holdpoint/holdpoint/ui/operate/connections"
	"github.com/holdpoint/holdpoint/ui/operate/skills"
	"github.com/holdpoint/holdpoint/ui/review"
	"github.com/holdpoint/holdpoint/ui/review/queue"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/static"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Config is what a [UI] is made of. All of it is required, but for Providers, Failures, ProofAge and Server.
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

// Server is how this server was set up, for the settings page of operators.
type Server = admin.Server

// Exports begins the exports that people download.
type Exports = history.Exports

// DefaultProofAge is [Config.ProofAge] where nothing is said.
const DefaultProofAge = 15 * time.Minute

// UI is the dashboard.
type UI struct {
	*shell.Shell

	cfg        Config
	assets     *static.Assets
	worker     http.Handler // the service worker's script
	login      *login.Login
	feed       *live.Feed
	talks      *converse.News
	protection *http.CrossOriginProtection

	queue         *queue.Handler
	review        *review.Handlers
	history       *history.Handlers
	conversations *conversations.Handlers
	figures       *figurepages.Handler
	skills        *skills.Handlers
	agents        *agents.Handlers
	connections   *connections.Handler
	admin         *admin.Handlers
}

// New makes the dashboard. [UI.Close] ends it.
func New(cfg Config) (*UI, error) {
	if cfg.Calls == nil || cfg.Figures == nil || cfg.History == nil || cfg.Agents == nil || cfg.Trials == nil || cfg.Catalog == nil || cfg.Discovery == nil || cfg.Identity == nil || cfg.OAuth == nil || cfg.Notify == nil || cfg.Callbacks == nil ||
		cfg.Converse == nil || cfg.Exports == nil || cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("make dashboard: Calls, Figures, History, Agents, Trials, Catalog, Discovery, Identity, OAuth, Notify, Callbacks, Converse, Exports, Pool, Logger and Now are required")
	}
	if cfg.ProofAge == 0 {
		cfg.ProofAge = DefaultProofAge
	}
	publicURL, err := url.Parse(cfg.PublicURL)
	if err != nil || publicURL.Host == "" {
		return nil, fmt.Errorf("make dashboard: public URL %q: want a scheme and a host", cfg.PublicURL)
	}
	u := &UI{cfg: cfg, protection: http.NewCrossOriginProtection()}
	u.protection.SetDenyHandler(http.HandlerFunc(u.crossOrigin))
	if u.assets, err = static.Load(); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	if u.worker, err = static.Worker("en", text.Scripts()); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	u.Shell = shell.New(shell.Config{
		Calls: cfg.Calls, History: cfg.History, Identity: cfg.Identity, Logger: cfg.Logger, Now: cfg.Now,
		Assets: view.Assets{
			CSS: u.assets.URL(static.CSS), JS: u.assets.URL(static.JS), Push: u.assets.URL(static.Push), HTMX: u.assets.URL(static.HTMX),
			HTMXCSP: u.assets.URL(static.HTMXCSP), Mark: u.assets.URL(static.Mark), MarkWaiting: u.assets.URL(static.MarkWaiting),
		},
		Explain: []shell.Explainer{
			u.explainError, explainFormError, connections.ExplainError, admin.ExplainError, conversations.ExplainError,
		},
	})
	if u.login, err = login.New(login.Config{
		Pool: cfg.Pool, Identity: cfg.Identity, Providers: cfg.Providers, PublicURL: publicURL, Logger: cfg.Logger, Now: cfg.Now,
		Page: u.BarePage, Vouched: u.vouched, Failures: cfg.Failures,
	}); err != nil {
		return nil, fmt.Errorf("make dashboard: %w", err)
	}
	u.makeHandlers()
	if u.feed, err = live.New(live.Config{Pulse: cfg.Calls.ReadPulse, Waits: u.queue.State, News: u.news, Logger: cfg.Logger}); err != nil {
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
		Shell: u.Shell, Calls: cfg.Calls, Agents: cfg.Agents, Discovery: cfg.Discovery, Presence: presence, Connections: u.connections,
	})
	u.review = review.New(review.Config{
		Shell: u.Shell, Calls: cfg.Calls, Agents: cfg.Agents, Converse: cfg.Converse, Discovery: cfg.Discovery, Pool: cfg.Pool,
		Presence: presence, Connections: u.connections, Login: u.login, ProofAge: cfg.ProofAge,
	})
	u.history = history.New(history.Config{
		Shell: u.Shell, Calls: cfg.Calls, History: cfg.History, Agents: cfg.Agents, Identity: cfg.Identity, Discovery: cfg.Discovery, Exports: cfg.Exports, Pool: cfg.Pool,
	})
	u.conversations = conversations.New(conversations.Config{
		Shell: u.Shell, Calls: cfg.Calls, History: cfg.History, Agents: cfg.Agents, Catalog: cfg.Catalog, Converse: cfg.Converse, Identity: cfg.Identity, Discovery: cfg.Discovery,
	})
	u.figures = figurepages.New(u.Shell, cfg.Calls, cfg.Agents, cfg.Figures)
	u.skills = skills.New(skills.Config{
		Shell: u.Shell, Agents: cfg.Agents, Trials: cfg.Trials, Calls: cfg.Calls, Discovery: cfg.Discovery, Connections: u.connections, Login: u.login, ProofAge: cfg.ProofAge,
		MayRunPrograms: cfg.Server.Stdio && cfg.Server.StdioFromDashboard,
	})
	u.agents = agents.New(agents.Config{
		Shell: u.Shell, Agents: cfg.Agents, Calls: cfg.Calls, History: cfg.History, Callbacks: cfg.Callbacks, Catalog: cfg.Catalog, Discovery: cfg.Discovery,
		Suggest: &shell.Suggester{Agents: cfg.Agents, Identity: cfg.Identity}, PublicURL: cfg.PublicURL,
	})
	u.admin = admin.New(admin.Config{
		Shell: u.Shell, Identity: cfg.Identity, Notify: cfg.Notify, Calls: cfg.Calls, Providers: cfg.Providers,
		PublicURL: cfg.PublicURL, ProofAge: cfg.ProofAge, Server: cfg.Server,
	})
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

// vouched hands on whom an identity provider vouched for: skills that it manages need no connecting then.
func (u *UI) vouched(_ context.Context, person uuid.UUID, by *provider.Provider, answer provider.Answer) {
	u.cfg.OAuth.SignedIn(person, by.Issuer(), by.ClientID(), answer.IDToken)
}
