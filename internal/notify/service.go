package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// JobQueue is the name of the River queue of this package's jobs: receivers that hang hold up no others.
const JobQueue = "notify"

const (
	// Gap is the least time between two messages to one target.
	Gap = 5 * time.Second
	// vapidTTL is how long the key for push messages is remembered, which does not change.
	vapidTTL = 10 * time.Minute
	// defaultTimeout bounds a request to a receiver.
	defaultTimeout = 10 * time.Second
)

// Config is what a [Service] is made of. Fields without a default are required.
type Config struct {
	Pool     *pgxpool.Pool
	Box      *secret.Box
	Identity *identity.Service
	Logger   *slog.Logger
	Now      func() time.Time // times what is remembered; all else goes by the database

	// PublicURL is where people reach the dashboard: messages link there.
	PublicURL string
	// TrustedHosts may receive webhooks without https and on private addresses: "host" or "host:port".
	TrustedHosts []string
	// PushHosts may be push services although they are on private addresses: "host" or "host:port". A browser says where
	// its messages go, so these are not the hosts that skills' servers may name. Tests have some.
	PushHosts []string
	// AllowSelfApproval: whoever a call is made for may decide it, and so hears of it.
	AllowSelfApproval bool

	// Waiting returns those of the calls that still wait for a decision.
	Waiting func(ctx context.Context, calls []uuid.UUID) ([]uuid.UUID, error)

	// Gap is the least time between two messages to one target. Zero: [Gap].
	Gap time.Duration
	// Timeout bounds each request to a receiver. Zero: 10 s.
	Timeout time.Duration
	// TLS is used to reach receivers. Nil: Go's defaults.
	TLS *tls.Config
}

// Service tells people of calls. It is safe for concurrent use.
type Service struct {
	Config
	wants    *registry.Memory[struct{}, wants]
	vapid    *registry.Memory[struct{}, vapid]
	webhooks *http.Client // to operators' URLs
	pushes   *http.Client // to what browsers say
	river    *river.Client[pgx.Tx]
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Box == nil || cfg.Identity == nil || cfg.Logger == nil || cfg.Now == nil ||
		cfg.PublicURL == "" || cfg.Waiting == nil {
		return nil, errors.New("make notifications: Pool, Box, Identity, Logger, Now, PublicURL and Waiting are required")
	}
	if cfg.Gap == 0 {
		cfg.Gap = Gap
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	s := &Service{Config: cfg}
	s.wants = registry.NewMemory[struct{}](registry.Config[wants]{Now: cfg.Now, TTL: registry.SafetyNet})
	s.vapid = registry.NewMemory[struct{}](registry.Config[vapid]{Now: cfg.Now, TTL: vapidTTL})
	s.webhooks = receiver.NewClient(cfg.TrustedHosts, cfg.Timeout, cfg.TLS)
	s.pushes = receiver.NewClient(cfg.PushHosts, cfg.Timeout, cfg.TLS)
	return s, nil
}

// Start gives the service the client that inserts its jobs.
func (s *Service) Start(client *river.Client[pgx.Tx]) { s.river = client }

// Invalidate drops what is remembered. It is called on every notice of [registry.Channel].
func (s *Service) Invalidate() { s.wants.Drop() }

// Close ends what runs in the background.
func (s *Service) Close() {
	s.wants.Close()
	s.vapid.Close()
	s.webhooks.CloseIdleConnections()
	s.pushes.CloseIdleConnections()
}
