package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// Channel is where a change of a connection is announced with NOTIFY. The payload is the skill's id.
const Channel postgres.Channel = "holdpoint_oauth"

// Config configures a [Service]. Fields without a default are required.
type Config struct {
	Pool     *pgxpool.Pool
	Box      *secret.Box
	Identity *identity.Service
	Logger   *slog.Logger
	Now      func() time.Time // for caches and signatures; deadlines go by the database's clock

	// PublicURL is Holdpoint's address for people and authorization servers.
	PublicURL string
	// ClientMetadataURL is the client id at authorization servers that support Client ID Metadata Documents.
	// Default: [MetadataPath] below PublicURL, if that is https.
	ClientMetadataURL string
	// TrustedHosts ("host" or "host:port") may be reached without https and on private addresses, also when a server
	// names them.
	TrustedHosts []string
	// WorkloadToken returns this server's own identity token for the grant workload_identity (RFC 7523 section 2.1).
	// Nil: it has none.
	WorkloadToken func(ctx context.Context) (string, error)

	// Target returns a skill's server with its present settings, or [ErrNotFound]. The owner of skills provides it.
	Target func(ctx context.Context, key Key) (Target, error)

	// Managed lists the skills with personal connections that this client of an identity provider manages (grant
	// enterprise_managed). Nil: none.
	Managed func(ctx context.Context, issuer, clientID string) ([]uuid.UUID, error)

	// Connected is called, in the transaction that stores the tokens, when a connection becomes usable. Nil: nothing
	// is called.
	Connected func(ctx context.Context, tx pgx.Tx, key Key) error

	// Timeout bounds each request to an authorization server. Zero: 10 s.
	Timeout time.Duration
}

// Key names a connection: of a skill, or of a skill and a person.
type Key struct {
	SkillID   uuid.UUID
	Principal uuid.UUID // uuid.Nil: the connection that all people share
}

// Settings are an operator's settings of a skill's authorization. They have the meaning of the fields of tool.Authorization.
type Settings struct {
	Grant           string
	Issuer          string
	ClientID        string
	ClientSecret    string
	AuthMethod      string
	PrivateKey      string
	Scopes          []string
	TrustOrigin     bool // accept metadata of a resource above the skill's URL (see RFC 9728 section 3.3)
	IDPIssuer       string
	IDPClientID     string
	IDPClientSecret string
}

func (s Settings) grantType() string {
	if s.Grant == "" {
		return grantCode
	}
	return s.Grant
}

// needsNoPerson reports whether the grant works without a person.
func (s Settings) needsNoPerson() bool {
	return s.Grant == grantClient || s.Grant == grantWorkload
}

// Target is a skill's server and the person on whose behalf it is called, if any.
type Target struct {
	Key
	Skill    string // the skill's name, for messages
	PerUser  bool   // each person has their own connection
	Revision int64  // of the skill
	URL      string
	// PublicHosts are the host names in URL that must not resolve to private addresses; see [outbound.Policy].
	PublicHosts []string
	Settings    Settings
}

// lacksPrincipal reports whether there can be no connection: each person has their own, and the target names no person.
func (t Target) lacksPrincipal() bool { return t.PerUser && t.Principal == uuid.Nil }

// wireSkill returns the target as package wire reads its metadata.
func (t Target) wireSkill() wire.Skill {
	return wire.Skill{URL: t.URL, Origin: t.skillOrigin(), TrustOrigin: t.Settings.TrustOrigin}
}

// skillOrigin returns the origin of the skill's URL, or "" if the URL is invalid.
func (t Target) skillOrigin() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	origin := wire.OriginOf(u)
	if slices.Contains(t.PublicHosts, strings.ToLower(u.Hostname())) {
		origin += wire.PublicOnly
	}
	return origin
}

// The grants; see tool.Grant.
const (
	grantCode       = "authorization_code"
	grantClient     = "client_credentials"
	grantEnterprise = "enterprise_managed"
	grantWorkload   = "workload_identity"
)

const (
	defaultTimeout      = 10 * time.Second
	attemptTimeout      = 45 * time.Second // to get a token, discovery included
	idleInTx            = time.Minute      // of a transaction that waits for an authorization server
	maxServers          = 1000             // servers, or connections, for which something is kept in memory
	maxMetadata         = 16 << 20         // bytes of cached metadata
	metadataTTL         = time.Hour
	metadataMinInterval = 2 * time.Second // metadata is read again after a refused token, but not more often than this
)

// Service gets, stores and renews tokens. It is safe for concurrent use.
//
// Its parts call each other downward, in the order of its fields.
type Service struct {
	Config

	authorizer  *authorizer
	store       *store
	revocations *revoker
	clients     *registrar
	metadata    *discovery
	endpoint    *wire.TokenClient
	keys        *keyring
	sealer      *sealer
	fetch       *wire.Fetcher
}

// New makes a service. Call [Service.Start] before tokens have to be revoked, and [Service.Close] at the end.
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
	s := &Service{Config: cfg, sealer: &sealer{box: cfg.Box}}
	s.fetch = &wire.Fetcher{TrustedHosts: cfg.TrustedHosts, Timeout: cfg.Timeout}
	slots := &requestSlots{all: make(chan struct{}, slotsInAll)}
	s.keys = &keyring{
		pool: cfg.Pool, box: cfg.Box, cache: registry.NewMemory[struct{}](registry.Config[[]publishedKey]{Now: cfg.Now, TTL: keysTTL}),
	}
	s.endpoint = &wire.TokenClient{Fetch: s.fetch, Now: cfg.Now}
	s.metadata = &discovery{fetch: s.fetch, now: cfg.Now, cache: registry.NewMemory[resourceKey](registry.Config[*wire.Resource]{
		Now: cfg.Now, TTL: metadataTTL, Size: (*wire.Resource).MemorySize, MaxSize: maxMetadata, LoadTimeout: attemptTimeout,
	})}
	s.clients = &registrar{Config: &s.Config, public: public, keys: s.keys, sealer: s.sealer, fetch: s.fetch, slots: slots}
	s.revocations = &revoker{
		Config: &s.Config, clients: s.clients, endpoint: s.endpoint, keys: s.keys, sealer: s.sealer,
	}
	s.store = &store{
		Config: &s.Config, revocations: s.revocations, sealer: s.sealer,
		cache: registry.NewMemory[Key](registry.Config[*connection]{Now: cfg.Now, TTL: registry.SafetyNet}),
	}
	s.authorizer = &authorizer{
		Config: &s.Config, store: s.store, revocations: s.revocations, clients: s.clients, metadata: s.metadata, endpoint: s.endpoint,
		fetch: s.fetch, slots: slots, attempts: newAttempts(),
	}
	return s, nil
}

// Start gives the service the client that inserts its jobs.
func (s *Service) Start(client *river.Client[pgx.Tx]) { s.revocations.river = client }

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &revokeWorker{revoker: s.revocations})
	river.AddWorker(workers, &forgetWorker{store: s.store})
}

// Invalidate drops all cached connections. Call it on every notification of [Channel], and when notifications may have been
// missed.
func (s *Service) Invalidate() { s.store.cache.Drop() }

// Close stops the background work and waits for it.
func (s *Service) Close() {
	s.authorizer.attempts.closeAll()
	s.store.cache.Close()
	s.metadata.cache.Close()
	s.keys.cache.Close()
	s.fetch.Close()
}
