// Package runtime assembles the services that agents use, with their jobs and routes. It owns the order of start and stop, and
// no other behavior.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"gocloud.dev/blob"
	"google.golang.org/grpc"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api"
	"github.com/holdpoint/holdpoint/runtime/api/operate"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/limit"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/scripted"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/retention"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

// Config configures a [Runtime]. DB, Box, Logger, Now and PublicURL are required.
type Config struct {
	DB     *postgres.DB
	Box    *secret.Box
	Logger *slog.Logger
	Now    func() time.Time

	Version   string
	PublicURL string
	DataDir   string // for the private homes of stdio programs
	Path      string // PATH of stdio programs

	// BootstrapToken, when set, is a credential of the person "bootstrap".
	BootstrapToken string
	// PersonTokenTTL is how long new personal tokens are valid. Zero: 90 days.
	PersonTokenTTL time.Duration
	// AgentKeyTTL is how long new keys of agents are valid. Zero: until they are revoked.
	AgentKeyTTL time.Duration
	// Tokens are the authorization servers whose access tokens agents' endpoints accept. The caller closes them.
	Tokens provider.TokenIssuers
	// Issuers are the identity providers that people sign in with.
	Issuers []string
	// MaxGrantTime is how long a grant may last. Zero: [grant.DefaultMaxTime].
	MaxGrantTime time.Duration
	// AllowSelfApproval lets people decide calls made on their own behalf.
	AllowSelfApproval bool
	// AccessRequests and ExtMcp add protocols for gateways; see [mcpserver.Config].
	AccessRequests, ExtMcp bool
	// DualControl lets changes that loosen wait for a second operator.
	DualControl bool
	// SeparateRoles: operator and reviewer are never one person.
	SeparateRoles bool
	// TokensOff switches personal tokens off.
	TokensOff bool
	// Restored makes approved and executing calls unknown at the start; see [call.Config].
	Restored bool
	// AsyncOutcomes answers auto-approved calls before their outcome is on disk; see [call.Config].
	AsyncOutcomes bool
	// Experimental follows drafts of MCP; see [mcpserver.Config].
	Experimental bool
	// Stdio is the policy for commands of stdio skills.
	Stdio tool.StdioPolicy
	// StdioFromDashboard and HighRiskMaxAge are settings of the dashboard that the API shows to operators.
	StdioFromDashboard bool
	HighRiskMaxAge     time.Duration
	// TrustedHosts may have private addresses and no https, even if a skill's server, a webhook or a callback names them.
	TrustedHosts []string
	// FileStore stores the content of files; the runtime closes it. Nil: agents cannot attach files. MaxFileSize, in bytes, and
	// FileTypes bound files; see package file for the defaults.
	FileStore   *blob.Bucket
	MaxFileSize int64
	FileTypes   []string
	// Ages are how long records are kept. Nil: only records to which nothing refers are deleted.
	Ages *lifetime.Ages
	// WorkloadToken returns this server's own identity token. Nil: there is none.
	WorkloadToken func(ctx context.Context) (string, error)
	// ModelDefaults are this server's own model servers, by provider: openai, anthropic.
	ModelDefaults ModelDefaults
	// Scripts are the models of provider scripted, by name.
	Scripts map[string]scripted.Script
	// Traces makes the spans; the caller shuts it down. Nil: none are recorded.
	Traces *telemetry.Tracer
	// Collectors are further metrics for /metrics, from outside the runtime.
	Collectors []prometheus.Collector
}

// DefaultMaxFileSize is the default of [Config.MaxFileSize].
const DefaultMaxFileSize = file.DefaultMaxSize

