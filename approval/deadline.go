package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxExtensions is how often a deadline may be moved: each time by what the call was given at first.
const MaxExtensions = 3

// Extend moves a pending approval's deadline by the time that it was given at first, at most [MaxExtensions] times.
// The row's lock is held; see [Lock]. Errors: *[ConflictError], ErrExtended.
func Extend(ctx context.Context, tx pgx.Tx, a Approval) (Approval, error) {
	first := a.first()
	if a.Status != Pending {
		return a, &ConflictError{Approval: a}
	}
	if a.Extended >= MaxExtensions*first {
		return a, fmt.Errorf("extend approval %s: %w", a.CallID, ErrExtended)
	}
	rows, err := tx.Query(ctx, `UPDATE approvals SET deadline = deadline + $2 * interval '1 millisecond', extended_ms = extended_ms + $2
		WHERE call_id = $1 AND decided_at IS NULL RETURNING `+columns, a.CallID, first.Milliseconds())
	if err != nil {
		return a, fmt.Errorf("extend approval %s: %w", a.CallID, err)
	}
	extended, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, &ConflictError{Approval: a}
	}
	if err != nil {
		return a, fmt.Errorf("extend approval %s: %w", a.CallID, err)
	}
	return extended, nil
}

// MayExtend reports whether [Extend] would move the deadline.
func (a *Approval) MayExtend() bool {
	return a.Status == Pending && a.Extended < MaxExtensions*a.first()
}

// first is the time that the approval was given when it was made, in whole milliseconds, as what is added is stored.
func (a *Approval) first() time.Duration {
	return max(time.Millisecond, (a.Deadline.Sub(a.CreatedAt) - a.Extended).Round(time.Millisecond))
}

// Escalate has the second team asked about a pending approval. It reports false when there is none, when
// it was asked before, or when nothing waits any more.
func Escalate(ctx context.Context, tx pgx.Tx, callID uuid.UUID) (Approval, bool, error) {
	rows, err := tx.Query(ctx, `UPDATE approvals SET escalated_at = holdpoint_now()
		WHERE call_id = $1 AND status = 'pending' AND deadline > holdpoint_now() AND escalate_to IS NOT NULL AND escalated_at IS NULL
		RETURNING `+columns, callID)
	if err != nil {
		return Approval{}, false, fmt.Errorf("escalate approval %s: %w", callID, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, false, nil
	}
	if err != nil {
		return a, false, fmt.Errorf("escalate approval %s: %w", callID, err)
	}
	return a, true, nil
}
