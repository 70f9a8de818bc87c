// Package limit owns how much an agent's clients may ask for: calls a minute and at one time, counted together over
// all processes (the tables agent_rates and agent_slots). It does not own what the limits are, nor what counts.
//
// The rate is the generic cell rate algorithm (GCRA; ITU-T I.371, ATM Forum TM 4.1) by the database's clock: one time an
// agent says all. A slot belongs to the process that holds it, and goes with it when that falls silent. The tables are
// unlogged: after a crash of the database everybody begins anew.
package limit

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

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Limits of one agent. Zero: none.
type Limits struct {
	PerMinute   int
	Concurrency int
}

// minBurst is how many calls of an idle agent may come at once, however low its rate is, where the rate allows so many.
const minBurst = 5

// Burst is how many calls of an idle agent may come at once: a quarter of those of a minute, at least five where a minute
// has so many. In any one minute at most PerMinute and Burst calls pass.
func (l Limits) Burst() int { return min(l.PerMinute, max(minBurst, l.PerMinute/4)) }

// every is the time from one call to the next at the agent's rate.
func (l Limits) every() time.Duration { return time.Minute / time.Duration(l.PerMinute) }

// Kind is which of an agent's limits is reached.
type Kind string

// The kinds of limits.
const (
	Rate        Kind = "rate_limited"
	Concurrency Kind = "concurrency_limited"
)

// Exceeded is the error of a request that is too much.
type Exceeded struct {
	Kind  Kind
	Limit int
	// RetryAfter is when the next request may pass. With [Concurrency] nobody knows; it is a second.
	RetryAfter time.Duration
}

func (e *Exceeded) Error() string {
	if e.Kind == Rate {
		return fmt.Sprintf("this agent may make %d calls a minute", e.Limit)
	}
	return fmt.Sprintf("this agent may make %d calls at one time", e.Limit)
}

// Config is what a [Service] needs.
type Config struct {
	Pool     *pgxpool.Pool
	Instance uuid.UUID // of this process, whose heartbeat another package keeps
	Logger   *slog.Logger
}

// Service admits requests. It is safe for concurrent use.
type Service struct {
	Config

	mu      sync.Mutex
	turns   map[uuid.UUID]chan struct{} // by agent: taken by the request whose turn it is
	running context.Context             //nolint:containedctx // ends what is tried again in the background
	stop    context.CancelFunc
	late    sync.WaitGroup
}

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Logger == nil || cfg.Instance == uuid.Nil {
		return nil, errors.New("limit: Pool, Instance and Logger are required")
	}
	s := &Service{Config: cfg, turns: map[uuid.UUID]chan struct{}{}}
	s.running, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close ends what is tried again in the background.
func (s *Service) Close() {
	s.stop()
	s.late.Wait()
}

// Admit takes a request of an agent in, and returns what ends it. An agent without limits costs nothing. Errors: *Exceeded;
// any other means that it is not known, and that the request is not to be served.
func (s *Service) Admit(ctx context.Context, agentID uuid.UUID, l Limits) (done func(), err error) {
	if l == (Limits{}) {
		return func() {}, nil
	}
	slot := uuid.Nil
	if l.Concurrency > 0 {
		slot = uuid.New()
	}
	// In each process one request of an agent asks at a time: a crowd of them leaves the pool to others.
	turn := s.turn(agentID)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("admit a request of agent %s: %w", agentID, ctx.Err())
	}
	taken := false
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		// What is counted below is read after the lock is held: each statement sees what was committed before it.
		if err := lock(ctx, tx, agentID); err != nil {
			return err
		}
		if err := check(ctx, tx, agentID, l); err != nil {
			return err
		}
		err := s.take(ctx, tx, agentID, l, slot)
		taken = err == nil
		return err
	})
	if err != nil {
		if taken && slot != uuid.Nil { // the commit failed, or only its answer was not heard
			s.late.Go(func() { s.until(func() bool { return s.disown(agentID, slot) }) })
		}
		return nil, fmt.Errorf("admit a request of agent %s: %w", agentID, err)
	}
	if slot == uuid.Nil {
		return func() {}, nil
	}
	return sync.OnceFunc(func() { s.release(ctx, slot) }), nil
}

