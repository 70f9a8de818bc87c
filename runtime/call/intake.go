package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/batcher"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// intakeItem is a call that is being recorded, and the result.
type intakeItem struct {
	call      *Call
	attachKey []byte                                              // nil: no call attaches to this one
	keyedSum  []byte                                              // see [keyedSum]
	parking   *parking                                            // nil: the call is not parked
	wait      *connectWait                                        // nil: the call does not wait for a connection
	begin     func(ctx context.Context, tx pgx.Tx, c *Call) error // of a carried or a gate-only call
	move      *move
	open      *openVerdict // settled in the transaction; nil: the verdict does not depend on earlier calls
	tried     bool         // whether the verdict was settled before, in an attempt that may have committed

	pendingLimit int // bounds the agent's waiting calls for the principal

	ticket Ticket
	err    error
}

const (
	// intakeLimit bounds the retries of recording a call. It is longer than a failover of the database.
	intakeLimit    = time.Minute
	attachAttempts = 5
)

// intakeConfig configures the batchers that record calls.
func (s *Service) intakeConfig() batcher.Config[intakeItem] {
	return batcher.Config[intakeItem]{
		Write: s.writeIntake, Leaders: 2, Now: s.Now,
		Retry: func(item *intakeItem, err error, elapsed time.Duration) bool {
			if errors.Is(err, errUnsettled) && elapsed < intakeLimit {
				return true
			}
			again := isRetryable(err) && elapsed < intakeLimit
			s.Logger.Warn("recording a call failed", "call", item.call.ID, "error", err, "retry", again)
			return again
		},
		Size: func(item *intakeItem) int {
			return len(item.call.Arguments) + len(item.call.AgentArguments()) + len(item.call.request)
		},
	}
}

// MaxPending bounds the calls of an agent that wait for people, unless the agent's own limit is higher.
const MaxPending = 1000

// PendingError means that too many calls of an agent wait for people.
type PendingError struct {
	Waiting int
	Limit   int
	Total   bool // Waiting counts all calls of the agent; else those for one principal
}

func (e *PendingError) Error() string {
	if e.Total {
		return fmt.Sprintf("%d calls of this agent wait for people, and at most %d may", e.Waiting, e.Limit)
	}
	return fmt.Sprintf("%d calls of this agent for the same person, or for no person, wait for people; its limit (limits.pending) is %d", e.Waiting, e.Limit)
}

// recordCall records a call together with others that come in at the same time. It sets the ticket or the error of the item. It tries
// again if the call that the item would attach to ends at the same moment.
func (s *Service) recordCall(batch *batcher.Batcher[intakeItem], item *intakeItem) {
	began := s.Now()
	for attempt := 1; ; attempt++ {
		if err := batch.Do(item); err != nil {
			if !isFileGone(err) {
				s.triggerRecovery() // it may be committed without an answer
			}
			item.err = fmt.Errorf("record call: %w", err)
		}
		if !errors.Is(item.err, errAttachedGone) || attempt == attachAttempts {
			break
		}
	}
	s.recordStep(item.call, StepLog, began)
}

// writeIntake records calls in one transaction. Calls that do not wait, and that no other call attaches to, take one round trip.
func (s *Service) writeIntake(ctx context.Context, items []*intakeItem) error {
	plain := true
	for _, item := range items {
		item.call.attachKey, item.call.keyedSum = item.attachKey, item.keyedSum
		item.err, item.ticket = nil, Ticket{ID: item.call.ID, Status: item.call.Status, Gated: item.call.Gated}
		plain = plain && item.attachKey == nil && item.parking == nil && item.wait == nil && item.begin == nil && item.open == nil &&
			len(item.call.Files) == 0 && item.call.GrantID == uuid.Nil
	}
	if plain {
		if err := s.intakeInOneTrip(ctx, items); !isUniqueViolation(err) { // else an earlier attempt was committed
			return err
		}
	}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if !s.isSettled() {
			return errUnsettled
		}
		groups, err := s.lockOpen(ctx, tx, items)
		if err != nil {
			return err
		}
		for _, group := range groups {
			allowed, err := s.settleVerdict(ctx, tx, group[0])
			if err != nil {
				return err
			}
			if !allowed {
				continue
			}
			fresh, err := s.insertWithin(ctx, tx, group)
			if err == nil {
				fresh, err = s.takeGrants(ctx, tx, group, fresh)
			}
			if err != nil {
				return err
			}
			if err := s.recordInserted(ctx, tx, fresh); err != nil {
				return err
			}
			if err := s.recordRest(ctx, tx, fresh); err != nil {
				return err
			}
		}
		failpoint.Hit(failpoint.SubmitBeforeCommit)
		return nil
	})
	if err == nil {
		failpoint.Hit(failpoint.SubmitAfterCommit)
	}
	return err
}

