// Package callback owns how other systems are told, by signed webhooks, what becomes of an agent's calls: where to,
// the secrets that sign, what is still to be sent, and the log of what was (the tables callbacks, callback_secrets,
// callback_deliveries, callback_attempts). It does not own what a call is, nor how people are told of calls that wait:
// package notify does.
//
// The way of a message: the transaction that changes a call also writes a row for each callback of its agent
// ([Service.Publish]). Whichever process looks first gives the row a River job, which sends it until it is taken,
// for about a day. From the commit on it is sent at least once. Messages are signed as the Standard Webhooks
// specification says (https://github.com/standard-webhooks/standard-webhooks).
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

	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const (
	// JobQueue is the name of the River queue of this package's jobs: receivers that hang hold up no others.
	JobQueue = "callbacks"
	// JobWorkers is how many jobs of it a process works on at once.
	JobWorkers = 40
	// Channel is the PostgreSQL notification channel that tells of new messages. It has no payload.
	Channel = "holdpoint_callbacks"
	// atOnce is how many requests a process has under way to one callback.
	atOnce = 8
	// defaultTimeout bounds a request, as the specification recommends.
	defaultTimeout = 15 * time.Second
)

// Config is what a [Service] is made of. Fields without a default are required.
type Config struct {
	Pool   *pgxpool.Pool
	Box    *secret.Box
	Logger *slog.Logger
	Now    func() time.Time // signs, and times what is remembered; all else goes by the database

	// TrustedHosts, "host" or "host:port", may be reached without https and on private addresses.
	TrustedHosts []string
	// Timeout bounds each request to a receiver. Zero: 15 s.
	Timeout time.Duration
	// TLS is used to reach receivers. Nil: Go's defaults.
	TLS *tls.Config
}

// Service tells other systems of calls. It is safe for concurrent use.
type Service struct {
	Config
	listening *registry.Memory[struct{}, map[uuid.UUID]bool] // the agents that have callbacks
	client    *http.Client
	river     *river.Client[pgx.Tx]
	wake      chan struct{}

	mu   sync.Mutex
	busy map[uuid.UUID]int // requests under way, by callback

	background sync.WaitGroup
	stop       context.CancelFunc
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Box == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("make callbacks: Pool, Box, Logger and Now are required")
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

// Start begins to give messages their jobs, which the client inserts.
func (s *Service) Start(ctx context.Context, client *river.Client[pgx.Tx]) {
	s.river = client
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.background.Go(func() { s.keepEnqueueing(ctx) })
}

// HandleNotification takes what arrives on [Channel]. It is also called when notifications may have been missed.
func (s *Service) HandleNotification() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Invalidate drops what is remembered. It is called on every notice of [registry.Channel].
func (s *Service) Invalidate() { s.listening.Drop() }

// Close ends what runs in the background, started or not.
func (s *Service) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.background.Wait()
	s.listening.Close()
	s.client.CloseIdleConnections()
}

// enter takes one of the places for requests to a callback. It reports false when all are taken.
func (s *Service) enter(callback uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[callback] >= atOnce {
		return false
	}
	s.busy[callback]++
	return true
}

func (s *Service) leave(callback uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[callback]--; s.busy[callback] == 0 {
		delete(s.busy, callback)
	}
}