// Runtime has all services of one process.
type Runtime struct {
	Config
	Instance  uuid.UUID
	Identity  *identity.Service
	Discovery *tool.Discovery
	Agents    *agent.Service
	Trials    *trial.Service
	Catalog   *catalog.Service
	Files     *file.Service // nil: there is no storage
	Calls     *call.Service
	Figures   *figures.Service
	History   *history.Service
	Resources *resource.Service
	OAuth     *oauthclient.Service
	API       *api.API
	Notify    *notify.Service
	Limits    *limit.Service
	Callbacks *callback.Service
	Converse  *converse.Service
	Retention *retention.Service
	OnCall    *oncall.Service
	Control   *dualcontrol.Service
	Guards    *guarded.Service
	Failures  *authfail.Log

	source   *mcptool.Source  // of MCP servers
	apis     *httptool.Source // of HTTP APIs
	mcp      *mcpserver.Server
	jobs     *jobs
	listener *jobListener    // of the job queue
	asked    *model.Observer // measures requests to models
	models   *models
	river    *river.Client[pgx.Tx]

	background sync.WaitGroup
	stop       context.CancelFunc
	stopping   atomic.Bool // see [Runtime.StopReadiness]
}

// New assembles the services. Nothing runs before [Runtime.Start].
func New(cfg Config) (*Runtime, error) {
	if cfg.DB == nil || cfg.Box == nil || cfg.Logger == nil || cfg.Now == nil || cfg.PublicURL == "" {
		return nil, errors.New("assemble runtime: DB, Box, Logger, Now and PublicURL are required")
	}
	instance, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("assemble runtime: %w", err)
	}
	if cfg.Traces == nil {
		cfg.Traces = telemetry.Off()
	}
	if cfg.Ages == nil {
		cfg.Ages = new(lifetime.DefaultAges())
	}
	rt := &Runtime{Config: cfg, Instance: instance, jobs: newJobs(cfg.Now), listener: newJobListener(), asked: model.NewObserver(cfg.Traces, cfg.Now), models: newModels(cfg.Scripts)}
	if rt.Failures, err = authfail.New(authfail.Config{Pool: rt.DB.Pool(), Logger: rt.Logger, Now: rt.Now}); err != nil {
		return nil, fmt.Errorf("assemble runtime: %w", err)
	}
	for _, join := range []func() error{rt.makeRegistry, rt.makeNotify, rt.makeCallbacks, rt.makeFiles, rt.makeCalls, rt.makeEdges} {
		if err := join(); err != nil {
			return nil, fmt.Errorf("assemble runtime: %w", err)
		}
	}
	return rt, nil
}

