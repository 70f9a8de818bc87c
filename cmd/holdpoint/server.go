package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/bucket"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/runtime"
	"github.com/holdpoint/holdpoint/runtime/model/scripted"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui"
)

// serverSettings are the settings of serve and demo.
type serverSettings struct {
	Addr               string
	DataDir            string // empty: the default of this machine
	PublicURL          string // empty: http:// and the address
	DatabaseURL        string
	SessionURL         string // of the same database, past a pooler; empty: there is none
	ReadURL            string // of a standby; empty: there is none
	Path               string // where programs of stdio skills are looked up
	Bootstrap          cli.Bootstrap
	BootstrapToken     string        // as Bootstrap reads it
	PersonTokenTTL     time.Duration // zero: the default
	AgentKeyTTL        time.Duration // zero: without end
	EncryptionKey      string        // a Tink keyset, base64; empty: the file
	EncryptionKeyFile  string        // empty: secret.keyset.json in the data directory
	KeysetKMSURI       string        // key that encrypts the keyset; empty: none
	Outward            cli.Outward
	Edge               cli.Edge
	Gateways           cli.Gateways
	Keep               cli.Keep
	Providers          cli.Providers
	TokenIssuers       cli.TokenIssuers
	Models             runtime.ModelDefaults
	Getenv             func(string) string // has secrets that the file of providers refers to
	MaxConns           int
	AllowSelfApproval  bool
	DualControl        bool
	SeparateRoles      bool
	TokensOff          bool
	AfterRestore       bool
	AsyncOutcomes      bool
	Experimental       bool
	Stdio              cli.Stdio
	Programs           tool.StdioPolicy // the programs that skills may run; from Stdio
	StdioFromDashboard bool
	FilesURL           string // empty: the folder
	FilesFolder        string // in the data directory; empty: files
	MaxFileSize        int64  // bytes
	FileTypes          []string
	HighRiskMaxAge     time.Duration              // of a sign-in, to approve calls of high risk
	MaxGrantTime       time.Duration              // of a grant; zero: the default
	Scripts            map[string]scripted.Script // models of provider scripted
}

const (
	defaultAddr = "127.0.0.1:8080"

	// awaitDatabase is how long a start waits for a database that starts at the same time.
	awaitDatabase = time.Minute

	// Limits of the steps of a shutdown.
	clientsTimeout  = 5 * time.Second  // open requests; no call depends on them
	callsTimeout    = 10 * time.Second // calls in flight
	tracesTimeout   = 5 * time.Second  // the last spans
	databaseTimeout = 10 * time.Second
)

// server is one process's Holdpoint: its database, services and listener.
type server struct {
	settings serverSettings
	version  string
	log      *slog.Logger
	db       *postgres.DB
	vouching []*provider.Provider
	issuing  provider.TokenIssuers
	traces   *telemetry.Tracer
	runtime  *runtime.Runtime
	listener *inbound.Listener
	mux      *http.ServeMux
	http     *http.Server
	draining atomic.Bool
	requests *requests

	metrics     *http.Server // nil: /metrics is on the main address
	metricsAddr net.Addr

	gateways     *grpc.Server // nil: they cannot ask over gRPC
	gatewaysAddr net.Addr
}

