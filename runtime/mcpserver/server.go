// Package mcpserver owns the MCP endpoint of each agent: who may use it, the
// protocol in both of its eras, the list of an agent's tools as its client sees
// it, saying so when that list changes or a resource that it is subscribed to, holding a response open while a call waits, and
// the words in which a model is told how a call ended.
//
// It does not own calls, conversations or credentials: it asks packages call,
// agent and identity. It keeps nothing that a request needs to be served: any
// process serves any session. An open response is only a listener; that it ends,
// for whatever reason, never changes what becomes of the call.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

// Calls is what the endpoint needs of a *[call.Service].
type Calls interface {
	Submit(ctx context.Context, sub call.Submission) (call.Ticket, error)
	Wait(ctx context.Context, id uuid.UUID, l call.Listener) (call.Call, error)
	Delivered(ctx context.Context, id uuid.UUID) error
	Get(ctx context.Context, viewer call.Viewer, id uuid.UUID) (call.Call, error)
	Questions(ctx context.Context, viewer call.Viewer, id uuid.UUID) ([]call.Question, error)
	Reviewing(ctx context.Context, viewer call.Viewer, id uuid.UUID) (time.Time, error)
	Answer(ctx context.Context, viewer call.Viewer, id uuid.UUID, number int, a call.Answer) error
	RequestCancel(ctx context.Context, viewer call.Viewer, id uuid.UUID) error
}

// Agents is what the endpoint needs of an *[agent.Service].
type Agents interface {
	Authenticate(ctx context.Context, key string) (*agent.Agent, error)
	AgentByName(ctx context.Context, name string) (*agent.Agent, error)
}

// Catalog is the part of a *[catalog.Service] that the endpoint uses.
type Catalog interface {
	StartConversation(ctx context.Context, a *agent.Agent, principal uuid.UUID, protocolVersion string, client json.RawMessage) (*catalog.Conversation, error)
	NamedConversation(ctx context.Context, a *agent.Agent, principal uuid.UUID, name, protocolVersion string, client json.RawMessage) (*catalog.Conversation, error)
	Conversation(ctx context.Context, agentID, principal, id uuid.UUID) (*catalog.Conversation, error)
	EndConversation(ctx context.Context, agentID, principal, id uuid.UUID) error
	SetLogLevel(ctx context.Context, agentID, principal, id uuid.UUID, level string) error
}

// Resources is what the endpoint needs of a *[resource.Service].
type Resources interface {
	List(ctx context.Context, who resource.Who, kind resource.Kind) (resource.List, error)
	Read(ctx context.Context, who resource.Who, uri string, ask resource.Ask) (json.RawMessage, error)
	Prompt(ctx context.Context, who resource.Who, name string, arguments []byte, ask resource.Ask) (json.RawMessage, error)
	Subscribe(ctx context.Context, who resource.Who, uri string) error
	Unsubscribe(ctx context.Context, who resource.Who, uri string) error
	Ended(ctx context.Context, conversation uuid.UUID) error
	Subscribable(ctx context.Context, who resource.Who, uri string) (resource.Subscription, error)
	Follow(ctx context.Context, who resource.Who, subscriptions []resource.Subscription) <-chan resource.Change
	FollowSession(ctx context.Context, who resource.Who) <-chan resource.Change
	Complete(ctx context.Context, who resource.Who, ref resource.Reference, ask resource.Ask) (json.RawMessage, error)
}

// Identity is what the endpoint needs of an *[identity.Service].
type Identity interface {
	Authenticate(ctx context.Context, token string) (identity.Access, error)
	Vouched(ctx context.Context, claims identity.Claims) (uuid.UUID, error)
}

// What a [Config] stands for where it says nothing.
const (
	DefaultMaxBody      = 4 << 20
	DefaultKeepAlive    = 10 * time.Second
	DefaultPatience     = 500 * time.Millisecond
	DefaultWriteTimeout = 30 * time.Second
	DefaultWaitBudget   = 50 * time.Second // of an agent that has none
)

