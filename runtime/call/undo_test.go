package call_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// approveWithUndo approves a call and keeps the time to take that back open, whatever the clock of this machine says.
func (w *world) approveWithUndo(id uuid.UUID) {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	decided, err := w.calls.Decide(w.t.Context(), call.Decision{CallID: id, Approve: true, Undo: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer})
	check(w.t, err)
	if decided.Approval.UndoUntil == nil || !decided.Approval.UndoUntil.After(*decided.Approval.DecidedAt) {
		w.t.Fatalf("held until %v", decided.Approval.UndoUntil)
	}
	w.db.Exec(`UPDATE approvals SET undo_until = holdpoint_now() + interval '1 hour' WHERE call_id = $1 AND undo_until IS NOT NULL`, id)
}

func TestUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	w.approveWithUndo(ticket.ID)
	if _, err := w.calls.Undo(t.Context(), ticket.ID, uuid.New()); !errors.Is(err, approval.ErrNotDecider) {
		t.Errorf("undone by another person: %v", err)
	}
	reopened, err := w.calls.Undo(t.Context(), ticket.ID, w.reviewer)
	check(t, err)
	if a := reopened.Approval; reopened.Call.Status != call.Parked || a.Status != approval.Pending || !a.Deadline.Equal(ticket.Deadline) || a.DecidedAt != nil {
		t.Errorf("undone: %s, %+v", reopened.Call.Status, a)
	}
	if _, err := w.calls.Undo(t.Context(), ticket.ID, w.reviewer); !errors.Is(err, approval.ErrTooLate) {
		t.Errorf("undone twice: %v", err)
	}
	if n := len(w.source.Arguments()); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	check(t, w.decide(ticket.ID, true))
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Errorf("approved again: %s", c.Status)
	}
	if _, err := w.calls.Undo(t.Context(), ticket.ID, w.reviewer); !errors.Is(err, approval.ErrTooLate) {
		t.Errorf("undone without a time to do so: %v", err)
	}
	if got, want := w.db.Actions(ticket.ID), "call.parked approval.approved approval.undone approval.approved call.executing call.succeeded"; got != want {
		t.Errorf("audit log: %s, want %s", got, want)
	}
}

// A held call is sent when the time to take the approval back is over.
func TestHeldCallIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	w.approveWithUndo(ticket.ID)
	w.db.MoveClock("61 minutes")
	w.db.Exec(`UPDATE approvals SET approved_until = holdpoint_now() + interval '1 hour' WHERE call_id = $1`, ticket.ID)
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Errorf("after the time: %s %s", c.Status, c.Message)
	}
	if _, err := w.calls.Undo(t.Context(), ticket.ID, w.reviewer); !errors.Is(err, approval.ErrTooLate) {
		t.Errorf("undone after it was sent: %v", err)
	}
}

// An approval that is taken back after the deadline expires.
func TestUndoAfterTheDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	w.approveWithUndo(ticket.ID)
	w.db.MoveClock("2 minutes")
	w.db.Exec(`UPDATE approvals SET approved_until = holdpoint_now() + interval '1 hour' WHERE call_id = $1`, ticket.ID)
	undone, err := w.calls.Undo(t.Context(), ticket.ID, w.reviewer)
	check(t, err)
	if undone.Call.Status != call.Expired || undone.Approval.Status != approval.Expired {
		t.Errorf("undone after the deadline: %s, %s", undone.Call.Status, undone.Approval.Status)
	}
	if c := w.waitForEnd(ticket.ID); c.Status != call.Expired || len(w.source.Arguments()) != 0 {
		t.Errorf("the agent gets %s; %d calls were sent", c.Status, len(w.source.Arguments()))
	}
}

// A decision has the dashboard's figures, and none if nothing was measured.
func TestSeenIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`)
	waiting, err := w.calls.GetApproval(t.Context(), first.ID)
	check(t, err)
	seen := approval.Seen{Rows: 1, Of: 1, Unusual: 1, Shown: 2300 * 1e6, SecondStep: true}
	decided, err := w.calls.Decide(t.Context(), call.Decision{CallID: first.ID, Approve: true, Seen: &seen, Digest: waiting.Approval.Digest.String(), By: w.reviewer})
	check(t, err)
	if decided.Approval.Seen == nil || *decided.Approval.Seen != seen {
		t.Errorf("seen: %+v", decided.Approval.Seen)
	}
	check(t, w.decide(second.ID, false))
	if rejected, err := w.calls.GetApproval(t.Context(), second.ID); err != nil || rejected.Approval.Seen != nil {
		t.Errorf("not measured: %+v, %v", rejected.Approval.Seen, err)
	}
}