// openServer listens, opens and migrates the database, and starts the services. The listener comes first: if the port is in
// use, no database has to be started.
func openServer(ctx context.Context, settings serverSettings, version string, log *slog.Logger) (_ *server, err error) {
	if err := errors.Join(settings.Outward.Check(), settings.Edge.Check(), settings.Gateways.Check(), settings.Keep.Check(), cli.CheckKeysetKMS(settings.KeysetKMSURI)); err != nil {
		return nil, err
	}
	if settings.PersonTokenTTL < 0 || settings.PersonTokenTTL > 0 && settings.PersonTokenTTL < time.Minute {
		return nil, fmt.Errorf("--person-token-ttl %s: must be at least 1m", settings.PersonTokenTTL)
	}
	if settings.AgentKeyTTL < 0 || settings.AgentKeyTTL > 0 && settings.AgentKeyTTL < time.Minute {
		return nil, fmt.Errorf("--agent-key-ttl %s: must be at least 1m, or 0 for keys that do not end by themselves", settings.AgentKeyTTL)
	}
	if err := bucket.Check(settings.FilesURL); err != nil {
		return nil, fmt.Errorf("--files-url: %w", err)
	}
	if settings.MaxFileSize < 0 {
		return nil, fmt.Errorf("--max-file-size %d: must be a positive number of bytes", settings.MaxFileSize)
	}
	certificate, err := settings.Edge.Certificate(log, time.Now)
	if err != nil {
		return nil, err
	}
	listener, err := openListener(ctx, settings.Addr, settings.Edge, certificate, log)
	if err != nil {
		return nil, err
	}
	s := &server{settings: settings, version: version, log: log, listener: listener, mux: http.NewServeMux(), requests: newRequests(log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.settings.PublicURL == "" {
		s.settings.PublicURL = "http://" + listener.Addr().String()
		if certificate != nil {
			s.settings.PublicURL = "https://" + listener.Addr().String()
		}
	}
	if err := checkPublicURL(s.settings.PublicURL); err != nil {
		return nil, err
	}
	surroundings := provider.Surroundings{
		PublicURL: s.settings.PublicURL, TrustedHosts: s.settings.Outward.TrustedHosts, Now: time.Now,
	}
	if s.vouching, err = s.settings.Providers.Open(settings.Getenv, surroundings); err != nil {
		return nil, err
	}
	if s.settings.TokensOff && len(s.vouching) == 0 {
		return nil, errors.New("--no-person-tokens: must be off without an identity provider (--oidc-config): nobody could sign in")
	}
	if s.issuing, err = s.settings.TokenIssuers.Open(settings.Getenv, surroundings); err != nil {
		return nil, err
	}
	if s.traces, err = telemetry.Open(ctx, settings.Getenv, version, log); err != nil {
		return nil, err
	}
	s.db, err = postgres.Open(ctx, postgres.Config{
		DatabaseURL: settings.DatabaseURL, SessionURL: settings.SessionURL, ReadURL: settings.ReadURL, DataDir: settings.DataDir,
		MaxConns: settings.MaxConns, Logger: log, AwaitServer: awaitDatabase,
	})
	if err != nil {
		return nil, err
	}
	s.settings.Programs.Keep = append(slices.Clone(s.settings.Programs.Keep), s.db.SocketDirs()...)
	if _, err := postgres.Migrate(ctx, s.db, migrations.FS); err != nil {
		return nil, err
	}
	box, err := openBox(ctx, settings, s.db)
	if err != nil {
		return nil, err
	}
	return s, s.startServices(ctx, box)
}

// openListener listens on an address, with the limits of the settings, and with TLS if there is a certificate.
func openListener(ctx context.Context, addr string, edge cli.Edge, certificate *inbound.Certificate, log *slog.Logger) (*inbound.Listener, error) {
	cfg := edge.Inbound()
	cfg.Certificate, cfg.Logger, cfg.Now = certificate, log, time.Now
	return inbound.Listen(ctx, addr, cfg)
}

// openBox opens the encryption key and checks that it is the database's.
func openBox(ctx context.Context, settings serverSettings, db *postgres.DB) (*secret.Box, error) {
	file := settings.EncryptionKeyFile
	if file == "" {
		file = filepath.Join(settings.DataDir, "secret.keyset.json")
	}
	box, err := secret.OpenFor(ctx, db.Pool(), secret.Config{
		Keyset: settings.EncryptionKey, KeysetName: "HOLDPOINT_ENCRYPTION_KEY", File: file,
		KMS: cli.KMS(cli.KeysetKMS, settings.KeysetKMSURI),
	})
	if err != nil {
		return nil, err
	}
	return box, postgres.InTx(ctx, db.Pool(), func(tx pgx.Tx) error { return secret.CheckKey(ctx, tx, box) })
}

// startServices makes the runtime and the dashboard, mounts them and starts the runtime.
func (s *server) startServices(ctx context.Context, box *secret.Box) error {
	store, err := bucket.Open(ctx, s.settings.FilesURL, filepath.Join(s.settings.DataDir, cmp.Or(s.settings.FilesFolder, "files")))
	if err != nil {
		return err
	}
	rt, err := runtime.New(runtime.Config{
		Scripts: s.settings.Scripts, FileStore: store, MaxFileSize: s.settings.MaxFileSize, FileTypes: s.settings.FileTypes,
		DB: s.db, Box: box, Logger: s.log, Now: time.Now, Version: s.version,
		PublicURL: s.settings.PublicURL, DataDir: s.settings.DataDir, Path: s.settings.Path, BootstrapToken: s.settings.BootstrapToken,
		PersonTokenTTL: s.settings.PersonTokenTTL, AgentKeyTTL: s.settings.AgentKeyTTL,
		Issuers: s.issuerURLs(), Tokens: s.issuing, Traces: s.traces, ModelDefaults: s.settings.Models,
		DualControl: s.settings.DualControl, SeparateRoles: s.settings.SeparateRoles, TokensOff: s.settings.TokensOff,
		AllowSelfApproval: s.settings.AllowSelfApproval, Restored: s.settings.AfterRestore, AsyncOutcomes: s.settings.AsyncOutcomes, Experimental: s.settings.Experimental, Stdio: s.settings.Programs,
		StdioFromDashboard: s.settings.StdioFromDashboard, HighRiskMaxAge: s.settings.HighRiskMaxAge, MaxGrantTime: s.settings.MaxGrantTime,
		TrustedHosts: s.settings.Outward.TrustedHosts, WorkloadToken: s.settings.Outward.WorkloadToken(),
		Collectors: append(s.listener.Collectors(), s.requests.collectors(s.version)...), Ages: s.settings.Keep.Given(),
		AccessRequests: s.settings.Gateways.Allows(cli.AccessRequests), ExtMcp: s.settings.Gateways.Allows(cli.ExtMcp),
	})
	if err != nil {
		return err
	}
	dashboard, err := ui.New(ui.Config{
		Calls: rt.Calls, Figures: rt.Figures, History: rt.History, Agents: rt.Agents, Trials: rt.Trials, Catalog: rt.Catalog, Identity: rt.Identity, OAuth: rt.OAuth, Notify: rt.Notify, OnCall: rt.OnCall, Callbacks: rt.Callbacks, Converse: rt.Converse, Exports: rt.API, Holds: rt.Retention.Holds, Control: rt.Control, Guards: rt.Guards, Failures: rt.Failures, Discovery: rt.Discovery, Pool: s.db.Pool(), Providers: s.vouching,
		PublicURL: s.settings.PublicURL, Logger: s.log, Now: time.Now, ProofAge: s.settings.HighRiskMaxAge,
		Server: ui.Server{ // the settings that operators can see
			Version: s.version, DataDir: s.settings.DataDir, EmbeddedDatabase: s.db.Embedded(),
			Stdio: s.settings.Programs.On, StdioAllow: s.settings.Programs.Lines(), StdioFromDashboard: s.settings.StdioFromDashboard,
			DualControl: s.settings.DualControl, SeparateRoles: s.settings.SeparateRoles, TokensOff: s.settings.TokensOff,
			AllowSelfApproval: s.settings.AllowSelfApproval, TrustedHosts: s.settings.Outward.TrustedHosts, Ages: rt.Retention.Ages,
		},
	})
	if err != nil {
		return err
	}
	rt.Mount(s.mux)
	dashboard.Mount(s.mux)
	if err := s.mountMetrics(ctx, rt.Metrics()); err != nil {
		return err
	}
	s.http = s.listener.Server(s.closeWhileDraining(requireHTTPS(s.settings.PublicURL, s.settings.Edge.Proxies().Handler(s.requests.observe(s.mux)))))
	s.http.RegisterOnShutdown(dashboard.Close)
	if err := rt.Start(ctx); err != nil {
		return err
	}
	s.runtime = rt
	return s.serveGateways(ctx, rt.Gateways())
}

// issuerURLs returns the issuers that vouch for people. It warns about those without https.
func (s *server) issuerURLs() []string {
	names := make([]string, len(s.vouching))
	for i, p := range s.vouching {
		names[i] = p.Issuer()
		if strings.HasPrefix(p.Issuer(), "http:") {
			s.log.Warn("identity provider without https: anyone on the network path can sign in as any person", "provider", p.Name(), "issuer", p.Issuer())
		}
	}
	for _, i := range s.issuing {
		if strings.HasPrefix(i.Issuer(), "http:") {
			s.log.Warn("authorization server without https: anyone on the network path can act as any client", "issuer", i.Issuer())
		}
	}
	return names
}

func checkPublicURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || (u.Path != "" && u.Path != "/") {
		return fmt.Errorf("--public-url %q: must be http:// or https:// and a host, without a path", text)
	}
	return nil
}

// serve answers requests until ctx ends, or for the drain delay after the end of accepting. Then it closes everything.
func (s *server) serve(ctx, accepting context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.listener.Serve(s.http) }()
	var err error
	select {
	case <-accepting.Done():
		s.drain(ctx)
		s.log.Info("stopping")
	case err = <-failed:
		err = fmt.Errorf("serve on %s: %w", s.listener.Addr(), err)
	}
	return errors.Join(err, s.close())
}

