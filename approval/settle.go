package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// MaxUndo bounds [Settlement.Undo].
const MaxUndo = 30 * time.Second

// Settlement is the outcome of an approval.
type Settlement struct {
	Status Status
	By     uuid.UUID // uuid.Nil: no person decided
	Note   string
	Seen   *Seen // nil: not measured
	// Undo is how long an approved call is not claimed, so that the reviewer can take the approval back. Zero: it is sent at once.
	Undo time.Duration
}

// Seen is what the dashboard measured before a decision. The reviewer's browser reports it, so it is a record and no proof.
type Seen struct {
	Rows, Of   int           // arguments that were on the screen, of all
	Unusual    int           // of all, those that differ from approved calls
	Shown      time.Duration // how long the call was on the screen
	SecondStep bool          // the reviewer confirmed in a second step
}

// Settle gives a pending approval its only outcome, and stores the origin of the decision that ctx carries. It returns a
// *[ConflictError] if the approval was settled before.
func Settle(ctx context.Context, tx pgx.Tx, a Approval, s Settlement) (Approval, error) {
	var via audit.Origin
	if s.By != uuid.Nil {
		via = audit.OriginOf(ctx, audit.Person(s.By))
	}
	var seen Seen
	if s.Seen != nil {
		seen = *s.Seen
	}
	return updatePending(ctx, tx, a, "settle", `status = $2, decided_at = holdpoint_now(), decided_by = $3, note = nullif($4, ''),
			taken_up_at = `+takenUpSQL+`, decided_credential_kind = nullif($5, ''), decided_credential_id = nullif($6, ''),
			decided_address = nullif($7, ''), undo_until = holdpoint_now() + nullif($8::bigint, 0) * interval '1 millisecond',
			seen_rows = CASE WHEN $9 THEN $10::int END, seen_of = CASE WHEN $9 THEN $11::int END, seen_unusual = CASE WHEN $9 THEN $12::int END,
			seen_ms = CASE WHEN $9 THEN $13::bigint END, second_step = CASE WHEN $9 THEN $14::boolean END`,
		s.Status, postgres.OrNull(s.By), s.Note, via.Credential.Kind, via.Credential.ID, via.Address, min(s.Undo, MaxUndo).Milliseconds(),
		s.Seen != nil, seen.Rows, seen.Of, seen.Unusual, seen.Shown.Milliseconds(), seen.SecondStep)
}

// Reopen makes an approved approval pending again, with its old deadline. Only the reviewer who approved it may do so, and only until
// the call may be claimed. The caller holds the row's lock, and now was read after it was taken; see [Lock]. Errors: [ErrTooLate],
// [ErrNotDecider].
func Reopen(ctx context.Context, tx pgx.Tx, a Approval, by uuid.UUID, now time.Time) (Approval, error) {
	switch {
	case a.Status != Approved || a.UndoUntil == nil || !a.UndoUntil.After(now):
		return a, ErrTooLate
	case a.DecidedBy != by:
		return a, ErrNotDecider
	}
	if a.EditedBy != uuid.Nil { // another reviewer approved the edit; see [AcceptEdit]
		a.Digest = EditDigest(a.editEnvelope, a.EditedBy)
	}
	rows, _ := tx.Query(ctx, `UPDATE approvals SET status = 'pending', digest = $2, decided_at = NULL, decided_by = NULL, note = NULL,
			decided_credential_kind = NULL, decided_credential_id = NULL, decided_address = NULL, undo_until = NULL,
			seen_rows = NULL, seen_of = NULL, seen_unusual = NULL, seen_ms = NULL, second_step = NULL
		WHERE call_id = $1 RETURNING `+approvalColumns, a.CallID, a.Digest[:])
	reopened, err := pgx.CollectExactlyOneRow(rows, scanApproval)
	if err != nil {
		return a, fmt.Errorf("reopen approval %s: %w", a.CallID, err)
	}
	return reopened, nil
}

// Unclaimable returns a condition in SQL: the call must not be claimed, because its approval has lapsed or its reviewer may still take it
// back. callID is an expression of the caller's statement.
func Unclaimable(callID string) string {
	return `EXISTS (SELECT FROM approvals WHERE approvals.call_id = ` + callID + ` AND status = 'approved'
		AND (` + lapsesAtSQL + ` <= holdpoint_now() OR undo_until > holdpoint_now()))`
}

// UndoLeft returns the time until an approved call may be claimed, or 0.
func UndoLeft(ctx context.Context, db postgres.Querier, a *Approval) (time.Duration, error) {
	if a.UndoUntil == nil {
		return 0, nil
	}
	now, err := queryRow[struct{ At time.Time }](ctx, db, "read the clock", `SELECT holdpoint_now()`)
	return max(0, a.UndoUntil.Sub(now.At)), err
}

// Errors of [Reopen].
var (
	// ErrTooLate: the call may be claimed, or the approval was not given with a time to take it back.
	ErrTooLate = errors.New("it is too late to take the approval back")
	// ErrNotDecider: another person approved the call.
	ErrNotDecider = errors.New("only the reviewer who approved a call may take that back")
)
