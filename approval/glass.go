package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Errors about approvals that one person gives alone.
var (
	// ErrNoBreakGlass: a policy of the call does not allow it, or the call has none.
	ErrNoBreakGlass = errors.New("the policy of this call lets nobody approve alone")
	// ErrOwnGlass: the person who approved alone does not review that.
	ErrOwnGlass = errors.New("another person has to review an approval that one person gave alone")
	// ErrGlassReviewed: another person was first.
	ErrGlassReviewed = errors.New("the approval was reviewed before")
)

// ReviewGlass records that a person reviewed an approval that another one gave alone. The caller holds the row's lock. Errors: [ErrNotFound],
// [ErrGlassReviewed].
func ReviewGlass(ctx context.Context, tx pgx.Tx, a Approval, by uuid.UUID, note string) (Approval, error) {
	switch {
	case !a.BrokeGlass:
		return a, ErrNotFound
	case a.GlassReview != nil:
		return a, ErrGlassReviewed
	}
	reviewed, err := postgres.CollectOne(ctx, tx, scanApproval, `UPDATE approvals SET glass_reviewed_by = $2, glass_reviewed_at = holdpoint_now(),
		glass_note = nullif($3, '') WHERE call_id = $1 RETURNING `+approvalColumns, a.CallID, by, note)
	if err != nil {
		return a, fmt.Errorf("record review of approval %s: %w", a.CallID, err)
	}
	return reviewed, nil
}

// ListUnreviewed returns approvals that one person gave alone and that nobody has reviewed, the newest first.
func ListUnreviewed(ctx context.Context, db postgres.Querier, limit int) ([]Approval, error) {
	return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM approvals
		WHERE broke_glass AND glass_reviewed_at IS NULL ORDER BY call_id DESC LIMIT $1`, limit)
}
