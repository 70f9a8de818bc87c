// Package call owns the life of calls: it validates and admits them, parks or sends them, records decisions, claims and executes
// approved calls, stores their outcomes, and wakes their waiters. It owns the tables calls, call_connections, call_resources,
// call_questions and instances, the index of open calls (call_counting and call_stragglers), and the River jobs that execute,
// escalate and resume calls. Package approval owns the reviewers' queue, which this package moves in the same transactions.
// Package figures counts calls, and package history finds them.
//
// To read it top-down: submit.go, admit.go and intake.go (a call comes in), parking.go and decide.go (a reviewer decides), execute.go
// and send.go (it is sent, and its outcome is stored), transition.go and move.go (every change of a status). "The walk of a gated
// call" in docs/design.md lists the functions in order.
package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/batcher"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Channel is the NOTIFY channel that announces moves of calls. The payload is the call's id.
const Channel postgres.Channel = "holdpoint_calls"

// DefaultSkillConcurrency is the default of [Config.SkillConcurrency].
const DefaultSkillConcurrency = 64

// Config configures a [Service]. All fields without a default are required.
type Config struct {
	Pool *pgxpool.Pool
	// Reader reads the calls of [Service.ListCallsFrom] and the history of calls. Nil: it has no standby.
	Reader *postgres.Reader
	// Vital configures the connections of heartbeat and recovery. Nil: as Pool.
	Vital *pgxpool.Config
	// Timeline returns the database's timeline, which changes when it may have lost commits. Nil: it never does.
	Timeline  func() postgres.Timeline
	Agents    *agent.Service
	Discovery *tool.Discovery
	Logger    *slog.Logger
	Now       func() time.Time // for retries and heartbeats; decisions use the database's clock

	// Instance identifies this process in its claims. Each start needs a new one.
	Instance uuid.UUID

	// AllowSelfApproval lets people decide calls made on their own behalf.
	AllowSelfApproval bool

	// Reconnected is called after a skill was connected, before its waiting calls resume. Nil: nothing is called.
	Reconnected func(ctx context.Context, skillID uuid.UUID) error

	// ListDeciders returns the people who may decide a call, by its principal, agent, skill and teams. Without policies, one of them is enough.
	// It is called for every parked call. Nil: somebody always may.
	ListDeciders func(ctx context.Context, a *approval.Approval) ([]uuid.UUID, error)

	// Attend notifies people of approvals, in the transaction that changes them. Nil: no notifications.
	Attend func(ctx context.Context, tx pgx.Tx, list []Attention) error

	// Publish stores callbacks. Nil: there are none.
	Publish Publish

	// CancelCarried cancels the work behind a carried call; see [Service.Carry]. Nil: carried calls are not canceled.
	CancelCarried func(ctx context.Context, c *Call) error

	// IdempotencyTTL is how long a repeat with the same idempotency key attaches to the first call. Zero:
	// [DefaultIdempotencyTTL].
	IdempotencyTTL time.Duration
	// Files stores the files that agents attach. Nil: attachments are not resolved.
	Files *file.Service

	// Traces writes the spans of calls and waits. Nil: there are none.
	Traces *telemetry.Tracer

	// Restored marks calls that may have been sent as unknown at the start, because the database was restored. [Service.Start] finds that out
	// by itself except for copies of the server's files that have no new timeline.
	Restored bool
	// StopWork stops what makes calls by itself, in the transaction that marks the calls of a restored database. Nil: there is nothing.
	StopWork func(ctx context.Context, tx pgx.Tx) error

	// AsyncOutcomes answers an auto-approved call before its outcome is on disk (synchronous_commit = off). After a crash of the database
	// server, the calls of its last second may be unknown. Gated calls, and calls with an idempotency key, are not affected.
	AsyncOutcomes bool

	// SkillConcurrency bounds the approved calls in flight for each skill and process, so that one server that hangs
	// does not take all workers. Zero: [DefaultSkillConcurrency].
	SkillConcurrency int
}

// Service moves calls through their life. Start it before use.
type Service struct {
	Config
	river       *river.Client[pgx.Tx]
	hub         *hub
	flights     *flights
	transitions map[event]*transition
	counts      pendingCounts
	relays      sync.Map // the relays of the calls that this process is sending, by id
	gates       *gates
	waking      chan struct{} // a place for each waiter that uses the database after it was woken
	dispatches  chan struct{} // a place for each call that this process sends after its decision
	replays     chan struct{} // the place of the one replay at a time
	schemas     *schemaCache
	histories   histories
	before      *registry.Memory[uuid.UUID, stateBefore]
	suggestions *registry.Memory[struct{}, Suggestions]
	direct      *batcher.Batcher[intakeItem]
	gated       *batcher.Batcher[intakeItem]
	counted     *batcher.Batcher[intakeItem] // of calls with an open verdict
	remembering chan struct{}                // a place for each transaction that waits for the locks of [lockMemory] to claim a call
	outcomes    *batcher.Batcher[move]
	metrics     metrics
	pulse       pulse
	lineage     lineage
	recoverNow  chan struct{} // wakes keepRecovering
	// vital has the connections of heartbeat and recovery, which continue while all others are in use or dead.
	vital *pgxpool.Pool

	background sync.WaitGroup // executions and loops
	stop       context.CancelFunc
	running    context.Context

	stopDispatching context.CancelFunc
	dispatching     context.Context
}