func (rt *Runtime) makeRegistry() error {
	pool, log := rt.DB.Pool(), rt.Logger
	var err error
	rt.Control, err = dualcontrol.New(dualcontrol.Config{
		Pool: pool, Box: rt.Box, On: rt.DualControl, MayBeOne: identity.MayBeOne,
		Operators: func(ctx context.Context, db postgres.Querier) ([]uuid.UUID, error) {
			return rt.Identity.ListOperators(ctx, db)
		},
	})
	if err != nil {
		return err
	}
	rt.Identity, err = identity.New(identity.Config{
		Control: rt.Control, SeparateRoles: rt.SeparateRoles, TokensOff: rt.TokensOff,
		Pool: pool, BootstrapToken: rt.BootstrapToken, TokenTTL: rt.PersonTokenTTL, SessionsKept: lifetime.OrForever(rt.Ages.Sessions), Issuers: rt.Issuers, Logger: log, Now: rt.Now,
		SessionsEnded: func(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error {
			return rt.Notify.SessionsEnded(ctx, tx, sessions)
		},
	})
	if err != nil {
		return err
	}
	rt.OAuth, err = oauthclient.New(oauthclient.Config{
		Pool: pool, Box: rt.Box, Identity: rt.Identity, Logger: log, Now: rt.Now, PublicURL: rt.PublicURL,
		TrustedHosts: rt.TrustedHosts, WorkloadToken: rt.WorkloadToken,
		Target: rt.findTarget, Managed: rt.listManagedSkills,
		Connected: func(ctx context.Context, tx pgx.Tx, key oauthclient.Key) error {
			return rt.Calls.ResumeConnected(ctx, tx, key.SkillID)
		},
	})
	if err != nil {
		return err
	}
	rt.source = mcptool.New(mcptool.Config{
		OAuth: rt.OAuth, Logger: log, Version: rt.Version, DataDir: rt.DataDir, Stdio: rt.Stdio, Now: rt.Now,
		Path: rt.Path, Traces: rt.Traces, TrustedHosts: rt.TrustedHosts,
		ListChanged:     func(skill uuid.UUID) { rt.Discovery.ListChanged(skill) },
		OffersChanged:   func(skill uuid.UUID, method string) { rt.Resources.ListChanged(skill, method) },
		ResourceUpdated: func(skill, principal uuid.UUID, uri string) { rt.Resources.Updated(skill, principal, uri) },
	})
	rt.apis = httptool.New(httptool.Config{
		OAuth: rt.OAuth, Logger: log, Version: rt.Version, Now: rt.Now, Traces: rt.Traces, TrustedHosts: rt.TrustedHosts,
		Document: func(ctx context.Context, digest string) ([]byte, error) { return rt.Trials.Document(ctx, digest) },
	})
	rt.Discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: pool, Logger: log, Now: rt.Now, Listed: agent.QueueListing,
		Sources: map[tool.Transport]tool.Source{tool.HTTP: rt.source, tool.Stdio: rt.source, tool.OpenAPI: rt.apis, tool.HTTPAPI: rt.apis, tool.Gate: host.Source{}},
	})
	if err != nil {
		return err
	}
	rt.Agents, err = agent.New(agent.Config{
		Pool: pool, Discovery: rt.Discovery, Box: rt.Box, Logger: log, Now: rt.Now, Stdio: rt.Stdio, KeyTTL: rt.AgentKeyTTL, MaxGrantTime: rt.MaxGrantTime,
		CheckDocument: openapi.CheckDocument, Control: rt.Control,
		SkillDeleted: rt.OAuth.Removed,
		AgentDeleted: func(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error {
			return rt.Callbacks.Removed(ctx, tx, agentID)
		},
	})
	if err != nil {
		return err
	}
	rt.Trials, err = trial.New(trial.Config{Pool: pool, Agents: rt.Agents, Discovery: rt.Discovery, Box: rt.Box, Examiner: rt.apis})
	if err != nil {
		return err
	}
	rt.Catalog, err = catalog.New(catalog.Config{Pool: pool, Agents: rt.Agents, Discovery: rt.Discovery, Logger: log, Now: rt.Now})
	return err
}

func (rt *Runtime) makeFiles() error {
	if rt.FileStore == nil {
		return nil
	}
	var err error
	rt.Files, err = file.New(file.Config{
		Pool: rt.DB.Pool(), Bucket: rt.FileStore, PublicURL: rt.PublicURL, Logger: rt.Logger, Now: rt.Now,
		MaxSize: rt.MaxFileSize, Types: rt.FileTypes, Failures: rt.Failures,
		Open: func(ctx context.Context, callID uuid.UUID) (bool, error) { return rt.Calls.CanDownload(ctx, callID) },
	})
	return err
}

