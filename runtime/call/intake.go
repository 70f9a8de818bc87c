package call

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// intakeItem is one call on its way into the database, and what became of it.
type intakeItem struct {
	call      *Call
	attachKey []byte // nil: nothing attaches to it
	keyed     keyed
	parking   *parking                                            // nil: it is not parked
	wait      *connectWait                                        // nil: it does not wait for a connection
	begin     func(ctx context.Context, tx pgx.Tx, c *Call) error // of a carried call
	move      *move

	pendingLimit int // of the agent's calls for one principal, if it waits

	ticket Ticket
	err    error
}

const (
	// intakeLimit is for how long a call is recorded again and again: a restart or a failover of the database.
	intakeLimit    = time.Minute
	attachAttempts = 5
)

// intakeConfig configures the batchers that record calls.
func (s *Service) intakeConfig() batcherConfig[intakeItem] {
	return batcherConfig[intakeItem]{
		write: s.tryIntake, most: 2, now: s.Now,
		retry: func(item *intakeItem, err error, elapsed time.Duration) bool {
			again := isRetryable(err) && elapsed < intakeLimit
			s.Logger.Warn("recording a call failed", "call", item.call.ID, "error", err, "retry", again)
			return again
		},
		size: func(item *intakeItem) int {
			return len(item.call.Arguments) + len(item.call.Made()) + len(item.call.request)
		},
	}
}

// recordCall records a call, with others that come in at the same time. The error is also the item's.
func (s *Service) recordCall(batch *batcher[intakeItem], item *intakeItem) {
	began := s.Now()
	if err := batch.do(item); err != nil {
		if !gone(err) {
			s.hurry() // it may be committed all the same
		}
		item.err = fmt.Errorf("record call: %w", err)
	}
	s.took(item.call, StepLog, began)
}

func (s *Service) tryIntake(ctx context.Context, items []*intakeItem) error {
	plain := true
	for _, item := range items {
		item.err, item.ticket = nil, Ticket{ID: item.call.ID, Status: item.call.Status, Gated: item.call.Gated}
		plain = plain && item.attachKey == nil && item.parking == nil && item.wait == nil && len(item.call.Files) == 0
	}
	if plain {
		return s.intakeInOneTrip(ctx, items)
	}
	return s.intakeInTx(ctx, items)
}

// intakeInOneTrip records calls that nothing can attach to and nobody decides
// about: one pipelined, implicit transaction. A repeated attempt finds them by id.
func (s *Service) intakeInOneTrip(ctx context.Context, items []*intakeItem) error {
	batch := &pgx.Batch{}
	if len(items) <= fewItems {
		for _, item := range items {
			batch.Queue(insertCallSQL, item.columns()...)
		}
	} else {
		batch.Queue(insertCallsSQL, callColumns(items)...)
	}
	if err := s.queueRecords(batch, "true", movesOf(items)); err != nil {
		return err
	}
	if late := s.stragglers(items); len(late) > 0 {
		batch.Queue(insertStragglersSQL, late)
	}
	failpoint.Hit(failpoint.SubmitBeforeCommit)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		if isUniqueViolation(err) {
			return s.intakeInTx(ctx, items) // an earlier attempt was committed after all
		}
		return fmt.Errorf("insert calls: %w", err)
	}
	failpoint.Hit(failpoint.SubmitAfterCommit)
	return nil
}

func (s *Service) intakeInTx(ctx context.Context, items []*intakeItem) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		fresh, err := s.insertWithin(ctx, tx, items)
		if err != nil {
			return err
		}
		if late := s.stragglers(fresh); len(late) > 0 {
			if _, err := tx.Exec(ctx, insertStragglersSQL, late); err != nil {
				return fmt.Errorf("note calls with old ids: %w", err)
			}
		}
		if err := s.park(ctx, tx, fresh); err != nil {
			return err
		}
		if err := recordFiles(ctx, tx, fresh); err != nil {
			return err
		}
		if err := beginCarried(ctx, tx, fresh); err != nil {
			return err
		}
		failpoint.Hit(failpoint.SubmitBeforeCommit)
		return nil
	})
	if err == nil {
		failpoint.Hit(failpoint.SubmitAfterCommit)
	}
	return err
}

