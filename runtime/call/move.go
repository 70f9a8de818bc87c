package call

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// move is one change of a call's status: a row of [transitions] applied to a call. Nothing else changes a status.
type move struct {
	event event
	id    uuid.UUID
	outcome
	actor  audit.Actor // zero: Holdpoint itself
	data   map[string]any
	origin audit.Origin

	agentID uuid.UUID          // uuid.Nil: not known here
	call    *Call              // the call before the move; nil: not known here
	settled *approval.Approval // the approval that is settled with the move, pending before and settled after it; nil: none
	// settlement is stored in settled; nil if settled is nil
	settlement *approval.Settlement
	errorLine  string
	localOnly  bool // only this process has waiters

	gateOnly   bool          // the call is released to its caller, which waits for that, and Holdpoint sends nothing
	dispatched bool          // this process sends the approved call, and its job waits for that
	undo       time.Duration // the approved call is not claimed before
	jobID      int64         // of an approved call, after the move

	made bool // whether the call has moved
}

// justWritten is an SQL condition that holds for calls that the current transaction changed.
const justWritten = `EXISTS (SELECT FROM calls WHERE calls.id = e.subject_id AND calls.xmin = pg_current_xact_id()::xid)`

// queueMoves adds moves of one event to a batch, with all that is stored of those that are made: the settled approval, the job that
// sends an approved call, audit events, callbacks and notifications. After the batch is closed, [move.made] tells which ones were.
// Closing it returns [ErrState] if an approval is settled whose call is not parked; then nothing has moved.
func (s *Service) queueMoves(batch *pgx.Batch, moves ...*move) error {
	t := s.transitions[moves[0].event]
	byID, ids := make(map[uuid.UUID]*move, len(moves)), make([]string, 0, len(moves))
	for _, m := range moves {
		if m.event != t.event || !slices.Contains(t.to, m.status) {
			return fmt.Errorf("move call %s: %s does not lead to %s", m.id, m.event, m.status)
		}
		m.made, byID[m.id] = false, m
		if (t.announce || m.gateOnly) && !m.localOnly {
			ids = append(ids, m.id.String())
		}
	}
	update, args := t.update, s.moveColumns(moves)
	if len(moves) == 1 {
		update, args = t.updateOne, append(args[:1:1], postgres.FirstRow(args[1:])...)
	}
	batch.Queue(update, args...).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error { byID[id].made = true; return nil })
		for _, m := range moves {
			if err == nil && m.settled != nil && !m.made {
				err = fmt.Errorf("move call: %w: it is not parked", ErrState)
			}
		}
		return err
	})
	for _, m := range moves {
		if m.settled != nil {
			approval.QueueSettle(batch, justWritten, m.settled, *m.settlement, m.origin)
		}
		if m.status == Approved && !m.gateOnly {
			wait := time.Duration(0)
			if m.dispatched {
				wait = m.undo + dispatchGrace
			}
			queueExecuteJobs(batch, justWritten, []uuid.UUID{m.id}, wait, &m.jobID)
		}
	}
	if t.endsWait() {
		batch.Queue(`UPDATE call_connections AS e SET ended_at = holdpoint_now() FROM unnest($1::uuid[]) AS m(subject_id)
			WHERE e.call_id = m.subject_id AND EXISTS (SELECT FROM calls WHERE calls.id = e.call_id AND calls.xmin = pg_current_xact_id()::xid)`,
			moveIDs(moves))
	}
	if err := s.queueRecords(batch, justWritten, moves); err != nil {
		return err
	}
	if len(ids) > 0 {
		batch.Queue(`SELECT pg_notify($1, id) FROM unnest($2::text[]) AS id`, Channel, ids)
	}
	return nil
}

// queueRecords adds the audit events and callbacks of moves to a batch, each under an SQL condition in which e.subject_id is the
// call.
func (s *Service) queueRecords(batch *pgx.Batch, condition string, moves []*move) error {
	events := make([]audit.Event, len(moves))
	var happened []Happening
	for i, m := range moves {
		t := s.transitions[m.event]
		events[i] = audit.Event{Actor: m.actor, Action: t.auditAction(m.status), Subject: m.id, Data: m.data, Origin: m.origin}
		if m.actor == (audit.Actor{}) {
			events[i].Actor = audit.System()
		}
		for _, kind := range t.happeningKinds(m.status) {
			happened = append(happened, Happening{CallID: m.id, AgentID: m.agentID, Kind: kind})
		}
	}
	if err := audit.QueueIf(batch, condition, events...); err != nil {
		return err
	}
	if s.Publish == nil || len(happened) == 0 {
		return nil
	}
	return s.Publish(batch, condition, happened)
}

