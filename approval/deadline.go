package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// MaxExtensions is how often a deadline may be extended, each time by the time that the approval had at first.
const MaxExtensions = 3

// Extend moves a pending approval's deadline by the time that it had at first, at most [MaxExtensions] times.
// The caller holds the row's lock; see [Lock]. Errors: *[ConflictError], [ErrExtended].
func Extend(ctx context.Context, tx pgx.Tx, a Approval) (Approval, error) {
	initial := a.InitialTime()
	if a.Status != Pending {
		return a, &ConflictError{Approval: a}
	}
	if a.Extended >= MaxExtensions*initial {
		return a, fmt.Errorf("extend approval %s: %w", a.CallID, ErrExtended)
	}
	return updatePending(ctx, tx, a, "extend", `deadline = deadline + $2 * interval '1 millisecond', extended_ms = extended_ms + $2`,
		initial.Milliseconds())
}

// MayExtend reports whether [Extend] would move the deadline.
func (a *Approval) MayExtend() bool {
	return a.Status == Pending && a.Extended < MaxExtensions*a.InitialTime()
}

// InitialTime returns the time that the approval had when it was made, in whole milliseconds: extensions are stored so.
func (a *Approval) InitialTime() time.Duration {
	return max(time.Millisecond, (a.Deadline.Sub(a.CreatedAt) - a.Extended).Round(time.Millisecond))
}
