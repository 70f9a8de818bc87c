package guarded

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

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// State says whether a guard holds.
type State string

// The states of a guard.
const (
	Unwatched State = "unwatched" // it is installed, and no watcher reports about it
	Holds     State = "holds"     // the last report found the hook as it must be
	Broken    State = "broken"    // the last report found the hook gone, altered or turned off
	Silent    State = "silent"    // the reports ended
	Removed   State = "removed"   // it was removed by the command, without an operator
)

// States returns all states.
func States() []State { return []State{Unwatched, Holds, Broken, Silent, Removed} }

// alerts reports whether people are alerted about the state.
func (s State) alerts() bool { return s == Broken || s == Silent || s == Removed }

// Guard is a guarded host.
type Guard struct {
	ID           uuid.UUID
	AgentID      uuid.UUID
	Host         string
	Machine      string
	Scope        string
	Version      string
	Files        []string
	RegisteredAt time.Time
	AskedAt      *time.Time // the last question of its hook; nil: none
	WatchedAt    *time.Time // the last report of a watcher; nil: none
	State        State
	StateAt      time.Time
	Problems     []string
	Bypasses     int64 // calls that ran without a release
	BypassedAt   *time.Time
	BypassTool   string

	watchKey    []byte
	alert       uuid.UUID // about the state; uuid.Nil: none
	bypassAlert uuid.UUID // the last one; uuid.Nil: none
}

// SeenAt returns when anything of the guard was last heard: a question of its hook, or a report.
func (g *Guard) SeenAt() time.Time {
	seen := g.RegisteredAt
	for _, at := range []*time.Time{g.AskedAt, g.WatchedAt} {
		if at != nil && at.After(seen) {
			seen = *at
		}
	}
	return seen
}

// Alert is something that people have to know about a guard, or the end of it.
type Alert struct {
	ID       uuid.UUID
	Guard    Guard
	Bypassed bool // a call ran without a release; else it is about the guard's state
	Ended    bool
}

// Errors of this package.
var (
	ErrNotFound = fault.NotFound("guard not found")
	// ErrWatchKey: the guard was registered with another watch key.
	ErrWatchKey = errors.New("watch_key: must be the one with which the guard was registered")
)

const (
	// quiet is how long a guard may be silent, if its watcher reports more often than three times in it.
	quiet = 45 * time.Second
	// checkInterval is the time between two searches for silent guards.
	checkInterval = 5 * time.Second
	// askedInterval is how exact the time of the last question is.
	askedInterval = 15 * time.Second
	// alertGap is the least time between two alerts about calls that bypass one guard, and bypassAlert how long one lasts.
	alertGap, bypassAlert = "10 minutes", "24 hours"
)

// Config configures a [Service]. Pool, Logger, Now and Alert are required.
type Config struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger
	Now    func() time.Time // of this process; all that is stored goes by the database's clock
	// Alert tells people in the transaction of the change.
	Alert func(ctx context.Context, tx pgx.Tx, a Alert) error
	// Grace is how long this process must have reached the database before it calls a guard silent: reports that could not be stored
	// are no silence. Zero: 45 s. Interval is the time between two searches. Zero: 5 s.
	Grace, Interval time.Duration
}

// Service keeps the guarded hosts. It is safe for concurrent use.
type Service struct {
	Config

	mu      sync.Mutex
	asked   map[uuid.UUID]time.Time    // by guard, when its last question was stored
	changes map[uuid.UUID]changesCount // by guard
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil || cfg.Alert == nil {
		return nil, errors.New("make guarded hosts: Pool, Logger, Now and Alert are required")
	}
	if cfg.Grace == 0 {
		cfg.Grace = quiet
	}
	if cfg.Interval == 0 {
		cfg.Interval = checkInterval
	}
	return &Service{Config: cfg, asked: map[uuid.UUID]time.Time{}, changes: map[uuid.UUID]changesCount{}}, nil
}