// drain lets load balancers notice that this server stops, before it refuses their requests. It returns at the end of ctx.
func (s *server) drain(ctx context.Context) {
	s.draining.Store(true)
	s.runtime.StopReadiness()
	if delay := s.settings.Edge.DrainDelay; delay > 0 && ctx.Err() == nil {
		s.log.Info("draining: /readyz answers 503", "drain_delay", delay.String())
		_ = pause.For(ctx, delay) // ctx ends it
	}
}

// closeWhileDraining closes each connection after its next response while the server drains, so that no proxy reuses it for a
// request that would meet the end of the server.
func (s *server) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// close closes the connections of clients, then waits for calls in flight, then closes the database: in this order no accepted
// call is lost. It may be called at any stage of opening.
func (s *server) close() error {
	var errs []error
	if s.runtime != nil {
		s.runtime.Drain()
	}
	if s.http != nil {
		errs = append(errs, runWithin(clientsTimeout, func(ctx context.Context) error {
			err := s.http.Shutdown(ctx)
			if err == nil {
				return nil
			}
			s.log.Warn("clients were cut off", "error", err)
			if err := s.http.Close(); err != nil {
				return fmt.Errorf("close the HTTP server: %w", err)
			}
			return nil
		}))
	}
	if s.gateways != nil {
		errs = append(errs, runWithin(clientsTimeout, func(ctx context.Context) error {
			defer context.AfterFunc(ctx, s.gateways.Stop)() // a lost answer may cost an approval
			s.gateways.GracefulStop()
			return nil
		}))
	}
	if s.metrics != nil {
		errs = append(errs, s.metrics.Close())
	}
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, fmt.Errorf("close the listener: %w", err))
	}
	if s.runtime != nil {
		errs = append(errs, runWithin(callsTimeout, s.runtime.Stop))
	}
	if s.traces != nil {
		if err := runWithin(tracesTimeout, s.traces.Shutdown); err != nil {
			s.log.Warn("the last traces are lost", "error", err) // the calls themselves are recorded
		}
	}
	for _, p := range s.vouching {
		p.Close()
	}
	for _, i := range s.issuing {
		i.Close()
	}
	if s.db != nil {
		errs = append(errs, runWithin(databaseTimeout, s.db.Close))
	}
	return errors.Join(errs...)
}

func runWithin(limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return f(ctx)
}

// newLogger writes lines for people on a terminal and JSON elsewhere.
func newLogger(w io.Writer, terminal bool, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if terminal {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