func (rt *Runtime) makeCalls() error {
	var err error
	rt.Calls, err = call.New(call.Config{
		Pool: rt.DB.Pool(), Reader: rt.DB.Reader(), Vital: rt.DB.SessionConfig(), Timeline: rt.DB.Timeline, Agents: rt.Agents, Discovery: rt.Discovery, Logger: rt.Logger, Now: rt.Now,
		Instance: rt.Instance, AllowSelfApproval: rt.AllowSelfApproval, Restored: rt.Restored, AsyncOutcomes: rt.AsyncOutcomes, Reconnected: rt.relistSkill, Attend: rt.queueNotices, ListDeciders: rt.listDeciders,
		Publish: rt.publishHappenings, CancelCarried: func(ctx context.Context, c *call.Call) error { return rt.Converse.CancelAsked(ctx, c) },
		StopWork: func(ctx context.Context, tx pgx.Tx) error { return rt.Converse.StopAll(ctx, tx) },
		Files:    rt.Files, Traces: rt.Traces,
	})
	if err != nil {
		return err
	}
	rt.History = history.New(rt.Calls)
	rt.Figures, err = figures.New(figures.Config{Pool: rt.DB.Pool(), Reader: rt.DB.Reader(), Agents: rt.Agents})
	if err != nil {
		return err
	}
	rt.Converse, err = converse.New(converse.Config{
		Pool: rt.DB.Pool(), Agents: rt.Agents, Catalog: rt.Catalog, Calls: rt.Calls, Files: rt.Files, Logger: rt.Logger, Now: rt.Now, Instance: rt.Instance,
		Provider: rt.findProvider, Blocked: rt.Identity.Blocked, Traces: rt.Traces,
	})
	if err != nil {
		return err
	}
	rt.Retention, err = retention.New(retention.Config{Pool: rt.DB.Pool(), Logger: rt.Logger, Now: rt.Now, Ages: *rt.Ages})
	if err != nil {
		return err
	}
	rt.OnCall = &oncall.Service{Pool: rt.DB.Pool(), Box: rt.Box, Logger: rt.Logger, Now: rt.Now, TrustedHosts: rt.TrustedHosts}
	workers := river.NewWorkers()
	rt.Agents.AddWorkers(workers)
	rt.Calls.AddWorkers(workers)
	rt.Figures.AddWorkers(workers)
	rt.Converse.AddWorkers(workers)
	rt.OAuth.AddWorkers(workers)
	if rt.Files != nil {
		rt.Files.AddWorkers(workers)
	}
	rt.Notify.AddWorkers(workers)
	rt.OnCall.AddWorkers(workers)
	rt.Retention.AddWorkers(workers)
	rt.Callbacks.AddWorkers(workers)
	config := newQueueConfig(quietLogger(rt.Logger), workers)
	config.ID = rt.Instance.String()
	config.Middleware = []rivertype.Middleware{rt.jobs} // measures jobs
	rt.river, err = river.NewClient[pgx.Tx](jobDriver{riverpgxv5.New(rt.DB.Pool()), rt.listener}, config)
	return err
}

