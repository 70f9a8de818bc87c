package call_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// forget makes the database forget the decision about a call and all that followed.
const forget = `WITH undecided AS (UPDATE approvals SET status = 'pending', decided_at = NULL, decided_by = NULL, note = NULL WHERE call_id = $1)
	UPDATE calls SET status = 'parked', claimed_by = NULL, claimed_at = NULL, finished_at = NULL, result = NULL WHERE id = $1`

// forgetConnection makes the database forget that a call's skill was connected, and all that followed.
const forgetConnection = `WITH waiting AS (UPDATE call_connections SET ended_at = NULL, deadline = holdpoint_now() + interval '1 hour' WHERE call_id = $1)
	UPDATE calls SET status = 'needs_connection', claimed_by = NULL, finished_at = NULL, result = NULL WHERE id = $1`

// reapprove is the approval of a forgotten call through another process.
const reapprove = `WITH decided AS (UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1)
	UPDATE calls SET status = 'approved' WHERE id = $1`

// TestRecallAfterAnotherClaim: on a new timeline, another process has claimed a call whose record lost that this one sent it.
func TestRecallAfterAnotherClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent, other := w.sendGated(), uuid.New()
	w.db.Exec(forget, sent)
	w.db.Exec(reapprove, sent)
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2, claimed_at = holdpoint_now() WHERE id = $1`, sent, other)
	w.db.Exec(`INSERT INTO instances (id) VALUES ($1)`, other)
	w.timeline.Store(1)
	check(t, w.calls.Beat(t.Context()))
	w.wantRecalled(sent)
}

// TestRecallDuringADecision: a forgotten call is approved while the process that sent it recalls it.
func TestRecallDuringADecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := w.sendGated()
	w.db.Exec(forget, sent)
	check(t, w.beatDuring(`SELECT FROM approvals WHERE call_id = $1 FOR UPDATE`, reapprove, sent))
	w.wantRecalled(sent)
}

// TestRecallDuringAResume: a forgotten call goes on in another process while the process that sent it recalls it.
func TestRecallDuringAResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := w.sendResumed("")
	w.source.Require(notConnected)
	w.db.Exec(forgetConnection, sent)
	if err := w.beatDuring(`SELECT FROM calls WHERE id = $1 FOR UPDATE`, `UPDATE calls SET status = 'approved' WHERE id = $1`, sent); !errors.Is(err, call.ErrState) {
		t.Errorf("the heartbeat says that all calls are recalled: %v", err)
	}
	check(t, w.calls.Beat(t.Context()))
	w.wantRecalled(sent)
}

// beatDuring begins a heartbeat on a new timeline while another transaction has locked a call and then moves it.
func (w *world) beatDuring(lock, move string, id uuid.UUID) error {
	w.t.Helper()
	tx, err := w.db.Pool().Begin(w.t.Context())
	check(w.t, err)
	_, err = tx.Exec(w.t.Context(), lock, id)
	check(w.t, err)
	w.timeline.Store(1)
	beaten := make(chan error, 1)
	go func() { beaten <- w.calls.Beat(w.t.Context()) }()
	eventually.Holds(w.t, "the heartbeat to wait for the other transaction", func() bool {
		var waiting bool
		check(w.t, tx.QueryRow(w.t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid IS NOT NULL
			AND transactionid = pg_current_xact_id()::xid)`).Scan(&waiting))
		return waiting
	})
	_, err = tx.Exec(w.t.Context(), move, id)
	check(w.t, err)
	check(w.t, tx.Commit(w.t.Context()))
	return <-beaten
}

// TestRecallOfAResumedCall: a call that waited for a connection is sent, and the database loses that it was connected.
func TestRecallOfAResumedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := w.sendResumed("")
	w.db.Exec(forgetConnection, sent)
	w.source.Require(notConnected)
	w.timeline.Store(1)
	check(t, w.calls.Beat(t.Context()))
	w.wantRecalled(sent)
	if n := w.db.Count("call_connections WHERE ended_at IS NULL"); n != 0 {
		t.Errorf("%d calls wait for a connection", n)
	}
}

// TestLostResumedCall: the database loses a call that waited for a connection and was sent. A repeat with its idempotency key attaches to
// the record that is made again.
func TestLostResumedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := w.sendResumed("k")
	w.db.Exec(`DELETE FROM call_connections WHERE call_id = $1`, sent)
	w.db.Exec(`DELETE FROM calls WHERE id = $1`, sent)
	w.timeline.Store(1)
	check(t, w.calls.Beat(t.Context()))
	w.wantRecalled(sent)
	sub := w.newSubmission("open__echo", `{}`)
	sub.IdempotencyKey = "k"
	again, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	if !again.Attached || again.ID != sent {
		t.Errorf("the repeat did not attach: %+v", again)
	}
}

// sendResumed returns a call that waited for a connection, and succeeded.
func (w *world) sendResumed(key string) uuid.UUID {
	w.t.Helper()
	w.source.Require(notConnected)
	sub := w.newSubmission("open__echo", `{}`)
	sub.IdempotencyKey = key
	ticket, err := w.calls.Submit(w.t.Context(), sub)
	check(w.t, err)
	w.connectSkill("open")
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		w.t.Fatalf("the call is %s", c.Status)
	}
	return ticket.ID
}

// sendGated returns a gated call that was sent and succeeded.
func (w *world) sendGated() uuid.UUID {
	w.t.Helper()
	ticket := w.submit("files__write", `{"n":1}`)
	check(w.t, w.decide(ticket.ID, true))
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		w.t.Fatalf("the call is %s", c.Status)
	}
	return ticket.ID
}

func (w *world) wantRecalled(id uuid.UUID) {
	w.t.Helper()
	c, err := w.calls.Get(w.t.Context(), call.Viewer{}, id)
	check(w.t, err)
	if c.Status != call.Unknown || c.Message != call.RecalledMessage {
		w.t.Errorf("the call is %s: %s", c.Status, c.Message)
	}
	if n := len(w.source.Arguments()); n != 1 {
		w.t.Errorf("%d calls arrived", n)
	}
}
