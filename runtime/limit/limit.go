// Package limit owns the enforcement of agents' limits: calls a minute and concurrent calls, counted over all processes
// (the tables agent_rates and agent_slots). It does not own the limits themselves, or which requests count.
//
// The rate is the generic cell rate algorithm (GCRA; ITU-T I.371, ATM Forum TM 4.1) by the database's clock: one time for
// each agent is the whole state. A slot belongs to the process that holds it, and ends with that process. The tables are
// unlogged: after a crash of the database all counts start from zero.
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

// minBurst is the least burst of an idle agent, however low its rate, if the rate allows so many.
const minBurst = 5

// Burst is how many calls of an idle agent may come at once: a quarter of the calls of a minute, but at least five if the rate
// allows so many. In any minute at most PerMinute and Burst calls pass.
func (l Limits) Burst() int { return min(l.PerMinute, max(minBurst, l.PerMinute/4)) }

// interval is the time between two calls at the agent's rate.
func (l Limits) interval() time.Duration { return time.Minute / time.Duration(l.PerMinute) }

// Kind is one of an agent's limits.
type Kind string

// The kinds of limits.
const (
	Rate        Kind = "rate_limited"
	Concurrency Kind = "concurrency_limited"
)

// Exceeded is the error of a request over a limit.
type Exceeded struct {
	Kind  Kind
	Limit int
	// RetryAfter is when the next request may pass. It is a second for [Concurrency], where that is unknown.
	RetryAfter time.Duration
}

func (e *Exceeded) Error() string {
	if e.Kind == Rate {
		return fmt.Sprintf("this agent may make %d calls a minute", e.Limit)
	}
	return fmt.Sprintf("this agent may make %d calls at one time", e.Limit)
}

// Config has the dependencies of a [Service].
type Config struct {
	Pool     *pgxpool.Pool
	Instance uuid.UUID // of this process, whose heartbeat another package keeps
	Logger   *slog.Logger
}

// Service admits requests. It is safe for concurrent use.
type Service struct {
	Config

	mu      sync.Mutex
	turns   map[uuid.UUID]chan struct{} // by agent: held by the request that is being admitted
	running context.Context             //nolint:containedctx // ends the retries in the background
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

// Close stops the retries in the background.
func (s *Service) Close() {
	s.stop()
	s.late.Wait()
}

// Admit admits a request of an agent and returns the function that ends it. An agent without limits costs nothing. Errors:
// *Exceeded; after any other error the limits are unknown, and the request must not be served.
func (s *Service) Admit(ctx context.Context, agentID uuid.UUID, l Limits) (done func(), err error) {
	if l == (Limits{}) {
		return func() {}, nil
	}
	slot := uuid.Nil
	if l.Concurrency > 0 {
		slot = uuid.New()
	}
	// Each process admits one request of an agent at a time: a burst must not occupy the pool.
	turn := s.turnOf(agentID)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("admit a request of agent %s: %w", agentID, ctx.Err())
	}
	taken := false
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		// The counts are read after the lock is held: each statement sees all earlier commits.
		if err := lockAgent(ctx, tx, agentID); err != nil {
			return err
		}
		if err := checkLimits(ctx, tx, agentID, l); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		if l.PerMinute > 0 {
			batch.Queue(`INSERT INTO agent_rates (agent_id, tat) VALUES ($1, holdpoint_now() + $2 * interval '1 microsecond')
				ON CONFLICT (agent_id) DO UPDATE SET tat = greatest(agent_rates.tat, holdpoint_now()) + $2 * interval '1 microsecond'`,
				agentID, l.interval().Microseconds())
		}
		if slot != uuid.Nil {
			batch.Queue(`INSERT INTO agent_slots (id, agent_id, instance) VALUES ($1, $2, $3)`, slot, agentID, s.Instance)
		}
		err := tx.SendBatch(ctx, batch).Close()
		taken = err == nil
		return err
	})
	if err != nil {
		if taken && slot != uuid.Nil { // the commit failed, or only its response was lost
			s.late.Go(func() { s.retryUntil(func() bool { return s.releaseUncertain(agentID, slot) }) })
		}
		return nil, fmt.Errorf("admit a request of agent %s: %w", agentID, err)
	}
	if slot == uuid.Nil {
		return func() {}, nil
	}
	return sync.OnceFunc(func() {
		if !s.giveBack(context.WithoutCancel(ctx), slot) { // the database is unavailable
			s.late.Go(func() { s.retryUntil(func() bool { return s.giveBack(s.running, slot) }) })
		}
	}), nil
}

func lockAgent(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_limit' || $1::text, 0))`, agentID)
	return err
}

// turnOf returns the channel that is held while a request of the agent is being admitted.
func (s *Service) turnOf(agentID uuid.UUID) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn, ok := s.turns[agentID]
	if !ok {
		turn = make(chan struct{}, 1)
		s.turns[agentID] = turn
	}
	return turn
}

func checkLimits(ctx context.Context, tx pgx.Tx, agentID uuid.UUID, l Limits) error {
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
		tolerance := time.Duration(l.Burst()-1) * l.interval()
		if wait := time.Duration(ahead*float64(time.Second)) - tolerance; wait > 0 {
			return &Exceeded{Kind: Rate, Limit: l.PerMinute, RetryAfter: wait}
		}
	}
	return nil
}

const (
	releaseLimit = 5 * time.Second
	releaseAgain = time.Second
)

// retryUntil retries until done reports success.
func (s *Service) retryUntil(done func() bool) {
	for {
		select {
		case <-s.running.Done():
			return // the slots end with the process
		case <-time.After(releaseAgain):
		}
		if done() {
			return
		}
	}
}

// releaseUncertain releases a slot that may have been taken: the commit failed, or may still be running. The agent's lock waits
// for its end.
func (s *Service) releaseUncertain(agentID, slot uuid.UUID) bool {
	ctx, cancel := context.WithTimeout(s.running, releaseLimit)
	defer cancel()
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := lockAgent(ctx, tx, agentID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, deleteSlot, slot)
		return err
	})
	if err != nil {
		s.Logger.Warn("release an agent's slot that may have been taken; retrying", "slot", slot, "error", err)
	}
	return err == nil
}

const deleteSlot = `DELETE FROM agent_slots WHERE id = $1`

// giveBack releases a slot and reports whether that worked.
func (s *Service) giveBack(ctx context.Context, slot uuid.UUID) bool {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	_, err := s.Pool.Exec(ctx, deleteSlot, slot)
	if err != nil {
		s.Logger.Warn("release an agent's slot; retrying", "slot", slot, "error", err)
	}
	return err == nil
}
