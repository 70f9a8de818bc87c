package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

// A limit above [MaxPending] is not kept exactly: counting all that waits for each batch of calls would cost more than
// recording them. A count serves further calls of the process for countAge, as long as they take no more than an eighth of the places left.
const (
	countAge   = time.Second
	countShare = 8
)

// pendingCounts are the last counts of agents with limits above [MaxPending].
type pendingCounts struct {
	mu     sync.Mutex
	agents map[uuid.UUID]pendingCount
}

// pendingCount is what one agent may add without another count.
type pendingCount struct {
	at    time.Time
	limit int
	left  int
}

// take takes n places of an agent that were counted before, if there are as many, and the limit is the same.
func (c *pendingCounts) take(agentID uuid.UUID, limit, n int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.agents[agentID]
	if counted.limit != limit || counted.left < n || elapsed(now, counted.at) > countAge {
		return false
	}
	counted.left -= n
	c.agents[agentID] = counted
	return true
}

// put remembers how many places an agent has left.
func (c *pendingCounts) put(agentID uuid.UUID, limit, places int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, counted := range c.agents {
		if elapsed(now, counted.at) > countAge {
			delete(c.agents, id)
		}
	}
	c.agents[agentID] = pendingCount{now, limit, places / countShare}
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
// waits already. The locks come before all others of the transaction. An agent that has places from an earlier count is
// neither locked nor counted.
func (s *Service) countPending(ctx context.Context, tx pgx.Tx, items []*intakeItem) (*pending, error) {
	p := &pending{agents: map[uuid.UUID]int{}, owners: map[owner]int{}}
	limits, more, now := map[uuid.UUID]int{}, map[uuid.UUID]int{}, s.Now()
	for _, item := range items {
		if item.waits() {
			limits[item.call.AgentID] = max(limits[item.call.AgentID], item.pendingLimit)
			more[item.call.AgentID]++
		}
	}
	var agents []uuid.UUID
	for id, n := range more {
		if !s.counts.take(id, limits[id], n, now) {
			agents = append(agents, id)
		}
	}
	if len(agents) == 0 {
		return p, nil
	}
	batch := &pgx.Batch{}
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
	for _, id := range agents {
		if limits[id] > MaxPending {
			s.counts.put(id, limits[id], limits[id]-p.agents[id]-more[id], now)
		}
	}
	return p, nil
}

// full is the limit that an item meets. nil: there is room for it.
func (p *pending) full(item *intakeItem) *PendingError {
	if !item.waits() {
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
	if item.waits() {
		p.agents[item.call.AgentID]++
		p.owners[item.owner()]++
	}
}

// insertWithin inserts the calls that are new and have room to wait, and returns them. Of the others, repeats attach to
// the earlier call, and those without room get a *[PendingError].
func (s *Service) insertWithin(ctx context.Context, tx pgx.Tx, items []*intakeItem) (fresh []*intakeItem, err error) {
	waiting, err := s.countPending(ctx, tx, items)
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
