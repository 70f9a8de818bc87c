// Package call owns the life of calls: it takes them in, validates and judges
// them, parks or sends them, moves them on when they are decided about, claims, executes and finishes
// them, and wakes whoever waits. It owns the tables calls, call_connections, call_resources, call_questions and instances,
// the tables that say where open calls are (call_counting and call_stragglers), and the River jobs that execute, expire, escalate
// and resume. The queue that reviewers decide on is package approval's, moved here in the same transactions. Counting calls is
// package figures'.
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

	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Channel is where finished calls are announced with NOTIFY; the payload is the call's id.
const Channel = "holdpoint_calls"

// DefaultSkillConcurrency bounds approved calls in flight per skill and process.
const DefaultSkillConcurrency = 64

// Config is what a [Service] is made of. All fields without a default are required.
type Config struct {
	Pool      *pgxpool.Pool
	Agents    *agent.Service
	Discovery *tool.Discovery
	Logger    *slog.Logger
	Now       func() time.Time // times retries and this process's own pulse, nothing that decides

	// Instance identifies this process; its claims carry it. It must be new
	// with every start.
	Instance uuid.UUID

	// AllowSelfApproval lets a person decide calls made on their own behalf.
	AllowSelfApproval bool

	// Reconnected is told that a skill was connected, before the calls go on that waited for it.
	Reconnected func(ctx context.Context, skillID uuid.UUID) error

	// Reviewable reports whether there is anybody else than a principal (uuid.Nil: none) who may decide about calls. It
	// is asked for every parked call. Nil: there always is.
	Reviewable func(ctx context.Context, principal, agentID uuid.UUID) (bool, error)

	// Attend is told, in the transaction that makes it so, of approvals that people are to look at. Nil: nobody is told.
	Attend func(ctx context.Context, tx pgx.Tx, list []Attention) error

	// Publish has others told of what becomes of calls. Nil: nobody is told.
	Publish Publish

	// CancelCarried is asked to cancel what carries a call; see [Service.Carry]. Nil: nothing carries any.
	CancelCarried func(ctx context.Context, c *Call) error

	// IdempotencyTTL is for how long a repeat with the same idempotency key gets the call that was made with
	// it. Zero: [DefaultIdempotencyTTL].
	IdempotencyTTL time.Duration
	// Files are what agents attach. Nil: nothing is, and arguments go as they are.
	Files *file.Service

	// Traces makes the spans of calls and waits. Nil: none are recorded.
	Traces *telemetry.Tracer

	// Restored makes approved and executing calls unknown at the start: the database may have forgotten that they
	// were sent.
	Restored bool

	// SkillConcurrency bounds the approved calls in flight per skill, so that
	// one hung server does not take all workers. Zero: [DefaultSkillConcurrency].
	SkillConcurrency int
}

// Service is the life of calls. Start it before use.
type Service struct {
	Config
	river       *river.Client[pgx.Tx]
	hub         *hub
	flights     *flights
	transitions map[event]*transition
	counts      pendingCounts
	relays      *relays
	gates       *gates
	schemas     *schemaCache
	before      *registry.Memory[uuid.UUID, stateBefore]
	direct      *batcher[intakeItem]
	gated       *batcher[intakeItem]
	outcomes    *batcher[move]
	searches    chan struct{} // those under way that scan
	metrics     metrics
	pulse       pulse
	doubt       chan struct{} // see [Service.hurry]
	// vital is the connections of heartbeat and recovery: they go on while all others are taken or dead.
	vital *pgxpool.Pool

	background sync.WaitGroup // executions and loops
	stop       context.CancelFunc
	running    context.Context
}

// New makes a service. It does nothing before [Service.Start].
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
	s := &Service{
		Config:      cfg,
		flights:     newFlights(),
		transitions: newTransitions(),
		counts:      pendingCounts{agents: map[uuid.UUID]pendingCount{}},
		relays:      newRelays(),
		gates:       newGates(cfg.SkillConcurrency),
		schemas:     newSchemaCache(),
		before:      beforeMemory(cfg.Now),
		pulse:       pulse{last: cfg.Now(), peers: map[uuid.UUID]peer{}},
		doubt:       make(chan struct{}, 1),
		searches:    make(chan struct{}, searchAtOnce),
	}
	s.hub, s.metrics = newHub(), newMetrics(s.flights)
	return s, nil
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &executeWorker{service: s})
	river.AddWorker(workers, &expireWorker{service: s})
	river.AddWorker(workers, &resumeWorker{service: s})
	river.AddWorker(workers, &escalateWorker{service: s})
}

// Start begins the heartbeat and the loops. The River client inserts this
// package's jobs; it may be started before or after.
func (s *Service) Start(ctx context.Context, client *river.Client[pgx.Tx]) error {
	s.river = client
	s.running, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.openVital(ctx); err != nil {
		return err
	}
	err := s.beat(ctx)
	if err == nil && s.Restored {
		err = s.abandonRestored(ctx)
	}
	if err != nil {
		s.vital.Close()
		return err
	}
	s.direct = newBatcher(s.running, s.intakeConfig())
	s.gated = newBatcher(s.running, s.intakeConfig())
	s.outcomes = newBatcher(s.running, s.outcomesConfig())
	s.background.Go(s.keepBeating)
	s.background.Go(s.keepRecovering)
	s.background.Go(s.pollWaiting)
	s.background.Go(s.pollConnections)
	return nil
}

const (
	// vitalConns is one connection for heartbeats and claims, one for recovery, and the places of dead ones: a connection that was
	// given up keeps its place for some seconds.
	vitalConns = 8
	// vitalPing is short, since the heartbeat must get past dead connections within its limit.
	vitalPing = time.Second
)

func (s *Service) openVital(ctx context.Context) (err error) {
	config := s.Pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = vitalConns, 0, 0
	config.PingTimeout = vitalPing
	if s.vital, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return fmt.Errorf("open connections for the heartbeat: %w", err)
	}
	return nil
}

// Stop lets the calls in flight finish until ctx ends, and says farewell: a process
// that leaves nothing in flight has its instance removed. Whoever still waits must have
// been let go of before.
func (s *Service) Stop(ctx context.Context) error {
	idle := s.flights.wait(ctx)
	if !idle {
		s.Logger.Warn("stopping with calls in flight; another process will mark them unknown", "calls", s.flights.count())
	}
	s.stop()
	s.before.Close()
	if idle {
		s.direct.close()
		s.gated.close()
		s.outcomes.close()
	}
	s.background.Wait()
	defer s.vital.Close()
	if !idle {
		return nil
	}
	// Only now: a heartbeat that is under way would bring the instance back.
	if _, err := s.vital.Exec(ctx, `DELETE FROM instances WHERE id = $1`, s.Instance); err != nil {
		return fmt.Errorf("remove instance %s: %w", s.Instance, err)
	}
	return nil
}

// HandleNotification takes what arrives on [Channel].
func (s *Service) HandleNotification(payload string) {
	id, err := uuid.Parse(payload)
	if err != nil {
		s.Logger.Warn("notification is not a call id", "channel", Channel, "error", err)
		return
	}
	s.hub.wake(id, nil)
}

// CatchUp looks for outcomes whose notification may have been missed, after
// the listening connection was re-established.
func (s *Service) CatchUp() {
	s.hub.requestPoll()
}

// retryDelay is the pause between attempts to write what must be written.
const retryDelay = 250 * time.Millisecond