func (rt *Runtime) makeEdges() error {
	var err error
	rt.Resources, err = resource.New(resource.Config{
		Catalog: rt.Catalog, Sources: rt.Discovery, Upstream: rt.source, Pool: rt.DB.Pool(), Logger: rt.Logger, Now: rt.Now,
		Returned: func(ctx context.Context, who resource.Who, uri string) ([]uuid.UUID, error) {
			viewer := call.Viewer{AgentID: who.AgentID, PrincipalID: who.Principal}
			return rt.Calls.FindReturningSkills(ctx, viewer, who.Conversation, uri)
		},
		Headers: func(ctx context.Context, skill *agent.Skill, who resource.Who) (map[string]string, error) {
			return rt.Calls.IdentityHeaders(ctx, skill, who.AgentID, uuid.Nil, who.Principal)
		},
	})
	if err != nil {
		return err
	}
	rt.Limits, err = limit.New(limit.Config{Pool: rt.DB.Pool(), Instance: rt.Instance, Logger: rt.Logger})
	if err != nil {
		return err
	}
	rt.mcp, err = mcpserver.New(mcpserver.Config{
		Calls: rt.Calls, Plans: rt.Calls, Agents: rt.Agents, Catalog: rt.Catalog, Resources: rt.Resources, Identity: rt.Identity, Limits: rt.Limits, Tokens: rt.Tokens, Logger: rt.Logger, Now: rt.Now,
		Version: rt.Version, PublicURL: rt.PublicURL, Broadcast: rt.broadcastDrop, Traces: rt.Traces, Ask: rt.askAgent, Failures: rt.Failures, Guards: rt.Guards,
		Experimental: rt.Experimental, AccessRequests: rt.AccessRequests, ExtMcp: rt.ExtMcp,
	})
	if err != nil {
		return err
	}
	rt.API, err = api.New(api.Config{
		Calls: rt.Calls, Figures: rt.Figures, History: rt.History, Agents: rt.Agents, Trials: rt.Trials, Catalog: rt.Catalog, Identity: rt.Identity, OAuth: rt.OAuth, Notify: rt.Notify, Callbacks: rt.Callbacks, Audit: rt.DB.Pool(), Logger: rt.Logger,
		Converse: rt.Converse, Now: rt.Now, Failures: rt.Failures, Retention: rt.Retention, OnCall: rt.OnCall, Control: rt.Control, Guards: rt.Guards,
		Server: operate.ServerSettings{
			Version: rt.Version, PublicURL: rt.PublicURL, DataDir: rt.DataDir, EmbeddedDatabase: rt.DB.Embedded(),
			Stdio: rt.Stdio.On, StdioAllow: rt.Stdio.Lines(), StdioPaths: rt.Stdio.Paths, StdioFromDashboard: rt.StdioFromDashboard, AllowSelfApproval: rt.AllowSelfApproval,
			DualControl: rt.DualControl, SeparateRoles: rt.SeparateRoles, TokensOff: rt.TokensOff,
			HighRiskMaxAge: rt.HighRiskMaxAge, MaxGrantTime: rt.Agents.MaxGrantTime(), Ages: *rt.Ages, TrustedHosts: rt.TrustedHosts,
		},
	})
	return err
}

// Gateways returns the gRPC services for gateways.
func (rt *Runtime) Gateways() []*grpc.ServiceDesc { return rt.mcp.Gateways() }

// Mount adds the routes of all services.
func (rt *Runtime) Mount(mux *http.ServeMux) {
	rt.mcp.Mount(mux)
	rt.API.Mount(mux)
	rt.OAuth.Mount(mux)
	if rt.Files != nil {
		rt.Files.Mount(mux)
	}
	rt.mountHealth(mux)
}

// Start starts jobs, heartbeat and notifications. After an error, nothing goes on running.
func (rt *Runtime) Start(ctx context.Context) error {
	if err := errors.Join(rt.Control.Start(ctx), rt.Identity.StartSeparation(ctx)); err != nil {
		return err
	}
	jobChannels, err := rt.listener.listChannels(ctx, rt.DB.Pool())
	if err != nil {
		return err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	rt.stop = stop
	rt.logRefusedSkills(ctx)
	rt.OAuth.Start(rt.river)
	rt.Failures.Start()
	if rt.Files != nil {
		rt.Files.Start(rt.river)
	}
	rt.Notify.Start(rt.river)
	rt.OnCall.Start(rt.river)
	rt.Callbacks.Start(ctx, rt.river)
	rt.Figures.Start(rt.river)
	rt.Retention.Start(rt.river)
	rt.Agents.StartReviews(rt.river)
	if err := rt.Calls.Start(ctx, rt.river); err != nil {
		stop()
		rt.closeServices(ctx)
		return err
	}
	rt.Converse.Start(ctx, rt.river)
	rt.background.Go(func() {
		rt.DB.Listen(background, append(listChannels(), jobChannels...), rt.dispatchNotification, rt.catchUp)
	})
	rt.background.Go(func() { rt.logAnnouncements(background) })
	rt.background.Go(func() { rt.Guards.Watch(background) })
	rt.background.Go(func() { rt.restoreJobs(background) })
	if err := startJobs(ctx, background, rt.river, rt.Logger); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedStartTimeout)
		defer cancel()
		return errors.Join(fmt.Errorf("start job queue: %w", err), rt.Stop(stopping))
	}
	return nil
}