// recordRest records what belongs to inserted calls besides their events, approvals and waits.
func (s *Service) recordRest(ctx context.Context, tx pgx.Tx, fresh []*intakeItem) error {
	if late := s.findStragglers(fresh); len(late) > 0 {
		if _, err := tx.Exec(ctx, insertStragglersSQL, late); err != nil {
			return fmt.Errorf("note calls with old ids: %w", err)
		}
	}
	if err := recordFiles(ctx, tx, fresh); err != nil {
		return err
	}
	for _, item := range fresh {
		if item.begin == nil {
			continue
		}
		if err := item.begin(ctx, tx, item.call); err != nil {
			return err
		}
	}
	return nil
}

// lockOpen locks what the open verdicts of items count, and returns the groups of items that are recorded one after the other: those whose verdict
// is open see the ones before them.
func (s *Service) lockOpen(ctx context.Context, tx pgx.Tx, items []*intakeItem) ([][]*intakeItem, error) {
	var open []*openVerdict
	for _, item := range items {
		if item.open != nil {
			open = append(open, item.open)
		}
	}
	if len(open) == 0 {
		return [][]*intakeItem{items}, nil
	}
	return slices.Collect(slices.Chunk(items, 1)), lockMemory(ctx, tx, open...)
}

// intakeInOneTrip records calls that do not wait, and that no other call attaches to, in one pipelined, implicit transaction.
func (s *Service) intakeInOneTrip(ctx context.Context, items []*intakeItem) error {
	batch := &pgx.Batch{}
	if columns := s.callColumns(items); len(items) == 1 {
		batch.Queue(insertCallSQL, postgres.FirstRow(columns)...)
	} else {
		batch.Queue(insertCallsSQL, columns...)
	}
	if err := s.queueRecords(batch, "true", movesOf(items)); err != nil {
		return err
	}
	if late := s.findStragglers(items); len(late) > 0 {
		batch.Queue(insertStragglersSQL, late)
	}
	failpoint.Hit(failpoint.SubmitBeforeCommit)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("insert calls: %w", err)
	}
	failpoint.Hit(failpoint.SubmitAfterCommit)
	return nil
}

// insertWithin inserts the calls that are new and within the limits, and returns them. Repeats attach to the earlier call, and calls
// above a limit get a *[PendingError].
func (s *Service) insertWithin(ctx context.Context, tx pgx.Tx, items []*intakeItem) (fresh []*intakeItem, err error) {
	waiting, err := s.countPending(ctx, tx, items)
	if err != nil {
		return nil, err
	}
	var tried, rest []*intakeItem
	for _, item := range items {
		if waiting.findExceeded(item) == nil {
			tried = append(tried, item)
		} else {
			rest = append(rest, item)
		}
	}
	// In the order of the attach keys, so that two transactions with the same calls cannot deadlock.
	inserted, err := readIDs(ctx, tx, insertCallsSQL+` ON CONFLICT DO NOTHING RETURNING id`, s.callColumns(tried)...)
	if err != nil {
		return nil, fmt.Errorf("insert calls: %w", err)
	}
	var over []uuid.UUID
	for _, item := range tried {
		switch {
		case !slices.Contains(inserted, item.call.ID):
			rest = append(rest, item)
		case waiting.findExceeded(item) != nil: // other items of the transaction took the last places
			over = append(over, item.call.ID)
			item.err = waiting.findExceeded(item)
		default:
			waiting.addItem(item)
			fresh = append(fresh, item)
		}
	}
	if len(over) > 0 {
		if _, err := tx.Exec(ctx, `DELETE FROM calls WHERE id = ANY($1)`, over); err != nil {
			return nil, fmt.Errorf("remove calls above the limit: %w", err)
		}
	}
	if err := attachItems(ctx, tx, rest); err != nil {
		return nil, err
	}
	for _, item := range rest {
		if exceeded := waiting.findExceeded(item); exceeded != nil && errors.Is(item.err, errAttachedGone) {
			item.err = exceeded
		}
	}
	return fresh, nil
}

