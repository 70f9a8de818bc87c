package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Vote is what a reviewer said about a call with policies. It is bound to the digest that the reviewer saw. A vote that was taken back, or
// whose digest or policies are not those of the approval any more, is void.
type Vote struct {
	CallID   uuid.UUID
	Number   int // from 1, with void votes
	By       uuid.UUID
	Approves bool
	Digest   Digest
	Note     string
	Seen     *Seen // nil: not measured
	At       time.Time
	Via      audit.Origin
	VoidAt   *time.Time // nil: it counts
}

// Errors of votes.
var (
	// ErrVoted: the reviewer, or a person who may be the same, has voted.
	ErrVoted = errors.New("a person votes once about a call")
	// ErrNotAsked: the approval of the reviewer counts for no policy of the call.
	ErrNotAsked = errors.New("the policy of this call does not ask this person")
	// ErrPolicyChanged: a policy of the call changed after the reviewer saw it. The votes are void, and the call is asked about again.
	ErrPolicyChanged = errors.New("the policy of this call changed")
	// ErrNoVote: the reviewer has no vote to take back.
	ErrNoVote = errors.New("there is no vote of this person")
)

const voteSelect = `SELECT call_id, number, person_id, approves, digest, coalesce(note, ''), seen, voted_at, coalesce(credential_kind, ''), coalesce(credential_id, ''),
	coalesce(address, ''), void_at FROM approval_votes`

// ListVotes returns the votes on approvals by call, oldest first, also void ones.
func ListVotes(ctx context.Context, db postgres.Querier, callIDs []uuid.UUID) (map[uuid.UUID][]Vote, error) {
	list, err := postgres.Collect(ctx, db, scanVote,
		voteSelect+` WHERE call_id = ANY($1) ORDER BY call_id, number`, callIDs)
	if err != nil {
		return nil, fmt.Errorf("read votes: %w", err)
	}
	votes := map[uuid.UUID][]Vote{}
	for _, v := range list {
		votes[v.CallID] = append(votes[v.CallID], v)
	}
	return votes, nil
}

// ReadVoteState returns a text that changes with the votes on pending approvals and with their policies, and with the approvals that
// [ListUnreviewed] returns.
func ReadVoteState(ctx context.Context, db postgres.Querier) (string, error) {
	row, err := queryRow[struct{ State string }](ctx, db, "read the state of votes", `SELECT concat_ws('.', count(v.number), count(v.void_at), sum(hashtext(a.policies::text)),
			(SELECT concat(count(*), '.', max(call_id::text)) FROM approvals WHERE broke_glass AND glass_reviewed_at IS NULL))
		FROM approvals AS a LEFT JOIN approval_votes AS v USING (call_id) WHERE a.status = 'pending' AND a.policies IS NOT NULL`)
	return row.State, err
}

func scanVote(row pgx.CollectableRow) (Vote, error) {
	var v Vote
	var digest []byte
	err := row.Scan(&v.CallID, &v.Number, &v.By, &v.Approves, &digest, &v.Note, &v.Seen, &v.At, &v.Via.Credential.Kind, &v.Via.Credential.ID, &v.Via.Address, &v.VoidAt)
	if err == nil && (copy(v.Digest[:], digest) != len(digest) || len(digest) != len(v.Digest)) {
		err = fmt.Errorf("digest of %d bytes", len(digest))
	}
	return v, err
}

// VotesDigest returns the digest that the votes on an approval are bound to: as the reviewers saw it, before [AcceptEdit].
func (a *Approval) VotesDigest() Digest {
	if a.Status == Approved && a.EditedBy != uuid.Nil {
		return EditDigest(a.Digest, a.EditedBy)
	}
	return a.Digest
}

// Counts reports whether a vote counts for an approval.
func (a *Approval) Counts(v *Vote) bool { return v.VoidAt == nil && v.Digest == a.VotesDigest() }

// AddVote stores a vote on a pending approval. The caller holds the row's lock.
func AddVote(ctx context.Context, tx pgx.Tx, v Vote) error {
	_, err := tx.Exec(ctx, `INSERT INTO approval_votes (call_id, number, person_id, approves, digest, note, seen, credential_kind, credential_id, address)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, nullif($8, ''), nullif($9, ''), nullif($10, ''))`,
		v.CallID, v.Number, v.By, v.Approves, v.Digest[:], v.Note, v.Seen, v.Via.Credential.Kind, v.Via.Credential.ID, v.Via.Address)
	if err != nil {
		return fmt.Errorf("store vote on approval %s: %w", v.CallID, err)
	}
	return nil
}

// VoidVotes makes votes on an approval void: those of one person, or all (uuid.Nil). It returns their number. The caller holds the row's lock.
func VoidVotes(ctx context.Context, tx pgx.Tx, callID, by uuid.UUID) (int64, error) {
	tag, err := tx.Exec(ctx, `UPDATE approval_votes SET void_at = holdpoint_now()
		WHERE call_id = $1 AND void_at IS NULL AND ($2::uuid IS NULL OR person_id = $2)`, callID, postgres.OrNull(by))
	if err != nil {
		return 0, fmt.Errorf("void votes on approval %s: %w", callID, err)
	}
	return tag.RowsAffected(), nil
}

// ReplacePolicies gives a pending approval other policies, and makes all votes void. The caller holds the row's lock.
func ReplacePolicies(ctx context.Context, tx pgx.Tx, a Approval, policies []policy.Policy) (Approval, error) {
	if _, err := VoidVotes(ctx, tx, a.CallID, uuid.Nil); err != nil {
		return a, err
	}
	return updatePending(ctx, tx, a, "ask again about", `policies = $2::jsonb, policy_teams = ARRAY(SELECT jsonb_array_elements_text($3::jsonb))`,
		postgres.JSONOrNull(policies), encodeTeams(policies))
}

// encodeTeams returns the names of the teams that policies ask, as JSON.
func encodeTeams(policies []policy.Policy) *string {
	var teams []string
	for i := range policies {
		teams = append(teams, policies[i].ListTeams()...)
	}
	return postgres.JSONOrNull(teams)
}
