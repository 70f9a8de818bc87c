package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

const loopColumns = `conversation_id, agent_id, principal_id, coalesce(handle, ''), status, coalesce(code, ''), stopping, step, job_id,
	attempts, seq, reply, submitted, open_calls, asked, turns, input_tokens, output_tokens, cost, depth, forked_from, claimed_by, created_at, run_from, trace`

// loop is the stored row of a conversation, with the changes that a transaction makes to it.
type loop struct {
	Conversation
	handle    string
	step      int64
	jobID     *int64
	attempts  int
	reply     int64 // the entry whose results the model does not have yet; 0: none
	submitted bool  // all its calls were made
	asked     uuid.UUID
	claimedBy uuid.UUID
	runFrom   time.Time   // when the run began; zero: no run
	spans     *traceState // nil: the run has no trace

	finishedWork []finishedWork
	newEntries   []Entry        // written with the row
	answers      []answeredCall // carried calls that end with this change
	events       []audit.Event
}

// answeredCall is a call of the tool ask with its answer.
type answeredCall struct {
	call    uuid.UUID
	text    string
	isError bool
}

func scanLoop(row pgx.CollectableRow) (*loop, error) {
	l := &loop{}
	var principal, question, forked, claimant *uuid.UUID
	var runFrom *time.Time
	err := row.Scan(&l.ID, &l.AgentID, &principal, &l.handle, &l.Status, &l.Code, &l.Stopping, &l.step, &l.jobID,
		&l.attempts, &l.Seq, &l.reply, &l.submitted, &l.OpenCalls, &question, &l.Turns, &l.InputTokens, &l.OutputTokens,
		&l.Cost, &l.Depth, &forked, &claimant, &l.CreatedAt, &runFrom, &l.spans)
	if runFrom != nil {
		l.runFrom = *runFrom
	}
	l.Cost = agent.RoundCost(l.Cost) // earlier versions stored sums as they were
	l.PrincipalID, l.asked, l.ForkedFrom, l.claimedBy = idOrNil(principal), idOrNil(question), idOrNil(forked), idOrNil(claimant)
	return l, err
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func idOrNil(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}

// appendEntry adds an entry at the end.
func (l *loop) appendEntry(e Entry) {
	l.Seq++
	e.Seq = l.Seq
	l.newEntries = append(l.newEntries, e)
}

// appendNotice adds a notice in plain words.
func (l *loop) appendNotice(code, text string, by uuid.UUID) {
	l.appendEntry(Entry{Kind: KindNotice, Notice: &Notice{Code: code, Text: text, By: by}})
}

// setStatus changes the status and removes the claim.
func (l *loop) setStatus(to Status) {
	l.Status, l.claimedBy = to, uuid.Nil
}

// changeLoop locks a conversation, lets f change it and writes the changes. If f returns an error, nothing is written and the
// error is returned as it is.
func (s *Service) changeLoop(ctx context.Context, id uuid.UUID, f func(tx pgx.Tx, l *loop) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Once begun, the change is not cancelled with the caller's context: the commit's result must be known for announceChange.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), suspectAfter)
	defer cancel()
	var l *loop
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return s.changeLoopTx(ctx, tx, id, func(tx pgx.Tx, now *loop) error { l = now; return f(tx, now) })
	})
	if err == nil {
		s.record.announceChange(ctx, l)
	}
	return err
}

func (s *Service) changeLoopTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, f func(tx pgx.Tx, l *loop) error) error {
	rows, _ := tx.Query(ctx, `SELECT `+loopColumns+` FROM loops WHERE conversation_id = $1 FOR UPDATE`, id)
	l, err := pgx.CollectExactlyOneRow(rows, scanLoop)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("lock conversation %s: %w", id, err)
	}
	if err := f(tx, l); err != nil {
		return err
	}
	return s.writeLoop(ctx, tx, l)
}

// writeLoop writes in one round trip, except for completed calls.
func (s *Service) writeLoop(ctx context.Context, tx pgx.Tx, l *loop) error {
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE loops SET status = $2, code = nullif($3, ''), stopping = $4,  attempts = $5, seq = $6, reply = $7, submitted = $8,
			open_calls = $9, asked = $10, turns = $11, input_tokens = $12, output_tokens = $13, cost = $14, claimed_by = $15,
			run_from = $16, trace = $17,
			leased_at = CASE WHEN $15::uuid IS NOT NULL THEN holdpoint_now() END,
			moved_at = CASE WHEN status <> $2 THEN holdpoint_now() ELSE moved_at END
		WHERE conversation_id = $1`, l.ID, string(l.Status), l.Code, l.Stopping, l.attempts, l.Seq, l.reply, l.submitted, l.OpenCalls,
		postgres.OrNull(l.asked), l.Turns, l.InputTokens, l.OutputTokens, l.Cost, postgres.OrNull(l.claimedBy), nullTime(l.runFrom), l.spans)
	for _, e := range l.newEntries {
		data, err := json.Marshal(e.content())
		if err != nil {
			return fmt.Errorf("encode entry of conversation %s: %w", l.ID, err)
		}
		batch.Queue(`INSERT INTO loop_entries (conversation_id, seq, kind, data) VALUES ($1, $2, $3, $4::json)`,
			l.ID, e.Seq, string(e.Kind), string(data))
	}
	if len(l.newEntries) > 0 || l.Status != Running { // the reply is now complete, or discarded
		batch.Queue(`DELETE FROM loop_drafts WHERE conversation_id = $1`, l.ID)
	}
	batch.Queue(`SELECT pg_notify($1, $2)`, Channel, l.ID.String())
	if l.Status == Due {
		batch.Queue(`SELECT pg_notify($1, '')`, Channel)
	}
	if err := audit.Queue(batch, l.events...); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("write conversation %s: %w", l.ID, err)
	}
	for _, a := range l.answers {
		if err := s.Calls.Complete(ctx, tx, a.call, a.buildOutcome(l.ID)); err != nil {
			return err
		}
	}
	return nil
}
