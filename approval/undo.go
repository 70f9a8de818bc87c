package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

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
	return reopen(ctx, tx, a, "")
}

// AskAgain makes an approved approval pending again, for another reason or with other policies than before, and with the time that it had at
// first. Its votes are void. The caller holds the row's lock.
func AskAgain(ctx context.Context, tx pgx.Tx, a Approval, why Rule, policies []policy.Policy) (Approval, error) {
	a, err := reopen(ctx, tx, a, `, rule = $3, extended_ms = extract(epoch FROM holdpoint_now() - created_at) * 1000,
		deadline = holdpoint_now() + $4 * interval '1 millisecond', escalated_at = NULL, escalated_times = NULL,
		asked_teams = NULL, asked_people = NULL, asked_at = holdpoint_now(), approved_until = NULL`, why, a.InitialTime().Milliseconds())
	if err != nil || len(policies) == 0 && len(a.Policies) == 0 {
		return a, err
	}
	return ReplacePolicies(ctx, tx, a, policies)
}

// reopen makes an approval pending, with further assignments whose parameters begin at $3.
func reopen(ctx context.Context, tx pgx.Tx, a Approval, assignments string, args ...any) (Approval, error) {
	if a.EditedBy != uuid.Nil { // another reviewer approved the edit; see [AcceptEdit]
		a.Digest = EditDigest(a.editEnvelope, a.EditedBy)
	}
	reopened, err := postgres.CollectOne(ctx, tx, scanApproval, `UPDATE approvals SET status = 'pending', policies_met = false, broke_glass = false, glass_reviewed_by = NULL, glass_reviewed_at = NULL, glass_note = NULL,
			digest = $2, decided_at = NULL, decided_by = NULL, note = NULL,
			decided_credential_kind = NULL, decided_credential_id = NULL, decided_address = NULL, undo_until = NULL,
			seen_rows = NULL, seen_of = NULL, seen_unusual = NULL, seen_ms = NULL, second_step = NULL`+assignments+`
		WHERE call_id = $1 RETURNING `+approvalColumns, append([]any{a.CallID, a.Digest[:]}, args...)...)
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