// park writes what belongs to freshly inserted calls: audit events, and for
// parked ones the approval and the job that expires it.
func (s *Service) park(ctx context.Context, tx pgx.Tx, items []*intakeItem) error {
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
	deadlines, err := s.insertWaits(ctx, tx, items)
	if err != nil || len(deadlines) == 0 {
		return err
	}
	jobs := make([]river.InsertManyParams, 0, len(deadlines))
	for _, item := range items {
		if deadline, waits := deadlines[item.call.ID]; waits {
			jobs = append(jobs, expireJob(item.call.ID, deadline))
		}
	}
	if _, err := s.river.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert expiry jobs: %w", err)
	}
	for _, item := range items {
		item.ticket.Deadline = deadlines[item.call.ID]
	}
	return nil
}

// insertWaits stores what calls wait for, and returns until when they do.
func (s *Service) insertWaits(ctx context.Context, tx pgx.Tx, items []*intakeItem) (map[uuid.UUID]time.Time, error) {
	var parkings []parking
	deadlines := map[uuid.UUID]time.Time{}
	for _, item := range items {
		if item.parking != nil {
			parkings = append(parkings, *item.parking)
		}
		if item.wait != nil {
			deadline, err := item.wait.insert(ctx, tx, item.call)
			if err != nil {
				return nil, err
			}
			deadlines[item.call.ID] = deadline
		}
	}
	if len(parkings) == 0 {
		return deadlines, nil
	}
	parked, err := s.parkedNow(ctx, tx, parkings)
	if err != nil {
		return nil, err
	}
	maps.Copy(deadlines, parked)
	return deadlines, nil
}

// fewItems are cheaper as statements of their own, in one trip, than as one that unnests arrays.
const fewItems = 4

const insertCallSQL = `INSERT INTO calls (id, agent_id, principal_id, conversation_id, skill_id, skill_revision,
		gated, status, tool, exposed_name, pin, arguments, attach_key, code, message, claimed_by, caller, keyed_sum,
		trace, request, keyed_until, claimed_at, finished_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $20, $21,
		CASE WHEN $19::bigint IS NOT NULL THEN holdpoint_now() + $19::bigint * interval '1 microsecond' END,
		CASE WHEN $16::uuid IS NOT NULL THEN holdpoint_now() END,
		CASE WHEN $8::text IN ('invalid', 'denied') THEN holdpoint_now() END)`

func (item *intakeItem) columns() []any {
	c := item.call
	return []any{
		c.ID, c.AgentID, postgres.OrNull(c.PrincipalID), postgres.OrNull(c.ConversationID), c.SkillID, c.SkillRevision,
		c.Gated, string(c.Status), c.Tool, c.ExposedName, c.Pin[:], []byte(c.Arguments), item.attachKey,
		nullableText(c.Code), nullableText(c.Message), postgres.OrNull(c.claimedBy), c.caller.stored(), item.keyed.sum,
		item.keyed.microseconds(), c.trace.Bytes(), []byte(c.request),
	}
}

const insertCallsSQL = `INSERT INTO calls (id, agent_id, principal_id, conversation_id, skill_id, skill_revision,
		gated, status, tool, exposed_name, pin, arguments, attach_key, code, message, claimed_by, caller, keyed_sum,
		trace, request, keyed_until, claimed_at, finished_at)
	SELECT id, agent_id, principal_id, conversation_id, skill_id, skill_revision,
		gated, status, tool, exposed_name, pin, arguments, attach_key, code, message, claimed_by, caller, keyed_sum, trace, request,
		CASE WHEN keyed_for IS NOT NULL THEN holdpoint_now() + keyed_for * interval '1 microsecond' END,
		CASE WHEN claimed_by IS NOT NULL THEN holdpoint_now() END,
		CASE WHEN status IN ('invalid', 'denied') THEN holdpoint_now() END
	FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bigint[], $7::boolean[], $8::text[],
		$9::text[], $10::text[], $11::bytea[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::uuid[],
		$17::jsonb[], $18::bytea[], $19::bigint[], $20::bytea[], $21::bytea[])
		AS c(id, agent_id, principal_id, conversation_id, skill_id, skill_revision, gated, status,
		tool, exposed_name, pin, arguments, attach_key, code, message, claimed_by, caller, keyed_sum, keyed_for, trace, request)
	ORDER BY attach_key`

