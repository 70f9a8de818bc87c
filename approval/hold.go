package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Hold records that a reviewer works on a pending approval, or that another one (assignedBy; uuid.Nil: none) asked for it. It
// replaces the holder before. The caller holds the row's lock. Errors: *[ConflictError].
//
// A holder does not limit the others: every reviewer may still decide.
func Hold(ctx context.Context, tx pgx.Tx, a Approval, holder, assignedBy uuid.UUID) (Approval, error) {
	return updatePending(ctx, tx, a, "claim", `held_by = $2, held_at = holdpoint_now(), assigned_by = $3`, holder, postgres.OrNull(assignedBy))
}

// Release removes the holder of a pending approval. The caller holds the row's lock. Errors: *[ConflictError].
func Release(ctx context.Context, tx pgx.Tx, a Approval) (Approval, error) {
	return updatePending(ctx, tx, a, "release", `held_by = NULL, held_at = NULL, assigned_by = NULL`)
}

const (
	// MaxComments is the greatest number of comments on an approval.
	MaxComments = 100
	// MaxComment is the greatest length of a comment, in characters.
	MaxComment = 2000
)

// Comment is a reviewer's remark for other reviewers. Agents never see it.
type Comment struct {
	CallID uuid.UUID
	Number int
	By     uuid.UUID
	Text   string
	At     time.Time
}

// AddComment adds a comment to an approval, pending or not. The caller holds the row's lock. Errors: [ErrComments].
func AddComment(ctx context.Context, tx pgx.Tx, a Approval, by uuid.UUID, text string) (Approval, error) {
	if a.Comments >= MaxComments {
		return a, fmt.Errorf("comment on approval %s: %w", a.CallID, ErrComments)
	}
	a.Comments++
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO approval_comments (call_id, number, person_id, text) VALUES ($1, $2, $3, $4)`, a.CallID, a.Comments, by, text)
	batch.Queue(`UPDATE approvals SET comments = $2 WHERE call_id = $1`, a.CallID, a.Comments)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return a, fmt.Errorf("comment on approval %s: %w", a.CallID, err)
	}
	return a, nil
}

// QueueComments adds the read of the comments on an approval to a batch, oldest first.
func QueueComments(batch *pgx.Batch, callID uuid.UUID, into *[]Comment) {
	postgres.QueueAll(batch, into, "read comments on approval "+callID.String(), pgx.RowToStructByPos[Comment],
		`SELECT call_id, number, person_id, text, created_at FROM approval_comments WHERE call_id = $1 ORDER BY number`, callID)
}
