// Package mcpserver owns the MCP endpoint of each agent: authentication, both eras of
// the protocol, the tool list, notifications of changed lists and resources, responses
// that stay open while a call waits, and the texts for models.
//
// It does not own calls, conversations or credentials: packages call, catalog, agent and
// identity do. It keeps no state that a request needs: any process serves any session. An
// open response is only a listener; its end never changes the outcome of the call.
package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"weak"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/rpc"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

// Calls is the part of a *[call.Service] that the endpoint uses.
type Calls interface {
	Submit(ctx context.Context, sub call.Submission) (call.Ticket, error)
	Wait(ctx context.Context, id uuid.UUID, l call.Listener) (*call.Call, error)
	MarkDelivered(ctx context.Context, id uuid.UUID) error
	Get(ctx context.Context, viewer call.Viewer, id uuid.UUID) (call.Call, error)
	Questions(ctx context.Context, viewer call.Viewer, id uuid.UUID) ([]call.Question, error)
	WaitDeadline(ctx context.Context, viewer call.Viewer, id uuid.UUID, status call.Status) (time.Time, error)
	Answer(ctx context.Context, viewer call.Viewer, id uuid.UUID, number int, a call.Answer) error
	RequestCancel(ctx context.Context, viewer call.Viewer, id uuid.UUID) error

	GateCalls
}

// GateCalls is the part of a *[call.Service] that the gate of calls uses which their callers execute.
type GateCalls interface {
	Gate(ctx, wait context.Context, sub call.Submission) (call.Passage, error)
	AwaitPassage(ctx, wait context.Context, viewer call.Viewer, id uuid.UUID, name string) (call.Passage, error)
	ReportOutcome(ctx context.Context, viewer call.Viewer, id uuid.UUID, name string, r call.Report) error
	NameHostCall(ctx context.Context, viewer call.Viewer, id uuid.UUID, h call.HostCall) error
	ReportHostCall(ctx context.Context, viewer call.Viewer, h call.HostCall, r call.Report) error
	LeaveGate(ctx context.Context, viewer call.Viewer, id uuid.UUID, name string) error
	ReadGateTask(ctx context.Context, viewer call.Viewer, id uuid.UUID) (*call.GateTask, error)
	NameGateRequest(ctx context.Context, sub *call.Submission, id uuid.UUID) error
	IsReleased(ctx context.Context, viewer call.Viewer, skill, tool string, arguments json.RawMessage) (bool, error)
}

// Plans is the part of a *[call.Service] for agents that submit plans.
type Plans interface {
	SubmitPlan(ctx context.Context, sub *call.PlanSubmission) (agent.Plan, error)
	GetPlan(ctx context.Context, viewer call.Viewer, id uuid.UUID) (agent.Plan, error)
	CancelPlan(ctx context.Context, viewer call.Viewer, by, id uuid.UUID) (agent.Plan, error)
}

// Agents is the part of an *[agent.Service] that the endpoint uses.
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
	FindGated(ctx context.Context, agentID uuid.UUID, skillName, toolName string) (*catalog.Entry, error)
}

// Resources is the part of a *[resource.Service] that the endpoint uses.
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

// Identity is the part of an *[identity.Service] that the endpoint uses.
type Identity interface {
	Authenticate(ctx context.Context, token string) (identity.Access, error)
	Vouched(ctx context.Context, claims identity.Claims) (uuid.UUID, error)
}

// The defaults of a [Config].
const (
	DefaultMaxBody      = 4 << 20
	DefaultKeepAlive    = 10 * time.Second
	DefaultPatience     = 500 * time.Millisecond
	DefaultWriteTimeout = 30 * time.Second
	DefaultWaitBudget   = 50 * time.Second // of an agent that has none
)

// Config has the settings of a [Server]. Fields without a default are required.
type Config struct {
	Calls     Calls
	Plans     Plans // nil only if no agent has the setting plans
	Agents    Agents
	Catalog   Catalog
	Resources Resources
	Identity  Identity
	Limits    Limits
	Guards    Guards // nil: guards are not known
	// Ask submits a client's question to an agent with a model. Errors: ErrDepth, ErrNoModel, *fault.InvalidError, call.ErrKeyReused, *file.AttachmentError.
	Ask    func(ctx context.Context, q Question) (call.Ticket, error)
	Logger *slog.Logger
	Now    func() time.Time

	// Version of Holdpoint, which clients see.
	Version string

	// PublicURL is the server's URL for clients, without a path: the
	// start of every agent's resource identifier.
	PublicURL string

	// Tokens verifies access tokens of authorization servers. Nil: none are accepted.
	Tokens provider.TokenIssuers

	// Failures records invalid credentials. Nil: they are not recorded.
	Failures *authfail.Log

	// Traces records the spans of requests. Nil: none are recorded; clients' trace contexts are passed on.
	Traces *telemetry.Tracer

	// TrustedOrigins are further origins ("https://app.example.com") with access to
	// the endpoints for their pages.
	TrustedOrigins []string

	// MaxBody limits a request's body, in bytes. Zero: [DefaultMaxBody].
	MaxBody int64

	// KeepAlive is the time between keepalives on an open response.
	// Zero: [DefaultKeepAlive].
	KeepAlive time.Duration

	// Patience is how long an executing call may take before its response
	// becomes a stream. Zero: [DefaultPatience].
	Patience time.Duration

	// WriteTimeout limits each write to a client, instead of the HTTP server's own
	// WriteTimeout. Zero: [DefaultWriteTimeout].
	WriteTimeout time.Duration

	// Experimental follows drafts of MCP; see package wire.
	Experimental bool
	// AccessRequests adds the access-request profile of AuthZEN, which is a draft.
	AccessRequests bool

	// ExtMcp adds agentgateway's policy service, which is not stable, to [Server.Gateways].
	ExtMcp bool

	// Broadcast sends a client's notifications/cancelled for a request that this process
	// does not answer to the other processes, which call [Server.Drop]. Nil: there are none.
	Broadcast func(ctx context.Context, conversationID uuid.UUID, requestID string)
}