// moveInTx makes moves of one event in tx. Errors: those of [Service.queueMoves].
func (s *Service) moveInTx(ctx context.Context, tx pgx.Tx, moves ...*move) error {
	if len(moves) == 0 {
		return nil
	}
	batch, err := s.prepareMoves(ctx, tx, moves...)
	if err == nil {
		err = tx.SendBatch(ctx, batch).Close()
	}
	if err != nil {
		return fmt.Errorf("move calls: %w", err)
	}
	return nil
}

// prepareMoves returns the batch that makes moves of one event, which may be the last one of a transaction. It notifies people in tx that
// the settled approvals are no longer pending.
func (s *Service) prepareMoves(ctx context.Context, tx pgx.Tx, moves ...*move) (*pgx.Batch, error) {
	var settled []Attention
	for _, m := range moves {
		if m.actor != (audit.Actor{}) {
			m.origin = audit.OriginOf(ctx, m.actor)
		}
		if m.settled != nil {
			settled = append(settled, newSettledAttention(*m.settled))
		}
	}
	if err := s.notifyPeople(ctx, tx, settled...); err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	return batch, s.queueMoves(batch, moves...)
}

// moveCalls makes moves of one event that settle no approvals, in one round trip.
func (s *Service) moveCalls(ctx context.Context, pool *pgxpool.Pool, moves ...*move) error {
	batch, err := s.prepareMoves(ctx, nil, moves...)
	if err == nil {
		err = pool.SendBatch(ctx, batch).Close()
	}
	return err
}

// announceMoves follows the commit of moves: it wakes the waiters of the calls, and writes metrics and spans.
func (s *Service) announceMoves(ctx context.Context, moves ...*move) {
	var ended []uuid.UUID
	for _, m := range moves {
		if m == nil || !m.made {
			continue
		}
		t := s.transitions[m.event]
		after := m.callAfter()
		if t.announce || m.gateOnly {
			s.hub.wake(m.id, after)
		}
		if m.settled != nil {
			s.recordDecision(ctx, m.settled)
		}
		if t.endsWait() {
			s.traceConnectionWait(ctx, m.id)
		}
		switch {
		case !m.status.Final():
		case after != nil:
			s.recordEnd(ctx, after)
		default:
			ended = append(ended, m.id)
		}
	}
	s.RecordEnds(ctx, ended...)
}

// callAfter returns the call after a move to its end. Nil: it is not known here.
func (m *move) callAfter() *Call {
	if m.call == nil || !m.status.Final() {
		return nil
	}
	c := *m.call
	c.Status, c.Code, c.Failure, c.Effect, c.Message, c.Result = m.status, m.code, m.failure, m.effect, m.message, m.result
	return &c
}

func moveIDs(moves []*move) []uuid.UUID {
	ids := make([]uuid.UUID, len(moves))
	for i, m := range moves {
		ids[i] = m.id
	}
	return ids
}

// moveColumns returns the arguments of [transition.buildUpdate].
func (s *Service) moveColumns(moves []*move) []any {
	n := len(moves)
	statuses, final := make([]string, n), make([]bool, n)
	codes, failures, effects, messages := make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
	results, measured, lines := make([][]byte, n), make([]*string, n), make([]*string, n)
	for i, m := range moves {
		statuses[i], final[i] = string(m.status), m.status.Final()
		codes[i], failures[i] = nullableText(m.code), nullableText(string(m.failure))
		effects[i], messages[i], results[i] = nullableText(string(m.effect)), nullableText(m.message), m.result
		lines[i] = nullableText(m.errorLine)
		if m.call != nil && m.event == onFinish {
			measured[i] = m.call.Measures.encodeColumn()
		}
	}
	claimant := &s.Instance
	if moves[0].event == onRelease { // its caller has the call then
		claimant = nil
	}
	return []any{claimant, moveIDs(moves), statuses, codes, failures, effects, messages, results, measured, lines, final}
}
