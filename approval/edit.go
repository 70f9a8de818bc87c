package approval

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// ApplyEdit gives a pending approval the envelope of edited arguments, which the editor approves at once. It keeps the digest of
// the call as its agent made it.
func ApplyEdit(ctx context.Context, tx pgx.Tx, a Approval, envelope Digest) (Approval, error) {
	a.Original, a.Digest = a.originalDigest(), envelope
	a.EditedBy, a.editEnvelope = uuid.Nil, Digest{}
	return a.storeNewEdit(ctx, tx)
}

// ProposeEdit gives a pending approval the digest of edited arguments and their editor ([EditDigest]). The approval stays pending
// until another reviewer decides. unusual counts the edited arguments that differ from those of approved calls.
func ProposeEdit(ctx context.Context, tx pgx.Tx, a Approval, envelope Digest, by uuid.UUID, unusual int) (Approval, error) {
	a.Original, a.Digest = a.originalDigest(), EditDigest(envelope, by)
	a.EditedBy, a.editEnvelope, a.Unusual = by, envelope, unusual
	return a.storeNewEdit(ctx, tx)
}

// AcceptEdit gives the approval the envelope digest of the proposed edit, which is the one that is compared when the call is sent.
func AcceptEdit(ctx context.Context, tx pgx.Tx, a Approval) (Approval, error) {
	a.Digest = a.editEnvelope
	return a.storeEdit(ctx, tx)
}

// DiscardEdit gives a pending approval the envelope of the call as its agent made it.
func DiscardEdit(ctx context.Context, tx pgx.Tx, a Approval, envelope Digest) (Approval, error) {
	a.Original, a.Digest = Digest{}, envelope
	a.EditedBy, a.editEnvelope = uuid.Nil, Digest{}
	return a.storeNewEdit(ctx, tx)
}

func (a *Approval) originalDigest() Digest {
	if a.Edited() {
		return a.Original
	}
	return a.Digest
}

// storeNewEdit is [Approval.storeEdit] for other arguments than those that were voted on. The votes are void.
func (a *Approval) storeNewEdit(ctx context.Context, tx pgx.Tx) (Approval, error) {
	if len(a.Policies) > 0 {
		if _, err := VoidVotes(ctx, tx, a.CallID, uuid.Nil); err != nil {
			return *a, err
		}
	}
	return a.storeEdit(ctx, tx)
}

// storeEdit writes the digests and the editor of a pending approval. edited_at changes only with the digest of a proposed edit.
func (a *Approval) storeEdit(ctx context.Context, tx pgx.Tx) (Approval, error) {
	orNull := func(d Digest) []byte {
		if d == (Digest{}) {
			return nil
		}
		return d[:]
	}
	return updatePending(ctx, tx, *a, "edit", `digest = $2::bytea, original_digest = $3, edit_envelope = $4::bytea, edited_by = $5, unusual = $6,
			edited_at = CASE WHEN $5::uuid IS NULL THEN NULL WHEN digest = $2 OR $2 = $4::bytea THEN edited_at ELSE holdpoint_now() END`,
		a.Digest[:], orNull(a.Original), orNull(a.editEnvelope), postgres.OrNull(a.EditedBy), a.Unusual)
}