// Config is what a [Server] is made of. Fields without a default are required.
type Config struct {
	Calls     Calls
	Agents    Agents
	Catalog   Catalog
	Resources Resources
	Identity  Identity
	Limits    Limits
	// Ask takes in what clients ask agents themselves that have a model. Errors: ErrDepth, ErrNoModel, *RefusedError, call.ErrKeyReused, *file.AttachmentError.
	Ask    func(ctx context.Context, q Question) (call.Ticket, error)
	Logger *slog.Logger
	Now    func() time.Time

	// Version of Holdpoint, as clients are told.
	Version string

	// PublicURL is where clients reach this server, without a path: the
	// start of every agent's resource identifier.
	PublicURL string

	// Tokens are the authorization servers whose access tokens the endpoints take. Nil: none.
	Tokens provider.TokenIssuers

	// Failures takes notice of credentials that are not valid. Nil: nobody does.
	Failures *authfail.Log

	// Traces makes the spans of requests. Nil: none are recorded, and what clients hand in is passed on.
	Traces *telemetry.Tracer

	// TrustedOrigins are origins ("https://app.example.com") besides PublicURL's own
	// whose pages may use the endpoints.
	TrustedOrigins []string

	// MaxBody bounds a request's body, in bytes. Zero: [DefaultMaxBody].
	MaxBody int64

	// KeepAlive is the pause between two signs of life on a response that is
	// held open. Zero: [DefaultKeepAlive].
	KeepAlive time.Duration

	// Patience is how long a call that waits for nobody may take before its
	// response becomes a stream. Zero: [DefaultPatience].
	Patience time.Duration

	// WriteTimeout bounds each write to a client, so that one that does not read
	// holds nothing forever. The HTTP server's own WriteTimeout does not matter. Zero: [DefaultWriteTimeout].
	WriteTimeout time.Duration

	// Broadcast relays a client's notifications/cancelled for a request that no response of
	// this process answers; the other processes hand it to [Server.Drop].
	// Nil: there are no others.
	Broadcast func(ctx context.Context, conversationID uuid.UUID, requestID string)
}

// Server serves the endpoints of all agents.
type Server struct {
	Config
	origins map[string]bool // allowed in an Origin header
	host    string          // of PublicURL
	parsers parserPool
	waiters *waiters
	lists   *lists
	watch   *watch
	info    []byte // serverInfo, as JSON
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Calls == nil || cfg.Agents == nil || cfg.Identity == nil || cfg.Limits == nil || cfg.Resources == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("make MCP server: Calls, Agents, Resources, Identity, Limits, Logger and Now are required")
	}
	public, err := url.Parse(cfg.PublicURL)
	if err != nil || public.Scheme == "" || public.Host == "" {
		return nil, fmt.Errorf("make MCP server: public URL %q: want scheme and host", cfg.PublicURL)
	}
	if cfg.Traces == nil {
		cfg.Traces = telemetry.Off()
	}
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	cfg.MaxBody = orDefault(cfg.MaxBody, DefaultMaxBody)
	cfg.KeepAlive = orDefault(cfg.KeepAlive, DefaultKeepAlive)
	cfg.Patience = orDefault(cfg.Patience, DefaultPatience)
	cfg.WriteTimeout = orDefault(cfg.WriteTimeout, DefaultWriteTimeout)
	s := &Server{
		Config:  cfg,
		origins: map[string]bool{public.Scheme + "://" + public.Host: true},
		host:    public.Host,
		waiters: newWaiters(),
		lists:   newLists(),
		watch:   newWatch(cfg.Logger, cfg.Now),
		info:    serverInfo(cfg.Version),
	}
	for _, origin := range cfg.TrustedOrigins {
		s.origins[strings.TrimSuffix(origin, "/")] = true
	}
	return s, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// Mount adds the endpoints' routes.
func (s *Server) Mount(mux *http.ServeMux) {
	mux.HandleFunc("POST /agents/{agent}/mcp", s.guarded((*exchange).post))
	mux.HandleFunc("DELETE /agents/{agent}/mcp", s.guarded((*exchange).delete))
	mux.HandleFunc("GET /agents/{agent}/mcp", s.guarded((*exchange).get))
	mux.HandleFunc("GET "+wellKnown+"/agents/{agent}/mcp", s.resourceMetadata)
}

// Drain ends every open wait with the pending answer, and those that begin from now on at
// their first pause. The calls go their way. Streams of announcements end too. Call it before
// [http.Server.Shutdown], which waits for open responses.
func (s *Server) Drain() {
	s.waiters.drain()
	s.watch.drain()
}

// CatalogMayHaveChanged has clients told of what changed in the lists of their tools, if anything
// did. It costs its caller nothing, and may be called as often as one likes.
func (s *Server) CatalogMayHaveChanged() { s.watch.soon() }

// Drop lets go of the response that answers this request of the conversation,
// if this process holds it, and reports whether it does. The call goes its way.
func (s *Server) Drop(conversationID uuid.UUID, requestID string) bool {
	return s.waiters.drop(waiterKey{conversationID, requestID})
}

// guarded is the way in: origin, credential, and what becomes of a panic.
func (s *Server) guarded(serve func(*exchange)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{Server: s, w: w, r: r, control: http.NewResponseController(w)}
		defer x.recover()
		if !s.originAllowed(r) {
			http.Error(w, "requests of this origin are not allowed", http.StatusForbidden)
			return
		}
		if x.authenticate() {
			serve(x)
		}
	}
}