// insertCalls inserts those that are new, in the order of their attach keys, so that two transactions
// with the same calls wait for each other one way only.
func insertCalls(ctx context.Context, tx pgx.Tx, items []*intakeItem) (map[uuid.UUID]bool, error) {
	if len(items) <= fewItems {
		sorted := slices.SortedFunc(slices.Values(items), func(a, b *intakeItem) int { return bytes.Compare(a.attachKey, b.attachKey) })
		batch := &pgx.Batch{}
		for _, item := range sorted {
			batch.Queue(insertCallSQL+` ON CONFLICT DO NOTHING RETURNING id`, item.columns()...)
		}
		inserted, err := sendUpdates(tx.SendBatch(ctx, batch), len(items))
		if err != nil {
			return nil, fmt.Errorf("insert calls: %w", err)
		}
		return inserted, nil
	}
	rows, err := tx.Query(ctx, insertCallsSQL+` ON CONFLICT DO NOTHING RETURNING id`, callColumns(items)...)
	if err != nil {
		return nil, fmt.Errorf("insert calls: %w", err)
	}
	inserted := make(map[uuid.UUID]bool, len(items))
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { inserted[id] = true; return nil }); err != nil {
		return nil, fmt.Errorf("insert calls: %w", err)
	}
	return inserted, nil
}

func callColumns(items []*intakeItem) []any {
	n := len(items)
	ids, agents, skills := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	principals, conversations, claimants := make([]*uuid.UUID, n), make([]*uuid.UUID, n), make([]*uuid.UUID, n)
	revisions, gated := make([]int64, n), make([]bool, n)
	statuses, tools, names := make([]string, n), make([]string, n), make([]string, n)
	pins, arguments, keys := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	codes, messages, callers := make([]*string, n), make([]*string, n), make([]*string, n)
	sums, ttls, traces, requests := make([][]byte, n), make([]*int64, n), make([][]byte, n), make([][]byte, n)
	for i, item := range items {
		c := item.call
		ids[i], agents[i], skills[i] = c.ID, c.AgentID, c.SkillID
		principals[i], conversations[i], claimants[i] = postgres.OrNull(c.PrincipalID), postgres.OrNull(c.ConversationID), postgres.OrNull(c.claimedBy)
		revisions[i], gated[i] = c.SkillRevision, c.Gated
		statuses[i], tools[i], names[i] = string(c.Status), c.Tool, c.ExposedName
		pins[i], arguments[i], keys[i] = c.Pin[:], c.Arguments, item.attachKey
		codes[i], messages[i], callers[i] = nullableText(c.Code), nullableText(c.Message), c.caller.stored()
		sums[i], ttls[i], traces[i] = item.keyed.sum, item.keyed.microseconds(), c.trace.Bytes()
		requests[i] = c.request
	}
	return []any{
		ids, agents, principals, conversations, skills, revisions, gated, statuses, tools, names,
		pins, arguments, keys, codes, messages, claimants, callers, sums, ttls, traces, requests,
	}
}

func movesOf(items []*intakeItem) []*move {
	list := make([]*move, len(items))
	for i, item := range items {
		list[i] = item.move
	}
	return list
}

// nullableText makes a text column's value of words that may come from
// outside: PostgreSQL's text holds neither NUL nor invalid UTF-8.
func nullableText(s string) *string {
	if s == "" {
		return nil
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	return &s
}
