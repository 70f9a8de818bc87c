// Package converse owns the built-in model loop: conversations that Holdpoint runs itself. It asks the model, has the calls made
// that the model wants, tells it what became of them, and lies down in the database while people think. It
// owns the tables loops, loop_entries, loop_calls, loop_inbox and loop_drafts, and the River job of a turn. Calls are package
// call's, conversations and their catalogs package catalog's, models package model's.
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

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// Channel is where it is announced with NOTIFY that something happened in a conversation, whose id is the payload, or, with an empty
// one, that a turn is due in some conversation.
const Channel = "holdpoint_converse"

// JobQueue is the River queue of turns.
const JobQueue = "converse"

// JobWorkers is how many turns one process runs at a time. They wait for models, mostly.
const JobWorkers = 200

// The defaults of [Config].
const (
	DefaultMaxDepth    = 5
	DefaultResultBytes = 16 << 10
	DefaultTurnTime    = 30 * time.Minute
)

// Config is what a [Service] is made of. All fields without a default are required.
type Config struct {
	Pool     *pgxpool.Pool
	Agents   *agent.Service
	Catalog  *catalog.Service
	Calls    *call.Service
	Logger   *slog.Logger
	Now      func() time.Time // times retries, nothing that decides
	Instance uuid.UUID        // as the call service has it
	// Provider finds who is asked for an agent's model. It repeats requests that may succeed later.
	Provider func(agent.ModelSpec) (model.Provider, error)
	// Blocked reports whether an operator blocked a person: then nothing goes on that is done on their behalf. Nil: nobody is.
	Blocked func(ctx context.Context, principal uuid.UUID) (bool, error)
	// Files are what agents attach to what they ask. Nil: nothing is.
	Files *file.Service
	// Traces makes the spans. Nil: none are recorded.
	Traces *telemetry.Tracer
	// MaxDepth is how many agents may ask each other in a row. Zero: [DefaultMaxDepth].
	MaxDepth int
	// ResultBytes is how much of one call's result the model is shown at a time. Zero: [DefaultResultBytes].
	ResultBytes int
	// TurnTime bounds a turn: models that think for long, with the pauses between requests that failed. Zero: [DefaultTurnTime].
	TurnTime time.Duration
}

// Service runs conversations. Start it before use.
type Service struct {
	Config
	metrics  metrics
	river    *river.Client[pgx.Tx]
	hub      *hub
	turns    *turns
	looping  *looping
	wake     chan struct{}
	checked  uuid.UUID // up to which call it was looked for those that ended unnoticed
	stop     context.CancelFunc
	running  context.Context
	asking   context.Context // of requests to models: ends first
	stopAsks context.CancelFunc

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
	s := &Service{Config: cfg, metrics: newMetrics(), hub: newHub(), turns: newTurns(), looping: newLooping(cfg), wake: make(chan struct{}, 1)}
	s.asking, s.stopAsks = context.WithCancel(context.Background())
	return s, nil
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &turnWorker{service: s})
}

// Start begins to give turns their jobs.
func (s *Service) Start(ctx context.Context, client *river.Client[pgx.Tx]) {
	s.river = client
	s.running, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.background.Go(s.keepEnqueueing)
	s.background.Go(s.keepLeases)
}

// Drain breaks off the requests to models: another process, or the next start, makes them again.
func (s *Service) Drain() { s.stopAsks() }

// Close ends what runs in the background, after the job queue has stopped.
func (s *Service) Close() {
	s.stopAsks()
	if s.stop != nil {
		s.stop()
	}
	s.background.Wait()
	s.looping.close()
}

// HandleNotification takes what arrives on [Channel].
func (s *Service) HandleNotification(payload string) {
	if payload == "" {
		s.wakeUp()
		return
	}
	if s.looping.heard(payload) {
		return
	}
	id, err := uuid.Parse(payload)
	if err != nil {
		s.Logger.Warn("notification is not a conversation's id", "channel", Channel, "error", err)
		return
	}
	s.hub.tell(id)
	if s.turns.has(id) {
		s.background.Go(func() { s.stopIfAsked(id) })
	}
}

// CatchUp looks for what may have been missed, after the listening connection was re-established.
func (s *Service) CatchUp() {
	s.looping.forget()
	s.hub.tellAll()
	s.wakeUp()
}

func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it was told already
	}
}