const columns = `id, agent_id, watch_key_hash, host, machine, scope, version, files, registered_at, asked_at, watched_at, problems,
	state, state_at, alert_id, bypasses, bypassed_at, coalesce(bypass_tool, ''), bypass_alert`

func scanGuard(row pgx.CollectableRow) (Guard, error) {
	var g Guard
	var alert, bypassAlert *uuid.UUID
	err := row.Scan(&g.ID, &g.AgentID, &g.watchKey, &g.Host, &g.Machine, &g.Scope, &g.Version, &g.Files, &g.RegisteredAt, &g.AskedAt, &g.WatchedAt,
		&g.Problems, &g.State, &g.StateAt, &alert, &g.Bypasses, &g.BypassedAt, &g.BypassTool, &bypassAlert)
	g.alert, g.bypassAlert = postgres.OrNil(alert), postgres.OrNil(bypassAlert)
	return g, err
}

// List returns the guards of an agent, or of all agents (uuid.Nil): those that people are alerted about first.
func (s *Service) List(ctx context.Context, agentID uuid.UUID) ([]Guard, error) {
	guards, err := postgres.Collect(ctx, s.Pool, scanGuard, `SELECT `+columns+` FROM guarded_hosts WHERE $1::uuid IS NULL OR agent_id = $1
		ORDER BY alert_id IS NULL, host, machine, id LIMIT 10000`, postgres.OrNull(agentID))
	if err != nil {
		return nil, fmt.Errorf("list guards: %w", err)
	}
	return guards, nil
}

// Count returns the number of guards in each state.
func (s *Service) Count(ctx context.Context) (map[State]int, error) {
	counts := map[State]int{}
	rows, err := s.Pool.Query(ctx, `SELECT state, count(*) FROM guarded_hosts GROUP BY state`)
	if err != nil {
		return nil, fmt.Errorf("count guards: %w", err)
	}
	var state State
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error { counts[state] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count guards: %w", err)
	}
	return counts, nil
}

// ListAlerting returns those of the alerts that have not ended.
func (s *Service) ListAlerting(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	alerting, err := postgres.Collect(ctx, s.Pool, pgx.RowTo[uuid.UUID], `SELECT alert_id FROM guarded_hosts WHERE alert_id = ANY($1)
		UNION SELECT bypass_alert FROM guarded_hosts WHERE bypass_alert = ANY($1) AND bypassed_at > holdpoint_now() - interval '`+bypassAlert+`'`, ids)
	if err != nil {
		return nil, fmt.Errorf("list alerts about guards: %w", err)
	}
	return alerting, nil
}

// Forget deletes a guard that is no longer wanted. If its watcher still runs, it is registered again. Error: ErrNotFound.
func (s *Service) Forget(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		g, err := postgres.CollectOne(ctx, tx, scanGuard, `DELETE FROM guarded_hosts WHERE id = $1 RETURNING `+columns, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		if g.alert != uuid.Nil {
			if err := s.Alert(ctx, tx, Alert{ID: g.alert, Guard: g, Ended: true}); err != nil {
				return err
			}
		}
		return audit.Write(ctx, tx, g.event(by, audit.GuardForgotten))
	})
	if err != nil {
		return fmt.Errorf("forget guard %s: %w", id, err)
	}
	return nil
}

// RemoveAgent deletes the guards of an agent that tx deletes.
func (s *Service) RemoveAgent(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error {
	if _, err := tx.Exec(ctx, `DELETE FROM guarded_hosts WHERE agent_id = $1`, agentID); err != nil {
		return fmt.Errorf("delete guards: %w", err)
	}
	return nil
}

// event is an audit event about a guard.
func (g *Guard) event(by audit.Actor, action audit.Action) audit.Event {
	data := map[string]any{"agent": g.AgentID, "host": g.Host, "machine": g.Machine, "scope": g.Scope}
	if len(g.Problems) > 0 {
		data["problems"] = g.Problems
	}
	return audit.Event{Actor: by, Action: action, Subject: g.ID, Data: data}
}
