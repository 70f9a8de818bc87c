package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// JobQueue is the River queue of this package's jobs. It is separate, so that slow receivers do not delay other jobs.
const JobQueue = "notify"

const (
	// Gap is the minimum time between two messages to one target.
	Gap = 5 * time.Second
	// vapidTTL is how long the key for push messages is cached. The key never changes.
	vapidTTL = 10 * time.Minute
	// defaultTimeout bounds a request to a receiver.
	defaultTimeout = 10 * time.Second
)

// ErrNotFound says that there is no such webhook or subscription, or that it is another person's.
var ErrNotFound = fault.NotFound("not found")

// Config configures a [Service]. Fields without a default are required.
type Config struct {
	Pool     *pgxpool.Pool
	Box      *secret.Box
	Identity *identity.Service
	Logger   *slog.Logger
	Now      func() time.Time // for caches and texts; all else goes by the database's clock

	// PublicURL is the dashboard's address, for links in messages.
	PublicURL string
	// TrustedHosts may receive webhooks without https and on private addresses: "host" or "host:port".
	TrustedHosts []string
	// PushHosts ("host" or "host:port") may be push services on private addresses. They are separate from TrustedHosts,
	// because a browser names its push service. For tests.
	PushHosts []string
	// AllowSelfApproval: principals may decide their own calls, and so are notified of them.
	AllowSelfApproval bool

	// Waiting returns those of the calls that wait for a decision, and those that one person approved alone and nobody has reviewed.
	Waiting func(ctx context.Context, calls []uuid.UUID) (pending, unreviewed []uuid.UUID, err error)

	// Gap is the minimum time between two messages to one target. Zero: [Gap].
	Gap time.Duration
	// Timeout bounds each request to a receiver. Zero: 10 s.
	Timeout time.Duration
	// TLS configures connections to receivers. Nil: Go's defaults.
	TLS *tls.Config
}

// Service notifies people of pending calls. It is safe for concurrent use.
type Service struct {
	Config
	wants    *registry.Memory[struct{}, subscriptions]
	vapid    *registry.Memory[struct{}, vapidKeys]
	webhooks *http.Client // for operators' URLs
	pushes   *http.Client // for URLs from browsers
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
	s.wants = registry.NewMemory[struct{}](registry.Config[subscriptions]{Now: cfg.Now, TTL: registry.SafetyNet})
	s.vapid = registry.NewMemory[struct{}](registry.Config[vapidKeys]{Now: cfg.Now, TTL: vapidTTL})
	s.webhooks = receiver.NewClient(cfg.TrustedHosts, cfg.Timeout, cfg.TLS)
	s.pushes = receiver.NewClient(cfg.PushHosts, cfg.Timeout, cfg.TLS)
	return s, nil
}

// Start gives the service the client that inserts its jobs.
func (s *Service) Start(client *river.Client[pgx.Tx]) { s.river = client }

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &spreadWorker{service: s})
	river.AddWorker(workers, &deliverWorker{service: s})
}

// Invalidate drops the cached subscriptions. Call it on every notification of [registry.Channel].
func (s *Service) Invalidate() { s.wants.Drop() }

// Close stops the background work.
func (s *Service) Close() {
	s.wants.Close()
	s.vapid.Close()
	s.webhooks.CloseIdleConnections()
	s.pushes.CloseIdleConnections()
}

// Reseal encrypts again all values that are not encrypted with the primary key of the keyset, and returns their number.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	total := 0
	for _, c := range []struct{ table, purpose string }{
		{"webhooks", webhookPurpose}, {"push_keys", pushKeyPurpose}, {"push_subscriptions", subscriptionPurpose},
	} {
		n, err := s.Box.Reseal(ctx, tx, c.table, c.purpose)
		if err != nil {
			return 0, fmt.Errorf("reseal notifications: %w", err)
		}
		total += n
	}
	return total, nil
}
