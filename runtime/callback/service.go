// Package callback owns callbacks: signed webhooks that report an agent's calls to other systems. It owns their addresses and
// secrets, the pending messages, and the log of deliveries (tables callbacks, callback_secrets, callback_deliveries,
// callback_attempts). It does not own calls, or notifications of reviewers (package notify).
//
// The transaction that changes a call also inserts a message for each callback of its agent ([Service.Publish]). A process
// then gives the message a River job, which sends it until the receiver accepts it, for about a day. After the commit, a
// message is delivered at least once. Messages are signed as Standard Webhooks specifies
// (https://github.com/standard-webhooks/standard-webhooks).
package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const (
	// JobQueue is the River queue of this package's jobs. It is separate, so that slow receivers do not delay other jobs.
	JobQueue = "callbacks"
	// JobWorkers is how many of its jobs a process runs at once.
	JobWorkers = 40
	// Channel is the PostgreSQL notification channel that announces new messages. It has no payload.
	Channel postgres.Channel = "holdpoint_callbacks"
	// maxInFlight is how many requests a process sends to one callback at once.
	maxInFlight = 8
	// defaultTimeout bounds a request, as the specification recommends.
	defaultTimeout = 15 * time.Second
)

// Errors of this package.
var (
	// ErrNotFound: there is no such callback or message.
	ErrNotFound = fault.NotFound("not found")
	// ErrDisabled: nothing is sent to a disabled callback.
	ErrDisabled = errors.New("the callback is disabled")
)

// Config configures a [Service]. Fields without a default are required.
type Config struct {
	Pool   *pgxpool.Pool
	Box    *secret.Box
	Logger *slog.Logger
	Now    func() time.Time // for signatures and caches; all else goes by the database's clock

	// TrustedHosts ("host" or "host:port") may be reached without https and on private addresses.
	TrustedHosts []string
	// Keep is how long the log has delivered and failed messages. Zero: 30 days.
	Keep time.Duration
	// Timeout bounds each request to a receiver. Zero: 15 s.
	Timeout time.Duration
	// TLS configures connections to receivers. Nil: Go's defaults.
	TLS *tls.Config
}

// Service sends callbacks. It is safe for concurrent use.
type Service struct {
	Config
	listening *registry.Memory[struct{}, map[uuid.UUID]bool] // the agents that have callbacks
	client    *http.Client
	river     *river.Client[pgx.Tx]
	wake      chan struct{}

	mu   sync.Mutex
	busy map[uuid.UUID]int // requests in flight, by callback

	background sync.WaitGroup
	stop       context.CancelFunc
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Box == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("make callbacks: Pool, Box, Logger and Now are required")
	}
	if cfg.Keep == 0 {
		cfg.Keep = lifetime.DefaultDeliveries
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Service{
		Config:    cfg,
		listening: registry.NewMemory[struct{}](registry.Config[map[uuid.UUID]bool]{Now: cfg.Now, TTL: registry.SafetyNet}),
		client:    receiver.NewClient(cfg.TrustedHosts, cfg.Timeout, cfg.TLS),
		wake:      make(chan struct{}, 1),
		busy:      map[uuid.UUID]int{},
	}, nil
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &deliverWorker{service: s})
}

// Start begins to insert jobs with the client.
func (s *Service) Start(ctx context.Context, client *river.Client[pgx.Tx]) {
	s.river = client
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.background.Go(func() { s.runEnqueueing(ctx) })
}

// HandleNotification looks for new messages. Call it on every notification of [Channel], and when notifications may have been
// missed.
func (s *Service) HandleNotification() {
	select {
	case s.wake <- struct{}{}:
	default: // a look is pending
	}
}

// Invalidate drops the cache. Call it on every notification of [registry.Channel].
func (s *Service) Invalidate() { s.listening.Drop() }

// Close stops what runs in the background, also if [Service.Start] was not called.
func (s *Service) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.background.Wait()
	s.listening.Close()
	s.client.CloseIdleConnections()
}

// Reseal encrypts again all values that are not encrypted with the primary key of the keyset, and returns their number.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	total := 0
	// In a fixed order, so that two concurrent calls do not deadlock.
	for _, sealed := range []struct{ table, purpose string }{{"callbacks", callbackPurpose}, {"callback_secrets", secretPurpose}} {
		n, err := s.Box.Reseal(ctx, tx, sealed.table, sealed.purpose)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
