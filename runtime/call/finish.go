package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// finishItem is an outcome on its way into the database.
type finishItem struct {
	call     *Call
	outcome  outcome
	announce bool // whether another process may be waiting for it
	written  bool // false: the claim had been taken away

	errorLine string
}

// finish writes the outcome of a call that this instance claimed, by compare-and-set on the claim, and
// wakes its waiters. It retries until the database takes the outcome, which is known nowhere else. If the
// claim is gone, the outcome is kept as evidence.
func (s *Service) finish(c *Call, o outcome, announce bool) {
	item := &finishItem{call: c, outcome: o, announce: announce, errorLine: errorLine(c, &o)}
	began := s.Now()
	if s.outcomes.do(item) != nil {
		return // the process ends; another one marks the call unknown
	}
	s.traceStep(c, "log outcome", began, s.Now())
	s.flights.done(c.ID) // before waking: whoever sees the call in flight relies on being woken
	if !item.written {
		s.hub.wake(c.ID, nil)
		return
	}
	o = item.outcome
	done := *c
	done.Status, done.Code, done.Failure = o.status, o.code, o.failure
	done.Effect, done.Message, done.Result = o.effect, o.message, o.result
	s.hub.wake(c.ID, &done)
	s.told(s.running, &done)
}

// outcomesConfig configures the batcher that writes outcomes.
func (s *Service) outcomesConfig() batcherConfig[finishItem] {
	return batcherConfig[finishItem]{
		write: s.writeOutcomes, most: 4, now: s.Now,
		retry: func(item *finishItem, err error, _ time.Duration) bool {
			s.Logger.Error("writing an outcome failed; trying again", "call", item.call.ID, "status", item.outcome.status, "error", err)
			if isDataError(err) { // a result that cannot be stored must not keep the rest from being so
				item.outcome.result, item.outcome.message, item.errorLine = nil, "the result could not be stored", ""
			}
			return true
		},
		size: func(item *finishItem) int { return len(item.outcome.result) + len(item.outcome.message) },
	}
}