// recordInserted writes the audit events of inserted calls, and for calls that wait the approval or the wait for a connection.
func (s *Service) recordInserted(ctx context.Context, tx pgx.Tx, items []*intakeItem) error {
	if len(items) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	if err := s.queueRecords(batch, "true", movesOf(items)); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("record calls: %w", err)
	}
	deadlines := map[uuid.UUID]time.Time{}
	var parkings []parking
	for _, item := range items {
		if item.parking != nil {
			parkings = append(parkings, *item.parking)
		}
		if item.wait != nil {
			deadline, err := item.wait.insertWait(ctx, tx, item.call)
			if err != nil {
				return err
			}
			deadlines[item.call.ID] = deadline
		}
	}
	if len(parkings) > 0 {
		parked, err := s.insertApprovals(ctx, tx, parkings)
		if err != nil {
			return err
		}
		maps.Copy(deadlines, parked)
	}
	for _, item := range items {
		item.ticket.Deadline = deadlines[item.call.ID]
	}
	return nil
}

const insertCallsSQL = `INSERT INTO calls (id, agent_id, principal_id, conversation_id, skill_id, skill_revision,
		gated, status, tool, exposed_name, pin, arguments, attach_key, code, message, claimed_by, caller, keyed_sum,
		trace, request, rules, grant_id, gate_host, keyed_until, claimed_at, finished_at)
	SELECT id, agent_id, principal_id, conversation_id, skill_id, skill_revision,
		gated, status, tool, exposed_name, pin, arguments, attach_key, code, message, claimed_by, caller, keyed_sum, trace, request, rules, grant_id, gate_host,
		CASE WHEN keyed_for IS NOT NULL THEN holdpoint_now() + keyed_for * interval '1 microsecond' END,
		CASE WHEN claimed_by IS NOT NULL OR gate_host IS NOT NULL AND status = 'executing' THEN holdpoint_now() END,
		CASE WHEN status IN ('invalid', 'denied') THEN holdpoint_now() END
	FROM unnest((SELECT $1::uuid[]), $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bigint[], $7::boolean[], $8::text[],
		$9::text[], $10::text[], $11::bytea[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::uuid[],
		$17::jsonb[], $18::bytea[], $19::bigint[], $20::bytea[], $21::bytea[], $22::jsonb[], $23::uuid[], $24::text[])
		AS c(id, agent_id, principal_id, conversation_id, skill_id, skill_revision, gated, status,
		tool, exposed_name, pin, arguments, attach_key, code, message, claimed_by, caller, keyed_sum, keyed_for, trace, request, rules, grant_id, gate_host)
	ORDER BY attach_key`

var insertCallSQL = postgres.ForOneRow(insertCallsSQL) //nolint:gochecknoglobals // a constant

// callColumns returns the arguments of insertCallsSQL.
func (s *Service) callColumns(items []*intakeItem) []any {
	n := len(items)
	ids, agents, skills := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	principals, conversations, claimants := make([]*uuid.UUID, n), make([]*uuid.UUID, n), make([]*uuid.UUID, n)
	revisions, gated := make([]int64, n), make([]bool, n)
	statuses, tools, names := make([]string, n), make([]string, n), make([]string, n)
	pins, arguments, keys := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	codes, messages, callers := make([]*string, n), make([]*string, n), make([]*string, n)
	sums, ttls, traces, requests := make([][]byte, n), make([]*int64, n), make([][]byte, n), make([][]byte, n)
	rules, grants, hosts := make([]*string, n), make([]*uuid.UUID, n), make([]*string, n)
	for i, item := range items {
		c := item.call
		ids[i], agents[i], skills[i] = c.ID, c.AgentID, c.SkillID
		principals[i], conversations[i], claimants[i] = postgres.OrNull(c.PrincipalID), postgres.OrNull(c.ConversationID), postgres.OrNull(c.claimedBy)
		revisions[i], gated[i] = c.SkillRevision, c.Gated
		statuses[i], tools[i], names[i] = string(c.Status), c.Tool, c.ExposedName
		pins[i], arguments[i], keys[i] = c.Pin[:], c.Arguments, item.attachKey
		codes[i], messages[i], callers[i] = nullableText(c.Code), nullableText(c.Message), c.caller.encodeColumn()
		sums[i], traces[i] = item.keyedSum, c.trace.Bytes()
		if item.keyedSum != nil {
			ttls[i] = new(s.IdempotencyTTL.Microseconds())
		}
		requests[i], rules[i], grants[i] = c.request, encodeRules(c.Rules), postgres.OrNull(c.GrantID)
		if c.GateOnly {
			hosts[i] = &c.Host
		}
	}
	return []any{
		ids, agents, principals, conversations, skills, revisions, gated, statuses, tools, names,
		pins, arguments, keys, codes, messages, claimants, callers, sums, ttls, traces, requests, rules, grants, hosts,
	}
}