// New makes a service. It does nothing until [Service.Start].
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Agents == nil || cfg.Discovery == nil || cfg.Logger == nil || cfg.Now == nil || cfg.Instance == uuid.Nil {
		return nil, errors.New("make call service: Pool, Agents, Discovery, Logger, Now and Instance are required")
	}
	if cfg.SkillConcurrency == 0 {
		cfg.SkillConcurrency = DefaultSkillConcurrency
	}
	if cfg.IdempotencyTTL == 0 {
		cfg.IdempotencyTTL = DefaultIdempotencyTTL
	}
	if cfg.Traces == nil {
		cfg.Traces = telemetry.Off()
	}
	if cfg.Reader == nil {
		cfg.Reader = postgres.NewReader(cfg.Pool)
	}
	if cfg.Timeline == nil {
		cfg.Timeline = func() postgres.Timeline { return 0 }
	}
	s := &Service{
		Config:      cfg,
		flights:     newFlights(),
		transitions: newTransitions(),
		counts:      pendingCounts{agents: map[uuid.UUID]pendingCount{}},
		gates:       newGates(cfg.SkillConcurrency),
		waking:      make(chan struct{}, max(cfg.Pool.Config().MaxConns/4, 1)),
		dispatches:  make(chan struct{}, maxDispatches),
		replays:     make(chan struct{}, 1),
		remembering: make(chan struct{}, maxRemembering),
		schemas:     newSchemaCache(),
		before:      beforeMemory(cfg.Now),
		suggestions: suggestMemory(cfg.Now),
		pulse:       pulse{last: cfg.Now(), peers: map[uuid.UUID]peer{}},
		recoverNow:  make(chan struct{}, 1),
	}
	s.hub, s.metrics = newHub(), newMetrics(s.flights)
	return s, nil
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &executeWorker{service: s})
	river.AddWorker(workers, &expireWorker{service: s})
	river.AddWorker(workers, &resumeWorker{service: s})
	river.AddWorker(workers, &escalationWorker{service: s})
	river.AddWorker(workers, &escalateWorker{service: s})
}

// Start starts the heartbeat and the background loops. The River client inserts this package's jobs; it may be started
// before or after.
func (s *Service) Start(ctx context.Context, client *river.Client[pgx.Tx]) error {
	s.river = client
	s.running, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.dispatching, s.stopDispatching = context.WithCancel(s.running)
	config := s.Vital
	if config == nil {
		config = s.Pool.Config()
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = vitalConns, 0, 0
	config.PingTimeout = vitalPing
	var err error
	if s.vital, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return fmt.Errorf("open connections for the heartbeat: %w", err)
	}
	s.lineage.begin(s.Timeline())
	err = postgres.RetryFull(ctx, s.Logger, func() error { return s.writeHeartbeat(ctx) })
	if err == nil && s.Timeline() <= firstTimeline { // else once no other instance may have lived through the promotion
		err = s.checkMark(ctx, s.Timeline())
	}
	if err == nil && s.Restored {
		err = s.abandonRestored(ctx)
	}
	if err != nil {
		s.stop()
		s.vital.Close()
		return err
	}
	s.direct = batcher.New(s.running, s.intakeConfig())
	s.gated = batcher.New(s.running, s.intakeConfig())
	s.counted = batcher.New(s.running, s.intakeConfig())
	s.outcomes = batcher.New(s.running, s.outcomesConfig())
	s.background.Go(s.keepBeating)
	s.background.Go(s.keepRecovering)
	s.background.Go(s.keepExpiring)
	s.background.Go(s.pollWaiting)
	s.background.Go(s.pollConnections)
	return nil
}

const (
	// vitalConns is one connection for heartbeats and claims, one for recovery, and a reserve: an abandoned connection keeps
	// its place in the pool for some seconds.
	vitalConns = 8
	// vitalPing is short, so that a heartbeat can try several dead connections within its timeout.
	vitalPing = time.Second
)

// Stop waits until the calls in flight have finished or ctx ends. If none is left, it removes this instance. The caller ends all
// [Service.Wait] calls first.
func (s *Service) Stop(ctx context.Context) error {
	s.StopDispatching()
	idle := s.flights.wait(ctx)
	if !idle {
		s.Logger.Warn("stopping with calls in flight; another process takes them over, and those that may have been sent become unknown", "calls", s.flights.count())
	}
	s.stop()
	s.before.Close()
	s.suggestions.Close()
	if idle {
		s.direct.Close()
		s.gated.Close()
		s.counted.Close()
		s.outcomes.Close()
	}
	s.background.Wait()
	defer s.vital.Close()
	if !idle {
		return nil
	}
	// After background has ended, no heartbeat inserts the instance again.
	if _, err := s.vital.Exec(ctx, `DELETE FROM instances WHERE id = $1`, s.Instance); err != nil {
		return fmt.Errorf("remove instance %s: %w", s.Instance, err)
	}
	return nil
}

// HandleNotification handles a notification on [Channel].
func (s *Service) HandleNotification(payload string) {
	id, err := uuid.Parse(payload)
	if err != nil {
		s.Logger.Warn("notification is not a call id", "channel", Channel, "error", err)
		return
	}
	s.hub.wake(id, nil)
}

// CatchUp polls for outcomes whose notification may have been missed. It is called when the listening connection is back.
func (s *Service) CatchUp() {
	select {
	case s.hub.poll <- struct{}{}:
	default: // one is requested already
	}
}

// retryDelay is the pause between two attempts of a write that must succeed.
const retryDelay = 250 * time.Millisecond