// writeOutcomes is one round trip: a pipelined, implicit transaction of the
// updates, the events of those that took, and the announcements.
func (s *Service) writeOutcomes(ctx context.Context, items []*finishItem) error {
	finished, agents := make([]audit.Event, len(items)), make([]uuid.UUID, len(items))
	var announce []string
	for i, item := range items {
		item.written = false
		finished[i], agents[i] = item.event(), item.call.AgentID
		if item.announce {
			announce = append(announce, item.call.ID.String())
		}
	}
	batch, updates := &pgx.Batch{}, 1
	if len(items) <= fewItems {
		updates = len(items)
		for _, item := range items {
			batch.Queue(updateOutcomeSQL, s.outcomeOf(item)...)
		}
	} else {
		batch.Queue(updateOutcomesSQL, s.outcomeColumns(items)...)
	}
	if err := s.recordIf(batch, justWritten, agents, finished...); err != nil {
		return err
	}
	queueReturned(batch, items)
	if len(announce) > 0 {
		batch.Queue(`SELECT pg_notify($1, id) FROM unnest($2::text[]) AS id`, Channel, announce)
	}
	failpoint.Hit(failpoint.FinishBeforeCommit)
	written, err := sendUpdates(s.Pool.SendBatch(ctx, batch), updates)
	if err != nil {
		return fmt.Errorf("write outcomes: %w", err)
	}
	failpoint.Hit(failpoint.FinishAfterCommit)
	for _, item := range items {
		if item.written = written[item.call.ID]; item.written {
			continue
		}
		if err := s.keepLate(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// sendUpdates sends a batch whose first statements update calls, and returns which they did.
func sendUpdates(results pgx.BatchResults, updates int) (map[uuid.UUID]bool, error) {
	written := map[uuid.UUID]bool{}
	var id uuid.UUID
	var err error
	for i := 0; i < updates && err == nil; i++ {
		rows, _ := results.Query() // an error here is an error of rows
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { written[id] = true; return nil })
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return written, nil
}

func (item *finishItem) event() audit.Event {
	e := audit.Event{Actor: audit.System(), Action: "call." + string(item.outcome.status), Subject: item.call.ID}
	if item.outcome.failure != "" {
		e.Data = map[string]any{"failure": item.outcome.failure, "effect": item.outcome.effect}
	}
	return e
}

const updateOutcomeSQL = `UPDATE calls SET status = $3, code = $4, failure = $5, effect = $6,
		message = $7, result = $8, measured = $9::text::bigint[], error_line = $10, finished_at = holdpoint_now()
	WHERE id = $2 AND status = 'executing' AND claimed_by = $1 RETURNING id`

func (s *Service) outcomeOf(item *finishItem) []any {
	o := item.outcome
	return []any{
		s.Instance, item.call.ID, string(o.status), nullableText(o.code), nullableText(string(o.failure)),
		nullableText(string(o.effect)), nullableText(o.message), []byte(o.result),
		item.call.Measures.stored(), nullableText(item.errorLine),
	}
}

const updateOutcomesSQL = `UPDATE calls SET status = o.status, code = o.code, failure = o.failure, effect = o.effect,
		message = o.message, result = o.result, measured = o.measured::bigint[], error_line = o.error_line, finished_at = holdpoint_now()
	FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[])
		AS o(id, status, code, failure, effect, message, result, measured, error_line)
	WHERE calls.id = o.id AND calls.status = 'executing' AND calls.claimed_by = $1 RETURNING calls.id`

// justWritten holds for calls that this very transaction changed.
const justWritten = `EXISTS (SELECT FROM calls WHERE calls.id = e.subject_id AND calls.xmin = pg_current_xact_id()::xid)`

func (s *Service) outcomeColumns(items []*finishItem) []any {
	n := len(items)
	ids, statuses := make([]uuid.UUID, n), make([]string, n)
	codes, failures, effects, messages := make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
	results, measured, lines := make([][]byte, n), make([]*string, n), make([]*string, n)
	for i, item := range items {
		o := item.outcome
		ids[i], statuses[i] = item.call.ID, string(o.status)
		codes[i], failures[i] = nullableText(o.code), nullableText(string(o.failure))
		effects[i], messages[i], results[i] = nullableText(string(o.effect)), nullableText(o.message), o.result
		measured[i], lines[i] = item.call.Measures.stored(), nullableText(item.errorLine)
	}
	return []any{s.Instance, ids, statuses, codes, failures, effects, messages, results, measured, lines}
}

// keepLate keeps an outcome that came after the call's claim was taken away. An
// outcome that an earlier, unconfirmed attempt had written is no late one.
func (s *Service) keepLate(ctx context.Context, item *finishItem) error {
	o := item.outcome
	evidence, err := json.Marshal(map[string]any{
		"status": o.status, "code": o.code, "effect": o.effect, "message": o.message, "result": string(o.result),
	})
	if err != nil {
		return fmt.Errorf("encode late outcome of call %s: %w", item.call.ID, err)
	}
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE calls SET late = $2 WHERE id = $1 AND status = 'unknown' AND late IS NULL`,
			item.call.ID, string(evidence))
		if err != nil {
			return fmt.Errorf("keep late outcome of call %s: %w", item.call.ID, err)
		}
		if tag.RowsAffected() == 0 {
			return tx.QueryRow(ctx, `SELECT status = $2 FROM calls WHERE id = $1`, item.call.ID, o.status).Scan(&item.written)
		}
		s.Logger.Warn("an outcome came after the call had become unknown; kept as evidence", "call", item.call.ID, "status", o.status)
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.System(), Action: "call.late_outcome", Subject: item.call.ID, Data: map[string]any{"status": o.status},
		})
	})
}
