package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// ApplyEdit gives a pending approval the envelope of other arguments, which its reviewer approves at once. The digest of the call as
// it was made is kept.
func ApplyEdit(ctx context.Context, tx pgx.Tx, a Approval, envelope Digest) (Approval, error) {
	a.Original, a.Digest = a.original(), envelope
	a.EditedBy, a.editEnvelope = uuid.Nil, Digest{}
	return a.store(ctx, tx)
}

// ProposeEdit gives a pending approval the digest of other arguments and of the person who wrote them. It waits on, for another reviewer.
func ProposeEdit(ctx context.Context, tx pgx.Tx, a Approval, envelope Digest, by uuid.UUID) (Approval, error) {
	a.Original, a.Digest = a.original(), EditDigest(envelope, by)
	a.EditedBy, a.editEnvelope = by, envelope
	return a.store(ctx, tx)
}

// AcceptEdit makes the envelope of the proposed edit the one that is approved.
func AcceptEdit(ctx context.Context, tx pgx.Tx, a Approval) (Approval, error) {
	a.Digest = a.editEnvelope
	return a.store(ctx, tx)
}

// DiscardEdit gives a pending approval the envelope of the call as it was made.
func DiscardEdit(ctx context.Context, tx pgx.Tx, a Approval, envelope Digest) (Approval, error) {
	a.Original, a.Digest = Digest{}, envelope
	a.EditedBy, a.editEnvelope = uuid.Nil, Digest{}
	return a.store(ctx, tx)
}

func (a *Approval) original() Digest {
	if a.Edited() {
		return a.Original
	}
	return a.Digest
}

// store writes the digests of a pending approval and the editor. A new digest of an edit gets the database's time.
func (a *Approval) store(ctx context.Context, tx pgx.Tx) (Approval, error) {
	orNull := func(d Digest) []byte {
		if d == (Digest{}) {
			return nil
		}
		return d[:]
	}
	rows, err := tx.Query(ctx, `UPDATE approvals SET digest = $2::bytea, original_digest = $3, edit_envelope = $4::bytea, edited_by = $5,
			edited_at = CASE WHEN $5::uuid IS NULL THEN NULL WHEN digest = $2 OR $2 = $4::bytea THEN edited_at ELSE holdpoint_now() END
		WHERE call_id = $1 AND decided_at IS NULL RETURNING `+columns,
		a.CallID, a.Digest[:], orNull(a.Original), orNull(a.editEnvelope), postgres.OrNull(a.EditedBy))
	if err != nil {
		return *a, fmt.Errorf("edit approval %s: %w", a.CallID, err)
	}
	stored, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return *a, &ConflictError{Approval: *a}
	}
	if err != nil {
		return *a, fmt.Errorf("edit approval %s: %w", a.CallID, err)
	}
	return stored, nil
}
