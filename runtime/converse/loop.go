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
)

const loopColumns = `conversation_id, agent_id, principal_id, coalesce(handle, ''), status, coalesce(code, ''), stopping, step, job_id,
	attempts, seq, reply, submitted, open_calls, asked, turns, input_tokens, output_tokens, cost, depth, forked_from, claimed_by, created_at, run_from, trace`

// loop is a conversation as it is stored.
type loop struct {
	Conversation
	handle    string
	step      int64
	jobID     *int64
	attempts  int
	reply     int64 // the entry whose calls the model was not told of yet; 0: none
	submitted bool  // all calls of it were made
	asked     uuid.UUID
	claimedBy uuid.UUID
	runFrom   time.Time // when the message was taken up that it works on; zero: none was
	spans     *spans    // nil: the work is part of no trace

	over     []over
	fresh    []Entry // to be written
	finished []asked // carried calls to be completed
	events   []audit.Event
}

// asked is a call of the tool ask that has its answer.
type asked struct {
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
	l.PrincipalID, l.asked, l.ForkedFrom, l.claimedBy = deref(principal), deref(question), deref(forked), deref(claimant)
	return l, err
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func deref(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}

// add puts an entry at the end.
func (l *loop) add(e Entry) {
	l.Seq++
	e.Seq = l.Seq
	l.fresh = append(l.fresh, e)
}

// notice tells in plain words what happened.
func (l *loop) notice(code, text string, by uuid.UUID) {
	l.add(Entry{Kind: KindNotice, Notice: &Notice{Code: code, Text: text, By: by}})
}

// move changes the status; nobody has a claim on it after that.
func (l *loop) move(to Status) {
	l.Status, l.claimedBy = to, uuid.Nil
}

// change locks a conversation, lets f change it, and writes what it made of it. An error of f is returned as it is, and
// nothing is written.
func (s *Service) change(ctx context.Context, id uuid.UUID, f func(tx pgx.Tx, l *loop) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Once it has begun it is seen through: a commit whose answer nobody waits for is told to nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stale)
	defer cancel()
	var l *loop
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return s.changeTx(ctx, tx, id, func(tx pgx.Tx, now *loop) error { l = now; return f(tx, now) })
	})
	if err == nil {
		s.told(ctx, l)
	}
	return err
}

func (s *Service) changeTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, f func(tx pgx.Tx, l *loop) error) error {
	rows, err := tx.Query(ctx, `SELECT `+loopColumns+` FROM loops WHERE conversation_id = $1 FOR UPDATE`, id)
	if err != nil {
		return fmt.Errorf("lock conversation %s: %w", id, err)
	}
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
	return s.write(ctx, tx, l)
}

// write is one round trip, but for calls that are completed.
func (s *Service) write(ctx context.Context, tx pgx.Tx, l *loop) error {
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE loops SET status = $2, code = nullif($3, ''), stopping = $4,  attempts = $5, seq = $6, reply = $7, submitted = $8,
			open_calls = $9, asked = $10, turns = $11, input_tokens = $12, output_tokens = $13, cost = $14, claimed_by = $15,
			run_from = $16, trace = $17,
			leased_at = CASE WHEN $15::uuid IS NOT NULL THEN holdpoint_now() END,
			moved_at = CASE WHEN status <> $2 THEN holdpoint_now() ELSE moved_at END
		WHERE conversation_id = $1`, l.ID, string(l.Status), l.Code, l.Stopping, l.attempts, l.Seq, l.reply, l.submitted, l.OpenCalls,
		postgres.OrNull(l.asked), l.Turns, l.InputTokens, l.OutputTokens, l.Cost, postgres.OrNull(l.claimedBy), nullTime(l.runFrom), l.spans)
	for _, e := range l.fresh {
		data, err := json.Marshal(e.data())
		if err != nil {
			return fmt.Errorf("encode entry of conversation %s: %w", l.ID, err)
		}
		batch.Queue(`INSERT INTO loop_entries (conversation_id, seq, kind, data) VALUES ($1, $2, $3, $4::json)`,
			l.ID, e.Seq, string(e.Kind), string(data))
	}
	if len(l.fresh) > 0 || l.Status != Running { // a reply that was under way is whole now, or void
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
	for _, a := range l.finished {
		if err := s.Calls.Complete(ctx, tx, a.call, a.done(l.ID)); err != nil {
			return err
		}
	}
	return nil
}

// data is what is stored of an entry.
func (e *Entry) data() any {
	switch e.Kind {
	case KindUser:
		return e.User
	case KindAssistant:
		return e.Assistant
	case KindTools:
		return e.Tools
	case KindCall:
		return e.Call
	default:
		return e.Notice
	}
}

// read is the reverse of data.
func (e *Entry) read(data []byte) error {
	var into any
	switch e.Kind {
	case KindUser:
		e.User = &Message{}
		into = e.User
	case KindAssistant:
		e.Assistant = &Reply{}
		into = e.Assistant
	case KindTools:
		e.Tools = &Results{}
		into = e.Tools
	case KindCall:
		e.Call = &CallNews{}
		into = e.Call
	case KindNotice:
		e.Notice = &Notice{}
		into = e.Notice
	default:
		return fmt.Errorf("entry of unknown kind %q", e.Kind)
	}
	return json.Unmarshal(data, into)
}