// failedStartTimeout bounds the stop after a failed start.
const failedStartTimeout = 10 * time.Second

// startAttempts bounds the attempts to start River, which gives up by itself if the database does not answer within 10 s.
const startAttempts = 6

// startJobs starts a River client that runs until background ends. It retries if the database is slow, until ctx ends.
func startJobs(ctx, background context.Context, client *river.Client[pgx.Tx], log *slog.Logger) error {
	for attempt := 1; ; attempt++ {
		err := client.Start(background)
		if !errors.Is(err, context.DeadlineExceeded) || attempt == startAttempts || ctx.Err() != nil {
			return err
		}
		log.Warn("starting the job queue; trying again", "attempt", attempt, "error", err)
	}
}

// announceInterval is the time between two log entries about pending tasks of people.
const announceInterval = 24 * time.Hour

func (rt *Runtime) logAnnouncements(ctx context.Context) {
	ticker := time.NewTicker(announceInterval)
	defer ticker.Stop()
	for {
		if err := rt.Identity.LogAnnouncements(ctx); err != nil && ctx.Err() == nil {
			rt.Logger.Warn("read announcements", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Drain ends open responses and requests to models, before the shutdown of the HTTP server. Calls and conversations continue.
func (rt *Runtime) Drain() {
	rt.Failures.Drain()
	rt.mcp.Drain()
	rt.API.Drain()
	rt.Converse.Drain()
}

// Stop starts no new jobs, waits for calls in flight until ctx ends, and then closes the connections to skill servers.
func (rt *Runtime) Stop(ctx context.Context) error {
	rt.Calls.StopDispatching()
	err := rt.river.Stop(ctx)
	if err != nil {
		err = fmt.Errorf("stop job queue: %w", err)
	}
	rt.Converse.Close()
	err = errors.Join(err, rt.Calls.Stop(ctx))
	rt.stop()
	rt.background.Wait()
	rt.closeServices(ctx)
	return err
}

// closeServices closes all services, whether they were started or not.
func (rt *Runtime) closeServices(ctx context.Context) {
	rt.source.Close(ctx)
	rt.apis.Close()
	rt.models.client.CloseIdleConnections()
	rt.Converse.Close()
	rt.Resources.Close()
	rt.Catalog.Close()
	rt.Agents.Close()
	rt.Discovery.Close()
	rt.OAuth.Close()
	rt.Notify.Close()
	rt.Callbacks.Close()
	rt.Identity.Close()
	rt.Limits.Close()
	rt.Failures.Close()
	if rt.Files != nil {
		if err := rt.Files.Close(); err != nil {
			rt.Logger.Warn("close file storage", "error", err)
		}
	}
}

func (rt *Runtime) makeNotify() error {
	var err error
	rt.Notify, err = notify.New(notify.Config{
		Pool: rt.DB.Pool(), Box: rt.Box, Identity: rt.Identity, Logger: rt.Logger, Now: rt.Now, PublicURL: rt.PublicURL,
		AllowSelfApproval: rt.AllowSelfApproval, Waiting: rt.listWaiting, TrustedHosts: rt.TrustedHosts,
	})
	if err != nil {
		return err
	}
	rt.Guards, err = guarded.New(guarded.Config{Pool: rt.DB.Pool(), Logger: rt.Logger, Now: rt.Now, Alert: rt.queueAlert})
	if err == nil {
		rt.Agents.OnAgentDeleted(rt.Guards.RemoveAgent)
	}
	return err
}

func (rt *Runtime) makeCallbacks() error {
	var err error
	rt.Callbacks, err = callback.New(callback.Config{
		Pool: rt.DB.Pool(), Box: rt.Box, Logger: rt.Logger, Now: rt.Now, TrustedHosts: rt.TrustedHosts,
		Keep: lifetime.OrForever(rt.Ages.Deliveries),
	})
	return err
}
