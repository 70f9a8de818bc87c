package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxPending is how many calls of one agent may wait for people, unless the agent's own limit is higher.
const MaxPending = 1000

// PendingError is the error of a call that would wait for people while too many of its agent's calls do so.
type PendingError struct {
	Waiting int
	Limit   int
	Total   bool // Waiting counts all calls of the agent; else those for one principal
}

func (e *PendingError) Error() string {
	if e.Total {
		return fmt.Sprintf("%d calls of this agent wait for people, and at most %d may", e.Waiting, e.Limit)
	}
	return fmt.Sprintf("%d calls of this agent, made for the same person or for nobody, wait for people, and its limit (limits.pending) is %d", e.Waiting, e.Limit)
}

// owner is whose calls are counted together.
type owner struct{ agent, principal uuid.UUID }

// pending are the calls that wait, while their agents are locked.
type pending struct {
	agents map[uuid.UUID]int
	owners map[owner]int
}

// waits reports whether a call is recorded as one that waits for people.
func (item *intakeItem) waits() bool { return item.parking != nil || item.wait != nil }

func (item *intakeItem) owner() owner { return owner{item.call.AgentID, item.call.PrincipalID} }

// countPending locks the agents of those items that would wait, so that no process counts at the same time, and counts what
// waits already. The locks come before all others of the transaction. nil: no item would wait.
func countPending(ctx context.Context, tx pgx.Tx, items []*intakeItem) (*pending, error) {
	p := &pending{agents: map[uuid.UUID]int{}, owners: map[owner]int{}}
	for _, item := range items {
		if item.waits() {
			p.agents[item.call.AgentID], p.owners[item.owner()] = 0, 0
		}
	}
	if len(p.owners) == 0 {
		return nil, nil
	}
	batch := &pgx.Batch{}
	agents := make([]uuid.UUID, 0, len(p.agents))
	for id := range p.agents {
		agents = append(agents, id)
	}
	slices.SortFunc(agents, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range agents {
		batch.Queue(`SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_pending' || $1::text, 0))`, id)
	}
	// A statement of its own: it sees what was committed before the locks were taken.
	batch.Queue(`SELECT agent_id, principal_id, count(*) FROM (
			SELECT agent_id, principal_id FROM approvals WHERE agent_id = ANY($1) AND status = 'pending'
			UNION ALL
			SELECT agent_id, principal_id FROM call_connections WHERE agent_id = ANY($1) AND ended_at IS NULL
		) AS waiting GROUP BY 1, 2`, agents).Query(func(rows pgx.Rows) error {
		var agentID uuid.UUID
		var principal *uuid.UUID
		var n int
		_, err := pgx.ForEachRow(rows, []any{&agentID, &principal, &n}, func() error {
			p.agents[agentID] += n
			p.owners[owner{agentID, deref(principal)}] = n
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("count waiting calls: %w", err)
	}
	return p, nil
}

// full is the limit that an item meets. nil: there is room for it.
func (p *pending) full(item *intakeItem) *PendingError {
	if p == nil || !item.waits() {
		return nil
	}
	if n := p.owners[item.owner()]; n >= item.pendingLimit {
		return &PendingError{Waiting: n, Limit: item.pendingLimit}
	}
	if n, most := p.agents[item.call.AgentID], max(MaxPending, item.pendingLimit); n >= most {
		return &PendingError{Waiting: n, Limit: most, Total: true}
	}
	return nil
}

// add counts a call that waits from now on.
func (p *pending) add(item *intakeItem) {
	if p != nil && item.waits() {
		p.agents[item.call.AgentID]++
		p.owners[item.owner()]++
	}
}

// insertWithin inserts the calls that are new and have room to wait, and returns them. Of the others, repeats attach to
// the earlier call, and those without room get a *[PendingError].
func insertWithin(ctx context.Context, tx pgx.Tx, items []*intakeItem) (fresh []*intakeItem, err error) {
	waiting, err := countPending(ctx, tx, items)
	if err != nil {
		return nil, err
	}
	var tried, rest []*intakeItem
	for _, item := range items {
		if waiting.full(item) == nil {
			tried = append(tried, item)
		} else {
			rest = append(rest, item)
		}
	}
	inserted, err := insertCalls(ctx, tx, tried)
	if err != nil {
		return nil, err
	}
	var over []uuid.UUID
	for _, item := range tried {
		switch {
		case !inserted[item.call.ID]:
			rest = append(rest, item)
		case waiting.full(item) != nil: // others of the same transaction took the last places
			over = append(over, item.call.ID)
			item.err = waiting.full(item)
		default:
			waiting.add(item)
			fresh = append(fresh, item)
		}
	}
	if len(over) > 0 {
		if _, err := tx.Exec(ctx, `DELETE FROM calls WHERE id = ANY($1)`, over); err != nil {
			return nil, fmt.Errorf("take back calls that have no room to wait: %w", err)
		}
	}
	if err := attach(ctx, tx, rest); err != nil {
		return nil, err
	}
	for _, item := range rest {
		if exceeded := waiting.full(item); exceeded != nil && errors.Is(item.err, errAttachedGone) {
			item.err = exceeded
		}
	}
	return fresh, nil
}
