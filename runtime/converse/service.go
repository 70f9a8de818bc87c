// Package converse owns the built-in model loop: conversations that Holdpoint runs itself. It asks the model, makes the calls
// that the model wants and gives it the results. While calls wait for people, nothing runs; the state is in the database. The
// package owns the tables loops, loop_entries, loop_calls, loop_inbox and loop_drafts, and the River job of a turn. It does not
// own calls (package call), catalogs (package catalog) or models (package model).
package converse

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// Channel is the channel of NOTIFY. The payload is the id of a conversation that changed; an empty payload says that some turn
// is due.
const Channel postgres.Channel = "holdpoint_converse"

// JobQueue is the River queue of turns.
const JobQueue = "converse"

// JobWorkers is the number of turns that one process runs at a time. Most of them wait for models.
const JobWorkers = 200

// The defaults of [Config].
const (
	DefaultMaxDepth    = 5
	DefaultResultBytes = 16 << 10
	DefaultTurnTime    = 30 * time.Minute
)

// Config configures a [Service]. All fields without a default are required.
type Config struct {
	Pool     *pgxpool.Pool
	Agents   *agent.Service
	Catalog  *catalog.Service
	Calls    *call.Service
	Logger   *slog.Logger
	Now      func() time.Time // times retries only
	Instance uuid.UUID        // the same as the call service's
	// Provider returns the provider of an agent's model. The provider retries requests that may succeed later.
	Provider func(agent.ModelSpec) (model.Provider, error)
	// Blocked reports whether an operator blocked a person. Runs on behalf of a blocked person end. Nil: no person is blocked.
	Blocked func(ctx context.Context, principal uuid.UUID) (bool, error)
	// Files reads attached files. Nil: there are none.
	Files *file.Service
	// Traces makes the spans. Nil: none are recorded.
	Traces *telemetry.Tracer
	// MaxDepth bounds how many agents may ask each other in a chain. Zero: [DefaultMaxDepth].
	MaxDepth int
	// ResultBytes is the page size of results for the model. Zero: [DefaultResultBytes].
	ResultBytes int
	// TurnTime bounds a turn, including slow models and the pauses between retries. Zero: [DefaultTurnTime].
	TurnTime time.Duration
}

// Service runs conversations. Start it before use.
type Service struct {
	Config
	store     store
	record    *recorder
	scheduler *scheduler
	hub       *hub
	turns     *runningTurns
	looping   *agentMemory
	river     *river.Client[pgx.Tx]
	stop      context.CancelFunc
	running   context.Context
	asking    context.Context // of requests to models; cancelled before running
	stopAsks  context.CancelFunc

	background sync.WaitGroup
}

// New makes a service. It does nothing before [Service.Start].
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Agents == nil || cfg.Catalog == nil || cfg.Calls == nil || cfg.Logger == nil || cfg.Now == nil ||
		cfg.Instance == uuid.Nil || cfg.Provider == nil {
		return nil, errors.New("make converse service: Pool, Agents, Catalog, Calls, Logger, Now, Instance and Provider are required")
	}
	if cfg.Traces == nil {
		cfg.Traces = telemetry.Off()
	}
	if cfg.MaxDepth == 0 {
		cfg.MaxDepth = DefaultMaxDepth
	}
	if cfg.ResultBytes == 0 {
		cfg.ResultBytes = DefaultResultBytes
	}
	if cfg.TurnTime == 0 {
		cfg.TurnTime = DefaultTurnTime
	}
	s := &Service{
		Config: cfg, store: store{cfg.Pool}, record: &recorder{cfg, newMetrics()},
		hub:     &hub{followers: map[uuid.UUID]map[chan struct{}]struct{}{}, news: map[*News]struct{}{}},
		turns:   &runningTurns{open: map[uuid.UUID]*runningTurn{}},
		looping: newAgentMemory(cfg),
	}
	s.scheduler = &scheduler{Service: s, wake: make(chan struct{}, 1)}
	s.asking, s.stopAsks = context.WithCancel(context.Background())
	return s, nil
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &turnWorker{service: s})
}

// Start starts scheduling turns.
func (s *Service) Start(ctx context.Context, client *river.Client[pgx.Tx]) {
	s.river = client
	s.running, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.background.Go(s.scheduler.keepEnqueueing)
	s.background.Go(s.scheduler.keepLeases)
}

// Drain breaks off requests to models. Another process, or this one after a restart, makes them again.
func (s *Service) Drain() { s.stopAsks() }

// Close stops background work, after the job queue has stopped.
func (s *Service) Close() {
	s.stopAsks()
	if s.stop != nil {
		s.stop()
	}
	s.background.Wait()
	s.looping.memory.Close()
}

// HandleNotification handles a notification on [Channel].
func (s *Service) HandleNotification(payload string) {
	if payload == "" {
		s.scheduler.wakeUp()
		return
	}
	if s.looping.handlePayload(payload) {
		return
	}
	id, err := uuid.Parse(payload)
	if err != nil {
		s.Logger.Warn("notification is not a conversation's id", "channel", Channel, "error", err)
		return
	}
	s.hub.notifyFollowers(id)
	if s.turns.isRunning(id) {
		s.background.Go(func() { s.haltIfStopped(id) })
	}
}

// CatchUp finds changes that were missed while the listening connection was down.
func (s *Service) CatchUp() {
	s.looping.memory.Drop()
	s.hub.notifyAll()
	s.scheduler.wakeUp()
}
