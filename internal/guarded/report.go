package guarded

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Report says how a guard is on its machine. The first one registers it.
type Report struct {
	WatchKey string // a secret of the machine
	Host     string
	Machine  string
	Scope    string
	Version  string
	Files    []string
	// Every is the time until the watcher's next report. Zero: the guard was just installed, and this is no report of a watcher.
	Every    time.Duration
	Problems []string // why the guard does not hold; empty: it holds
	Removed  bool     // the command removed it
}

// Bounds on reports.
const (
	minWatchKey, maxWatchKey = 32, 256
	maxName                  = 256
	maxFiles                 = 10
	maxProblems              = 20
	maxProblem               = 1000
	maxEvery                 = time.Hour
	maxGuards                = 200 // of one agent

	// A process takes so many changes of one guard in a time: each is an audit event, and may be a message to people, and an agent may have the keys
	// with which it reports.
	maxChanges, changesTime = 30, 10 * time.Minute
)

// maxTracked is the number of guards that a process counts or remembers.
const maxTracked = 10_000

// validate checks a report. Error: *[fault.InvalidError].
func (r *Report) validate() error {
	if len(r.WatchKey) < minWatchKey || len(r.WatchKey) > maxWatchKey {
		return fault.Invalid("watch_key", fmt.Sprintf("must be %d to %d bytes", minWatchKey, maxWatchKey))
	}
	for _, f := range []struct{ name, value string }{{"host", r.Host}, {"machine", r.Machine}, {"version", r.Version}} {
		if f.value == "" || f.value != plain.Line(f.value, maxName) {
			return fault.Invalid(f.name, fmt.Sprintf("must be a line of 1 to %d bytes", maxName))
		}
	}
	if r.Scope != "machine" && r.Scope != "user" {
		return fault.Invalid("scope", "must be machine or user")
	}
	if r.Every < 0 || r.Every > maxEvery || r.Every%time.Second != 0 {
		return fault.Invalid("every", "must be between 0 and 3600 seconds")
	}
	for _, list := range []struct {
		name   string
		values []string
		most   int
	}{{"files", r.Files, maxFiles}, {"problems", r.Problems, maxProblems}} {
		if len(list.values) > list.most {
			return fault.Invalid(list.name, fmt.Sprintf("must have at most %d texts", list.most))
		}
		for i, text := range list.values {
			if text == "" || len(text) > maxProblem || text != plain.Storable(text, maxProblem) {
				return fault.Invalid(fmt.Sprintf("%s[%d]", list.name, i), fmt.Sprintf("must be 1 to %d bytes of UTF-8 without NUL", maxProblem))
			}
		}
	}
	return nil
}

// state is what the report says.
func (r *Report) state() State {
	switch {
	case r.Removed:
		return Removed
	case len(r.Problems) > 0:
		return Broken
	case r.Every > 0:
		return Holds
	}
	return Unwatched
}

// Report stores a report about a guard of an agent, and alerts people if the guard no longer holds. Errors: *[fault.InvalidError],
// ErrNotFound if the guard is another agent's, ErrWatchKey.
func (s *Service) Report(ctx context.Context, agentID, id uuid.UUID, r Report) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("report about guard %s: %w", id, err)
	}
	sum := sha256.Sum256([]byte(r.WatchKey))
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		g, err := readGuard(ctx, tx, id)
		if errors.Is(err, ErrNotFound) {
			if r.Removed {
				return nil // an operator forgot it
			}
			if g, err = s.register(ctx, tx, agentID, id, sum[:], &r); err != nil {
				return err
			}
		}
		switch {
		case err != nil:
			return err
		case g.AgentID != agentID:
			return ErrNotFound
		case subtle.ConstantTimeCompare(g.watchKey, sum[:]) != 1:
			return ErrWatchKey
		}
		return s.storeReport(ctx, tx, g, &r)
	})
	if err != nil {
		return fmt.Errorf("report about guard %s: %w", id, err)
	}
	return nil
}

// readGuard locks a guard. Error: ErrNotFound.
func readGuard(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Guard, error) {
	g, err := postgres.CollectOne(ctx, tx, scanGuard, `SELECT `+columns+` FROM guarded_hosts WHERE id = $1 FOR UPDATE`, id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return g, err
}

// register inserts a guard.
func (s *Service) register(ctx context.Context, tx pgx.Tx, agentID, id uuid.UUID, watchKey []byte, r *Report) (Guard, error) {
	var count int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM guarded_hosts WHERE agent_id = $1`, agentID).Scan(&count); err != nil {
		return Guard{}, err
	}
	if count >= maxGuards {
		return Guard{}, fault.Invalid("id", fmt.Sprintf("must be that of a guard which is registered: the agent has %d, the most", maxGuards))
	}
	tag, err := tx.Exec(ctx, `INSERT INTO guarded_hosts (id, agent_id, watch_key_hash, host, machine, scope, version, files, state)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
		id, agentID, watchKey, r.Host, r.Machine, r.Scope, r.Version, r.files(), Unwatched)
	if err != nil {
		return Guard{}, err
	}
	g, err := readGuard(ctx, tx, id)
	if err == nil && tag.RowsAffected() > 0 {
		err = audit.Write(ctx, tx, g.event(audit.Agent(agentID), audit.GuardRegistered))
	}
	return g, err
}

func (r *Report) files() []string {
	return append([]string{}, r.Files...) // not null
}