func movesOf(items []*intakeItem) []*move {
	list := make([]*move, len(items))
	for i, item := range items {
		list[i] = item.move
	}
	return list
}

// nullableText returns the value of a text column, with NUL and invalid UTF-8 replaced. Nil: the text is empty.
func nullableText(s string) *string {
	if s == "" {
		return nil
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	return &s
}

// A limit above [MaxPending] may be exceeded a little, because counting for each batch of calls would cost more than recording them. A
// count serves further calls of the process for countAge, as long as they take at most an eighth of the free places.
const (
	countAge   = time.Second
	countShare = 8
)

// pendingCounts caches counts of agents with limits above [MaxPending].
type pendingCounts struct {
	mu     sync.Mutex
	agents map[uuid.UUID]pendingCount
}

// pendingCount is the number of calls that an agent may add before the next count.
type pendingCount struct {
	at    time.Time
	limit int
	left  int
}

// takePlaces takes n places of an earlier count. It reports false if there are fewer, or the limit has changed.
func (c *pendingCounts) takePlaces(agentID uuid.UUID, limit, n int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.agents[agentID]
	if counted.limit != limit || counted.left < n || elapsedTime(now, counted.at) > countAge {
		return false
	}
	counted.left -= n
	c.agents[agentID] = counted
	return true
}

// storeCount caches the free places of an agent.
func (c *pendingCounts) storeCount(agentID uuid.UUID, limit, places int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, counted := range c.agents {
		if elapsedTime(now, counted.at) > countAge {
			delete(c.agents, id)
		}
	}
	c.agents[agentID] = pendingCount{now, limit, places / countShare}
}

// pendingOwner identifies calls that are counted together.
type pendingOwner struct{ agent, principal uuid.UUID }

// pendingCalls counts the waiting calls of agents that are locked.
type pendingCalls struct {
	agents map[uuid.UUID]int
	owners map[pendingOwner]int
}

// waitsForPeople reports whether the call is recorded as parked or as waiting for a connection.
func (item *intakeItem) waitsForPeople() bool { return item.parking != nil || item.wait != nil }

func (item *intakeItem) pendingOwner() pendingOwner {
	return pendingOwner{item.call.AgentID, item.call.PrincipalID}
}

// countPending locks the agents of the items that would wait, so that no other process counts at the same time, and counts their waiting
// calls. The transaction takes these locks before all others. An agent with places from an earlier count is neither locked nor counted.
func (s *Service) countPending(ctx context.Context, tx pgx.Tx, items []*intakeItem) (*pendingCalls, error) {
	p := &pendingCalls{agents: map[uuid.UUID]int{}, owners: map[pendingOwner]int{}}
	limits, more, now := map[uuid.UUID]int{}, map[uuid.UUID]int{}, s.Now()
	for _, item := range items {
		if item.waitsForPeople() {
			limits[item.call.AgentID] = max(limits[item.call.AgentID], item.pendingLimit)
			more[item.call.AgentID]++
		}
	}
	var agents []uuid.UUID
	for id, n := range more {
		if !s.counts.takePlaces(id, limits[id], n, now) {
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
			p.owners[pendingOwner{agentID, postgres.OrNil(principal)}] = n
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("count waiting calls: %w", err)
	}
	for _, id := range agents {
		if limits[id] > MaxPending {
			s.counts.storeCount(id, limits[id], limits[id]-p.agents[id]-more[id], now)
		}
	}
	return p, nil
}

// findExceeded returns the limit that an item would exceed. Nil: none.
func (p *pendingCalls) findExceeded(item *intakeItem) *PendingError {
	if !item.waitsForPeople() {
		return nil
	}
	if n := p.owners[item.pendingOwner()]; n >= item.pendingLimit {
		return &PendingError{Waiting: n, Limit: item.pendingLimit}
	}
	if n, most := p.agents[item.call.AgentID], max(MaxPending, item.pendingLimit); n >= most {
		return &PendingError{Waiting: n, Limit: most, Total: true}
	}
	return nil
}

// addItem counts a call that was inserted.
func (p *pendingCalls) addItem(item *intakeItem) {
	if item.waitsForPeople() {
		p.agents[item.call.AgentID]++
		p.owners[item.pendingOwner()]++
	}
}