func lock(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_limit' || $1::text, 0))`, agentID)
	return err
}

func (s *Service) turn(agentID uuid.UUID) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn, ok := s.turns[agentID]
	if !ok {
		turn = make(chan struct{}, 1)
		s.turns[agentID] = turn
	}
	return turn
}

func check(ctx context.Context, tx pgx.Tx, agentID uuid.UUID, l Limits) error {
	var ahead float64 // seconds from now to the theoretical arrival time
	var held int
	err := tx.QueryRow(ctx, `SELECT coalesce((SELECT extract(epoch FROM tat - holdpoint_now()) FROM agent_rates WHERE agent_id = $1), 0)::float8,
		(SELECT count(*) FROM agent_slots WHERE agent_id = $1)`, agentID).Scan(&ahead, &held)
	if err != nil {
		return err
	}
	if l.Concurrency > 0 && held >= l.Concurrency {
		return &Exceeded{Kind: Concurrency, Limit: l.Concurrency, RetryAfter: time.Second}
	}
	if l.PerMinute > 0 {
		tolerance := time.Duration(l.Burst()-1) * l.every()
		if wait := time.Duration(ahead*float64(time.Second)) - tolerance; wait > 0 {
			return &Exceeded{Kind: Rate, Limit: l.PerMinute, RetryAfter: wait}
		}
	}
	return nil
}

func (s *Service) take(ctx context.Context, tx pgx.Tx, agentID uuid.UUID, l Limits, slot uuid.UUID) error {
	batch := &pgx.Batch{}
	if l.PerMinute > 0 {
		batch.Queue(`INSERT INTO agent_rates (agent_id, tat) VALUES ($1, holdpoint_now() + $2 * interval '1 microsecond')
			ON CONFLICT (agent_id) DO UPDATE SET tat = greatest(agent_rates.tat, holdpoint_now()) + $2 * interval '1 microsecond'`,
			agentID, l.every().Microseconds())
	}
	if slot != uuid.Nil {
		batch.Queue(`INSERT INTO agent_slots (id, agent_id, instance) VALUES ($1, $2, $3)`, slot, agentID, s.Instance)
	}
	return tx.SendBatch(ctx, batch).Close()
}

const (
	releaseLimit = 5 * time.Second
	releaseAgain = time.Second
)

// release gives a slot back, at once or, while the database is away, later.
func (s *Service) release(ctx context.Context, slot uuid.UUID) {
	if s.giveBack(context.WithoutCancel(ctx), slot) {
		return
	}
	s.late.Go(func() { s.until(func() bool { return s.giveBack(s.running, slot) }) })
}

// until tries again and again.
func (s *Service) until(done func() bool) {
	for {
		select {
		case <-s.running.Done():
			return // with the process its slots go
		case <-time.After(releaseAgain):
		}
		if done() {
			return
		}
	}
}

// disown gives a slot back of which it is not known whether it was taken: the commit failed, and may be under way
// still. Under the lock that it holds it is known.
func (s *Service) disown(agentID, slot uuid.UUID) bool {
	ctx, cancel := context.WithTimeout(s.running, releaseLimit)
	defer cancel()
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := lock(ctx, tx, agentID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, deleteSlot, slot)
		return err
	})
	if err != nil {
		s.Logger.Warn("a slot of an agent that may have been taken is given back later", "slot", slot, "error", err)
	}
	return err == nil
}

const deleteSlot = `DELETE FROM agent_slots WHERE id = $1`

func (s *Service) giveBack(ctx context.Context, slot uuid.UUID) bool {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	_, err := s.Pool.Exec(ctx, deleteSlot, slot)
	if err != nil {
		s.Logger.Warn("a slot of an agent is given back later", "slot", slot, "error", err)
	}
	return err == nil
}
