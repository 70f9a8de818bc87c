package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Channel is where a change of what a connection allows is announced with NOTIFY. The payload
// is the skill's id.
const Channel = "holdpoint_oauth"

// Config is what a [Service] is made of. Fields without a default are required.
type Config struct {
	Pool     *pgxpool.Pool
	Box      *secret.Box
	Identity *identity.Service
	Logger   *slog.Logger
	Now      func() time.Time // times what is remembered, and signatures; deadlines go by the database

	// PublicURL is where people and authorization servers reach Holdpoint.
	PublicURL string
	// ClientMetadataURL is the client id where the authorization server takes the URL of a metadata
	// document. Default: [MetadataPath] below PublicURL, if that is https.
	ClientMetadataURL string
	// TrustedHosts may be reached without https and on private addresses, although a
	// server names them: "host" or "host:port".
	TrustedHosts []string
	// WorkloadToken returns this server's own identity token, for the grant
	// workload_identity. Nil: it has none.
	WorkloadToken func(ctx context.Context) (string, error)

	// Target finds a skill's server as it is set now. The owner of skills provides it; [ErrNotFound] when there
	// is no such skill.
	Target func(ctx context.Context, key Key) (Target, error)

	// Managed lists the skills of which each person has a connection of their own that this client of an identity
	// provider manages (grant enterprise_managed). Nil: none.
	Managed func(ctx context.Context, issuer, clientID string) ([]uuid.UUID, error)

	// Connected is told, in the transaction that stores it, that a connection can
	// be used that could not before.
	Connected func(ctx context.Context, tx pgx.Tx, key Key) error

	// Timeout bounds each request to an authorization server. Zero: 10 s.
	Timeout time.Duration
}

// Key names a connection: a skill's, or a skill's and a person's.
type Key struct {
	SkillID   uuid.UUID
	Principal uuid.UUID // uuid.Nil: shared by all
}

// Settings are what an operator says of a skill's authorization; for their meaning see
// tool.Authorization, whose fields these are.
type Settings struct {
	Grant           string
	Issuer          string
	ClientID        string
	ClientSecret    string
	AuthMethod      string
	PrivateKey      string
	Scopes          []string
	TrustOrigin     bool // the server's metadata may name a resource above its own URL
	IDPIssuer       string
	IDPClientID     string
	IDPClientSecret string
}

// Target is a skill's server as one person, or nobody in particular, reaches it.
type Target struct {
	Key
	Skill    string // its name, for messages
	PerUser  bool   // each person has a connection of their own
	Revision int64  // of the skill
	URL      string
	// PublicHosts are the names in URL that may not lead to private addresses, see [outbound.Policy].
	PublicHosts []string
	Settings    Settings
}

// The grants; see tool.Grant.
const (
	grantCode         = "authorization_code"
	grantClient       = "client_credentials"
	grantEnterprise   = "enterprise_managed"
	grantWorkload     = "workload_identity"
	defaultTimeout    = 10 * time.Second
	attemptTimeout    = 45 * time.Second // of getting a token, discovery included
	waitingIdle       = time.Minute      // of a transaction that keeps others from asking an authorization server meanwhile
	maxRememberedAS   = 1000
	maxMetadata       = 16 << 20 // bytes
	metadataTTL       = time.Hour
	metadataMinimumIn = 2 * time.Second // a refused token makes metadata be read again, but not more often
)

func (s Settings) grant() string {
	if s.Grant == "" {
		return grantCode
	}
	return s.Grant
}

// unattended reports whether the grant needs no person.
func (s Settings) unattended() bool {
	return s.Grant == grantClient || s.Grant == grantWorkload
}

// Service gets, keeps and renews tokens. It is safe for concurrent use.
type Service struct {
	Config
	public *url.URL

	connections *registry.Memory[Key, *connection]
	found       *registry.Memory[foundKey, *found]
	keys        *registry.Memory[struct{}, []*signingKey]
	clients     clients // by what they may dial

	river *river.Client[pgx.Tx]

	base     context.Context //nolint:containedctx // ends with the service
	stop     context.CancelFunc
	attempts attempts
	nonces   nonces
	rests    rests
	turns    turns
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Box == nil || cfg.Identity == nil || cfg.Logger == nil || cfg.Now == nil ||
		cfg.PublicURL == "" || cfg.Target == nil {
		return nil, errors.New("oauthclient: Pool, Box, Identity, Logger, Now, PublicURL and Target are required")
	}
	public, err := url.Parse(cfg.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("oauthclient: public URL: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.ClientMetadataURL == "" && public.Scheme == "https" {
		cfg.ClientMetadataURL = strings.TrimSuffix(cfg.PublicURL, "/") + MetadataPath
	}
	s := &Service{Config: cfg, public: public}
	s.base, s.stop = context.WithCancel(context.Background())
	s.attempts.flying = map[string]*attempt{}
	s.connections = registry.NewMemory[Key](registry.Config[*connection]{Now: cfg.Now, TTL: registry.SafetyNet})
	s.found = registry.NewMemory[foundKey](registry.Config[*found]{
		Now: cfg.Now, TTL: metadataTTL, Size: (*found).size, MaxSize: maxMetadata, LoadTimeout: attemptTimeout,
	})
	s.keys = registry.NewMemory[struct{}](registry.Config[[]*signingKey]{Now: cfg.Now, TTL: keysTTL})
	return s, nil
}

// target finds the target of a key, for the person that is meant.
func (s *Service) target(ctx context.Context, key Key) (Target, error) {
	t, err := s.Target(ctx, key)
	if err != nil {
		return Target{}, err
	}
	return s.Handler(t).resolve(ctx)
}

// Start gives the service the client that inserts its jobs.
func (s *Service) Start(client *river.Client[pgx.Tx]) { s.river = client }

// Close ends what runs in the background.
func (s *Service) Close() {
	s.stop()
	s.attempts.wait()
	s.connections.Close()
	s.found.Close()
	s.keys.Close()
	s.clients.close()
}

// Invalidate drops what is remembered of connections. It is called on every notice of
// [Channel], and when notices may have been missed.
func (s *Service) Invalidate() { s.connections.Drop() }

// notify announces, when tx commits, that what a connection allows has changed.
func notify(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, skillID.String()); err != nil {
		return fmt.Errorf("notify %s: %w", Channel, err)
	}
	return nil
}

