package agent

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// edit is one change of the registry: a transaction, its actor and the changes made so far.
type edit struct {
	*Service
	tx      pgx.Tx
	by      audit.Actor
	events  []audit.Event
	agents  map[uuid.UUID]bool // whose revisions are incremented
	public  map[string]bool    // hosts whose addresses are all public, looked up before the transaction
	faulty  map[string]bool    // names of skills that are to be applied and have an error
	deleted []*skillRow
	changed bool
	// approved is the change that a second operator approved and that this edit makes; nil: none.
	approved *dualcontrol.Change
	// waits is the change that this edit proposed to a second operator instead of making it; nil: none.
	waits *dualcontrol.Change
}

// lockSQL serializes changes of the registry, so that they cannot deadlock. Operators make few of them.
const lockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_registry', 0))`

// changeRegistry runs f in a transaction, and then increments revisions, writes the audit events and notifies all processes.
// With dryRun it rolls everything back. Errors: those of f, *dualcontrol.WaitsError if the change waits for a second operator.
func (s *Service) changeRegistry(ctx context.Context, by audit.Actor, dryRun bool, f func(e *edit) error) error {
	e := &edit{Service: s, by: by, agents: map[uuid.UUID]bool{}, faulty: map[string]bool{}}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		e.tx = tx
		if _, err := tx.Exec(ctx, lockSQL); err != nil {
			return err
		}
		if err := f(e); err != nil {
			return err
		}
		if err := e.writeChanges(ctx); err != nil {
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
	if err != nil {
		return err
	}
	if e.changed {
		s.Invalidate()
		s.discovery.Invalidate()
	}
	for _, row := range e.deleted {
		if source, err := s.discovery.Source(row.Transport); err == nil {
			source.Forget(row.ID)
		}
	}
	return e.waits.AsError()
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("dry run")

// recordChange notes a change with its audit event.
func (e *edit) recordChange(action audit.Action, subject uuid.UUID, data map[string]any) {
	e.changed = true
	if e.approved != nil {
		data["change"], data["proposed_by"] = e.approved.ID, e.approved.ProposedBy
	}
	e.events = append(e.events, audit.Event{Actor: e.by, Action: action, Subject: subject, Data: data})
}

// touchAgent increments an agent's revision at the end of the change.
func (e *edit) touchAgent(agentID uuid.UUID) { e.agents[agentID] = true }

// touchUsers increments the revision of every agent that has the skill.
func (e *edit) touchUsers(ctx context.Context, skillID uuid.UUID) error {
	rows, _ := e.tx.Query(ctx, `SELECT agent_id FROM assignments WHERE skill_id = $1`, skillID)
	users, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, user := range users {
		e.touchAgent(user)
	}
	return err
}

func (e *edit) writeChanges(ctx context.Context) error {
	if !e.changed {
		return nil
	}
	if err := e.bumpRevisions(ctx); err != nil {
		return err
	}
	if err := audit.Write(ctx, e.tx, e.events...); err != nil {
		return err
	}
	return registry.Notify(ctx, e.tx)
}

// bumpRevisions increments the revisions of the touched agents.
func (e *edit) bumpRevisions(ctx context.Context) error {
	if len(e.agents) == 0 {
		return nil
	}
	_, err := e.tx.Exec(ctx, `UPDATE agents SET revision = revision + 1 WHERE id = ANY($1)`,
		slices.Collect(maps.Keys(e.agents)))
	clear(e.agents)
	return err
}
