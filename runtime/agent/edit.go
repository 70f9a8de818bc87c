package agent

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// edit is one change of the registry: a transaction, who makes it, what it did.
type edit struct {
	*Service
	tx      pgx.Tx
	by      audit.Actor
	events  []audit.Event
	agents  map[uuid.UUID]bool // whose revision grows
	public  map[string]bool    // hosts that were looked up before, and have public addresses only
	changed bool
}

// lockSQL lets one change of the registry happen at a time, so that none of them
// can deadlock with another. Operators' acts are rare.
const lockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_registry', 0))`

// edit runs f in a transaction that ends with the growth of revisions, the audit events
// and the notice. With dryRun everything is done and nothing is kept.
func (s *Service) edit(ctx context.Context, by audit.Actor, dryRun bool, f func(e *edit) error) error {
	e := &edit{Service: s, by: by, agents: map[uuid.UUID]bool{}}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		e.tx = tx
		if _, err := tx.Exec(ctx, lockSQL); err != nil {
			return err
		}
		if err := f(e); err != nil {
			return err
		}
		if err := e.finish(ctx); err != nil {
			return err
		}
		if dryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	if err == nil && e.changed {
		s.Invalidate()
		s.discovery.Invalidate()
	}
	return err
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("dry run")

// did notes a change with its event.
func (e *edit) did(action string, subject uuid.UUID, data map[string]any) {
	e.changed = true
	e.events = append(e.events, audit.Event{Actor: e.by, Action: action, Subject: subject, Data: data})
}

// touch makes an agent's revision grow.
func (e *edit) touch(agentID uuid.UUID) { e.agents[agentID] = true }

// touchUsers makes the revision of every agent that has the skill grow.
func (e *edit) touchUsers(ctx context.Context, skillID uuid.UUID) error {
	rows, err := e.tx.Query(ctx, `SELECT agent_id FROM assignments WHERE skill_id = $1`, skillID)
	if err != nil {
		return err
	}
	users, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, user := range users {
		e.touch(user)
	}
	return err
}

func (e *edit) finish(ctx context.Context) error {
	if !e.changed {
		return nil
	}
	if err := e.grow(ctx); err != nil {
		return err
	}
	if err := audit.Write(ctx, e.tx, e.events...); err != nil {
		return err
	}
	return registry.Notify(ctx, e.tx)
}

// grow makes the revisions of the touched agents grow.
func (e *edit) grow(ctx context.Context) error {
	if len(e.agents) == 0 {
		return nil
	}
	_, err := e.tx.Exec(ctx, `UPDATE agents SET revision = revision + 1 WHERE id = ANY($1)`,
		slices.Collect(maps.Keys(e.agents)))
	clear(e.agents)
	return err
}