// attempts are what is being done for a connection, one at a time in this process.
// An attempt belongs to nobody: it goes on when those who wait for it leave.
type attempts struct {
	mu      sync.Mutex
	flying  map[string]*attempt
	running sync.WaitGroup
	closed  bool
}

type attempt struct {
	done chan struct{}
	err  error
}

var errClosed = errors.New("the server is stopping")

// run runs f, or waits for one of the same name that is under way.
func (a *attempts) run(ctx, base context.Context, name string, f func(context.Context) error) error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return errClosed
	}
	t, ok := a.flying[name]
	if !ok {
		t = &attempt{done: make(chan struct{})}
		a.flying[name] = t
		a.running.Go(func() {
			ctx, cancel := context.WithTimeout(base, attemptTimeout)
			defer cancel()
			t.err = guarded(ctx, f)
			a.mu.Lock()
			delete(a.flying, name)
			a.mu.Unlock()
			close(t.done)
		})
	}
	a.mu.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// guarded turns a panic over what a server sent into an error.
func guarded(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("authorization broke off: %v\n%s", cause, debug.Stack())
		}
	}()
	return f(ctx)
}

func (a *attempts) wait() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.running.Wait()
}

// rests are the connections whose renewal failed a moment ago, while their tokens are still good: nobody
// waits for another failure.
type rests struct {
	mu    sync.Mutex
	known map[Key]time.Time
}

const restTime = 10 * time.Second

func (r *rests) begin(key Key, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) > maxRememberedAS {
		r.known = map[Key]time.Time{}
	}
	r.known[key] = now.Add(restTime)
}

func (r *rests) rests(key Key, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.known[key])
}

// turns bound how many hold a connection of the pool over a request to an authorization server: few for each
// of them, so that one that hangs holds up its own skills only, and not too many in all.
type turns struct {
	mu    sync.Mutex
	known map[string]chan struct{}
	all   chan struct{}
}

const (
	turnsEach = 2
	turnsAll  = 6
)

// take waits for a turn at an issuer. The caller gives it back by done.
func (t *turns) take(ctx context.Context, issuer string) (done func(), err error) {
	t.mu.Lock()
	if t.all == nil {
		t.all = make(chan struct{}, turnsAll)
	}
	if t.known == nil || len(t.known) > maxRememberedAS {
		t.known = map[string]chan struct{}{}
	}
	each := t.known[issuer]
	if each == nil {
		each = make(chan struct{}, turnsEach)
		t.known[issuer] = each
	}
	t.mu.Unlock()
	select {
	case each <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case t.all <- struct{}{}:
		return func() { <-t.all; <-each }, nil
	case <-ctx.Done():
		<-each
		return nil, ctx.Err()
	}
}

// clients are HTTP clients by the one host, besides the trusted ones, that they may
// reach on a private address.
type clients struct {
	mu    sync.Mutex
	known map[string]*http.Client
}

const maxClients = 256

// client is the one for what a skill's server, at own, names.
func (s *Service) client(own string) *http.Client {
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	if c, ok := s.clients.known[own]; ok {
		return c
	}
	if len(s.clients.known) >= maxClients {
		s.clients.drop()
	}
	if s.clients.known == nil {
		s.clients.known = map[string]*http.Client{}
	}
	c := outbound.NewClient(outbound.Config{
		Policy: s.policy(own), DialTimeout: s.Timeout, MaxHeaderBytes: 64 << 10,
	})
	c.Timeout = s.Timeout
	s.clients.known[own] = c
	return c
}

func (c *clients) drop() {
	for _, client := range c.known {
		client.CloseIdleConnections()
	}
	clear(c.known)
}

func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}