// storeReport changes a guard to what a report says.
func (s *Service) storeReport(ctx context.Context, tx pgx.Tx, g Guard, r *Report) error {
	if (r.state() != g.State || !slices.Equal(r.Problems, g.Problems)) && !s.takeChange(g.ID) {
		return fault.Invalid("problems", fmt.Sprintf("must change at most %d times in %s", maxChanges, changesTime))
	}
	was := g
	g.Host, g.Machine, g.Scope, g.Version, g.Files, g.State = r.Host, r.Machine, r.Scope, r.Version, r.files(), r.state()
	g.Problems = append([]string{}, r.Problems...)
	_, err := tx.Exec(ctx, `UPDATE guarded_hosts SET host = $2, machine = $3, scope = $4, version = $5, files = $6, problems = $7, every_seconds = $8,
		watched_at = CASE WHEN $8 > 0 THEN holdpoint_now() WHEN $9 THEN watched_at END WHERE id = $1`,
		g.ID, g.Host, g.Machine, g.Scope, g.Version, g.Files, g.Problems, int(r.Every/time.Second), r.Removed)
	if err != nil {
		return err
	}
	return s.changeState(ctx, tx, &was, &g, audit.Agent(g.AgentID))
}

// changesCount counts the changes of a guard since a time.
type changesCount struct {
	since time.Time
	n     int
}

// takeChange counts a change of a guard. It reports false if there were too many.
func (s *Service) takeChange(id uuid.UUID) bool {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changes) >= maxTracked {
		clear(s.changes)
	}
	c := s.changes[id]
	if now.Sub(c.since) >= changesTime {
		c = changesCount{since: now}
	}
	c.n++
	s.changes[id] = c
	return c.n <= maxChanges
}

// changeState stores the state of a guard if it changed. An alert begins with each state that alerts, and ends with it.
func (s *Service) changeState(ctx context.Context, tx pgx.Tx, was, g *Guard, by audit.Actor) error {
	if was.State == g.State {
		if g.State != Broken || slices.Equal(was.Problems, g.Problems) {
			return nil
		}
		return audit.Write(ctx, tx, g.event(by, audit.GuardBroken)) // it is broken in another way
	}
	if was.alert != uuid.Nil {
		if err := s.Alert(ctx, tx, Alert{ID: was.alert, Guard: *g, Ended: true}); err != nil {
			return err
		}
	}
	g.alert = uuid.Nil
	if g.State.alerts() {
		var err error
		if g.alert, err = uuid.NewV7(); err != nil {
			return err
		}
		if err := s.Alert(ctx, tx, Alert{ID: g.alert, Guard: *g}); err != nil {
			return err
		}
		s.Logger.Warn("a guard no longer holds", "guard", g.ID, "host", g.Host, "machine", g.Machine, "state", g.State)
	}
	_, err := tx.Exec(ctx, `UPDATE guarded_hosts SET state = $2, state_at = holdpoint_now(), alert_id = $3 WHERE id = $1`, g.ID, g.State, postgres.OrNull(g.alert))
	if err != nil {
		return err
	}
	return audit.Write(ctx, tx, g.event(by, map[State]audit.Action{
		Unwatched: audit.GuardUnwatched, Holds: audit.GuardHolds, Broken: audit.GuardBroken, Silent: audit.GuardSilent, Removed: audit.GuardRemoved,
	}[g.State]))
}

// NoteAsked notes that the hook of a guard asked about a call. It costs nothing most of the time. Ids of no guard of the agent are ignored.
func (s *Service) NoteAsked(ctx context.Context, agentID, id uuid.UUID) {
	now := s.Now()
	s.mu.Lock()
	if len(s.asked) >= maxTracked {
		clear(s.asked)
	}
	isDue := now.Sub(s.asked[id]) >= askedInterval
	if isDue {
		s.asked[id] = now
	}
	s.mu.Unlock()
	if !isDue {
		return
	}
	if _, err := s.Pool.Exec(ctx, `UPDATE guarded_hosts SET asked_at = holdpoint_now() WHERE id = $1 AND agent_id = $2`, id, agentID); err != nil && ctx.Err() == nil {
		s.Logger.Warn("note that a guard asked", "guard", id, "error", err)
	}
}

// NoteBypass counts a call that a host ran and that was not released to it, and alerts people. In each minute, the first one of a guard leaves an
// audit event, with the number of all so far: an agent can report many with its key. Error: ErrNotFound.
func (s *Service) NoteBypass(ctx context.Context, agentID, id uuid.UUID, tool string) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		alert, err := uuid.NewV7()
		if err != nil {
			return err
		}
		was, err := readGuard(ctx, tx, id)
		if err != nil {
			return err
		}
		g, err := postgres.CollectOne(ctx, tx, scanGuard, `UPDATE guarded_hosts SET bypasses = bypasses + 1, bypassed_at = holdpoint_now(), bypass_tool = $4,
			bypass_alert = CASE WHEN bypass_alert IS NULL OR bypassed_at < holdpoint_now() - interval '`+alertGap+`' THEN $3 ELSE bypass_alert END
			WHERE id = $1 AND agent_id = $2 RETURNING `+columns, id, agentID, alert, plain.Line(tool, maxName))
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		if was.BypassedAt == nil || was.BypassedAt.Truncate(time.Minute).Before(g.BypassedAt.Truncate(time.Minute)) {
			event := g.event(audit.Agent(agentID), audit.GuardBypassed)
			event.Data["tool"], event.Data["bypasses"] = g.BypassTool, g.Bypasses
			if err := audit.Write(ctx, tx, event); err != nil {
				return err
			}
		}
		if g.bypassAlert != alert {
			return nil // people were alerted not long ago
		}
		s.Logger.Warn("a call ran that was not released", "guard", g.ID, "host", g.Host, "machine", g.Machine, "tool", g.BypassTool)
		return s.Alert(ctx, tx, Alert{ID: alert, Guard: g, Bypassed: true})
	})
	if err != nil {
		return fmt.Errorf("note that guard %s was bypassed: %w", id, err)
	}
	return nil
}