// Server serves the endpoints of all agents.
type Server struct {
	Config
	origins map[string]bool // allowed in an Origin header
	host    string          // of PublicURL
	parsers wire.Parser
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
		return nil, fmt.Errorf("make MCP server: public URL %q: must have a scheme and a host", cfg.PublicURL)
	}
	if cfg.Traces == nil {
		cfg.Traces = telemetry.Off()
	}
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, DefaultKeepAlive)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, DefaultWriteTimeout)
	s := &Server{
		Config:  cfg,
		origins: map[string]bool{public.Scheme + "://" + public.Host: true},
		host:    public.Host,
		waiters: newWaiters(),
		lists:   &lists{rendered: make(map[weak.Pointer[catalog.Catalog]]*wire.Pages)},
		watch:   newWatch(cfg.Logger, cfg.Now),
		info:    marshal(&mcp.Implementation{Name: serverName, Version: cfg.Version}),
	}
	for _, origin := range cfg.TrustedOrigins {
		s.origins[strings.TrimSuffix(origin, "/")] = true
	}
	return s, nil
}

// Mount adds the endpoints' routes.
func (s *Server) Mount(mux *http.ServeMux) {
	mux.HandleFunc("POST /agents/{agent}/mcp", s.guard(func(x *exchange) { x.servePost(x.dispatch) }))
	mux.HandleFunc("DELETE /agents/{agent}/mcp", s.guard(func(x *exchange) { (&sessionRequest{x}).endSession() }))
	mux.HandleFunc("GET /agents/{agent}/mcp", s.guard(func(x *exchange) { (&subscriptionStream{x}).serveSessionStream() }))
	s.mountGate(mux)
	s.mountGuards(mux)
	mux.HandleFunc("POST /agents/{agent}/hooks/claude-code", s.serveClaudeCodeHook)
	mux.HandleFunc("POST /agents/{agent}/hooks/claude-code/mcp", s.guard(func(x *exchange) { x.servePost(x.serveHookTools) }))
	s.mountAuthZEN(mux)
	mux.HandleFunc("GET "+wellKnown+"/agents/{agent}/mcp", s.resourceMetadata)
}

// Gateways returns the gRPC services for gateways.
func (s *Server) Gateways() []*grpc.ServiceDesc {
	services := []*grpc.ServiceDesc{rpc.Authorization(s.checkExtAuthz)}
	if s.ExtMcp {
		services = append(services, rpc.ExtMcp(s.checkExtMcp))
	}
	return services
}

// Drain ends all open waits with the pending answer, later ones at their first pause, and all streams of notifications. The
// calls continue. Call it before [http.Server.Shutdown], which waits for open responses.
func (s *Server) Drain() {
	s.waiters.drainWaits()
	s.watch.drainListeners()
}

// CatalogMayHaveChanged notifies clients whose tool lists have changed. It returns at once and may be called often.
func (s *Server) CatalogMayHaveChanged() { s.watch.scheduleRound() }

// Drop ends the response to a request of the conversation, if this process holds it, and reports whether it does. The call
// continues.
func (s *Server) Drop(conversationID uuid.UUID, requestID string) bool {
	return s.waiters.dropWait(waiterKey{conversationID, requestID})
}

// guard checks origin and credential, and recovers from panics.
func (s *Server) guard(serve func(*exchange)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := s.newExchange(w, r)
		defer x.recoverPanic()
		if !s.originAllowed(r) {
			http.Error(w, "requests of this origin are not allowed", http.StatusForbidden)
			return
		}
		login := &login{&x.response}
		who, err := login.identifyCaller()
		if err != nil {
			login.answerUnidentified(err)
			return
		}
		x.caller = who
		x.r = r.WithContext(audit.WithCredential(r.Context(), who.auditActor(), who.credential))
		serve(x)
	}
}
