package call

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Decide records a reviewer's decision. One transaction has the compare-and-set of the approval, the move of the call, the audit event
// and, if the call is approved, the job that sends it. If an edit needs a second reviewer, Decide records the edit, and the approval
// stays pending.
// If the call has policies, Decide records a vote, and the approval stays pending until enough people have voted.
// Errors: approval.ErrNotFound, approval.ErrDigestMismatch, approval.ErrSelfApproval, approval.ErrInvitedApproval, *identity.LimitError, approval.ErrOwnEdit,
// approval.ErrVoted, approval.ErrNotAsked, approval.ErrPolicyChanged, approval.ErrNoBreakGlass,
// *fault.InvalidError, *approval.ConflictError, *[EditError].
func (s *Service) Decide(ctx context.Context, d Decision) (Waiting, error) {
	var late error // the transaction is committed all the same
	var c Call     // as it was parked
	var moved *move
	edit, err := s.prepareEdit(ctx, &d)
	if err != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, err)
	}
	s.warmReviewers(ctx)
	reserved := d.Approve && s.reserveDispatch()
	defer func() {
		if reserved {
			<-s.dispatches
		}
	}()
	var a approval.Approval
	var now time.Time
	var ties identity.Ties
	first := &pgx.Batch{}
	approval.QueueLock(first, d.CallID, &a, &now)
	queueCall(first, d.CallID, &c)
	s.queueTies(first, approval.PrincipalOf("$3"), d.CallID, d.CallID, d.By, &ties)
	err = postgres.InBatchTx(ctx, s.Pool, first, func(tx pgx.Tx) (*pgx.Batch, error) {
		// The digest comes before the status, so that only a reviewer of this very approval learns how it was decided.
		digest, err := approval.ParseDigest(d.Digest)
		switch {
		case err != nil:
			return nil, err
		case subtle.ConstantTimeCompare(digest[:], a.Digest[:]) != 1:
			return nil, approval.ErrDigestMismatch
		case a.Status != approval.Pending:
			return nil, &approval.ConflictError{Approval: a}
		}
		if err := s.checkTies(ctx, tx, &a, ties); err != nil {
			return nil, err
		}
		switch {
		case !a.Deadline.After(now): // commit the expiry; the decision is late
			moved = newSettleMove(&a, s.expiryOutcome(ctx, &a), audit.System(), "", nil)
			late = &approval.ConflictError{}
		case d.Approve:
			moved, err = s.approveCall(ctx, tx, &a, d, edit, reserved)
		default:
			moved, err = s.rejectCall(ctx, tx, &a, d)
		}
		if errors.Is(err, approval.ErrPolicyChanged) {
			late, err = err, nil
		}
		if err != nil || moved == nil {
			return nil, err
		}
		moved.gateOnly = c.GateOnly
		last, err := s.prepareMoves(ctx, tx, moved)
		failpoint.Hit(failpoint.DecideBeforeCommit)
		return last, err
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, err)
	}
	failpoint.Hit(failpoint.DecideAfterCommit)
	s.announceMoves(ctx, moved)
	if conflict, ok := errors.AsType[*approval.ConflictError](late); ok {
		conflict.Approval = a
	}
	if late != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, late)
	}
	if moved == nil || moved.status != Approved {
		return s.withCall(ctx, a)
	}
	approved := approvedCall{id: d.CallID, skillID: a.SkillID, jobID: moved.jobID}
	wasRead := (edit == nil || edit.unchanged) && !c.hasFiles
	if wasRead {
		c.Status = Approved
		approved.call, approved.decided = new(c), new(a)
	}
	if reserved && !c.GateOnly {
		reserved = false
		s.dispatchCall(approved)
	}
	if !wasRead {
		return s.withCall(ctx, a)
	}
	return Waiting{Call: c, Approval: a}, nil
}

// CheckDecider returns an error if a person with the reviewer's role may not decide a call.
// Errors: approval.ErrSelfApproval, approval.ErrInvitedApproval, *identity.LimitError.
func (s *Service) CheckDecider(ctx context.Context, c *Call, by uuid.UUID) error {
	return s.checkConflictOfInterest(ctx, s.Pool, newSubject(c), by)
}

// QueueTies adds the read of the ties of a call's principal and a reviewer to a batch, for [Service.CheckTies].
func (s *Service) QueueTies(batch *pgx.Batch, c *Call, by uuid.UUID, into *identity.Ties) {
	s.queueTies(batch, principalArg, c.PrincipalID, c.ID, by, into)
}

// CheckTies is [Service.CheckDecider] with ties that were read.
func (s *Service) CheckTies(ctx context.Context, c *Call, ties identity.Ties) error {
	return s.checkTies(ctx, s.Pool, newSubject(c), ties)
}

// principalArg is the argument of [Service.queueTies] as an SQL expression.
const principalArg = "$3::uuid"

// checkConflictOfInterest returns an error if a call was made on behalf of the person, or is outside the limit of the person's role.
func (s *Service) checkConflictOfInterest(ctx context.Context, db postgres.Batcher, a *approval.Approval, by uuid.UUID) error {
	var ties identity.Ties
	batch := &pgx.Batch{}
	s.queueTies(batch, principalArg, a.PrincipalID, a.CallID, by, &ties)
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	return s.checkTies(ctx, db, a, ties)
}

// queueTies adds the read of the ties of a call's principal and a reviewer to a batch. principal is an SQL expression in which $3 is arg. The
// person whom a gateway names as the subject of its call counts as its principal.
func (s *Service) queueTies(batch *pgx.Batch, principal string, arg, call, by uuid.UUID, into *identity.Ties) {
	identity.QueueTies(batch, principal, arg, by, into)
	identity.QueueNamed(batch, `SELECT s ->> 'id', s ->> 'email' FROM (SELECT caller -> 'gate' -> 'subject' AS s FROM calls WHERE id = $2) AS c`, call, by, &into.Same)
}

// checkTies returns an error if a call was made on behalf of a reviewer, by the ties of the two, or is outside the reviewer's limit. An unverified reviewer may be another
// account of the inviter, so calls on the inviter's behalf, and of agents whose keys the inviter made, count too.
func (s *Service) checkTies(ctx context.Context, db postgres.Querier, a *approval.Approval, ties identity.Ties) error {
	if err := checkLimit(ctx, db, a, ties.Limit); err != nil {
		return err
	}
	switch {
	case s.AllowSelfApproval:
		return nil
	case ties.Same:
		return approval.ErrSelfApproval
	case len(ties.Inviters) == 0:
		return nil
	}
	makers, err := agent.KeyMakers(ctx, db, a.AgentID, a.CreatedAt)
	if err != nil {
		return err
	}
	if a.PrincipalID != uuid.Nil {
		makers = append(makers, a.PrincipalID)
	}
	invited, err := identity.SameAsAny(ctx, db, ties.Inviters, makers)
	if err == nil && invited {
		err = approval.ErrInvitedApproval
	}
	return err
}

// approveCall returns the move that approves a call, and stores its edit in a. If others have to approve the edit or the call, it records the
// edit or the vote only, and returns no move.
func (s *Service) approveCall(ctx context.Context, tx pgx.Tx, a *approval.Approval, d Decision, edit *edit, dispatched bool) (*move, error) {
	if edit != nil && edit.tooLate {
		return nil, fmt.Errorf("edit call: %w: it was not parked", ErrState)
	}
	if edit != nil { // its base must still be the arguments, now that the approval is locked
		var still bool
		if err := tx.QueryRow(ctx, `SELECT arguments = $2 FROM calls WHERE id = $1`, a.CallID, []byte(edit.base)).Scan(&still); err != nil {
			return nil, fmt.Errorf("compare edited arguments: %w", err)
		}
		if !still {
			return nil, approval.ErrDigestMismatch
		}
	}
	var err error
	if edit != nil && edit.needsSecond {
		*a, err = s.proposeEdit(ctx, tx, *a, d, edit)
		return nil, err
	}
	data := map[string]any{"digest": a.Digest.String(), "note": d.Note}
	var skipped *Attention
	if len(a.Policies) > 0 {
		if edit != nil && edit.restores { // the vote is about the agent's arguments
			if *a, err = s.applyEdit(ctx, tx, *a, d, edit, data); err != nil {
				return nil, err
			}
			edit = nil
		}
		v := &vote{Decision: &d, pending: a, data: data}
		if err := s.castVote(ctx, tx, v); err != nil || !v.decides {
			return nil, err
		}
		skipped = v.skipped
	} else if d.BreakGlass {
		return nil, approval.ErrNoBreakGlass
	}
	if *a, err = s.applyEdit(ctx, tx, *a, d, edit, data); err != nil {
		return nil, err
	}
	return &move{
		event: onApprove, id: a.CallID, agentID: a.AgentID, settled: a,
		settlement: &approval.Settlement{Status: approval.Approved, By: d.By, Note: d.Note, Seen: d.Seen, Undo: d.undoTime(), BreakGlass: d.BreakGlass},
		outcome:    outcome{status: Approved}, actor: audit.Person(d.By), data: data,
		dispatched: dispatched, undo: d.undoTime(), skipped: skipped,
	}, nil
}

// rejectCall returns the move that rejects a call. If the policies of the call ask for more rejections, it records the vote only, and
// returns no move.
func (s *Service) rejectCall(ctx context.Context, tx pgx.Tx, a *approval.Approval, d Decision) (*move, error) {
	if policy.CountRejections(a.Policies) > 1 {
		v := &vote{Decision: &d, pending: a, data: map[string]any{}}
		if err := s.castVote(ctx, tx, v); err != nil || !v.decides {
			return nil, err
		}
	}
	return newSettleMove(a, outcome{status: Rejected, code: CodeRejected, message: "no reason was given"}, audit.Person(d.By), d.Note, d.Seen), nil
}

// newSettleMove returns the move that ends a parked call and its approval as rejected, expired or canceled.
func newSettleMove(a *approval.Approval, o outcome, actor audit.Actor, note string, seen *approval.Seen) *move {
	by := uuid.Nil
	if actor.Kind == audit.KindPerson && o.status == Rejected {
		by = actor.ID
	}
	m := &move{
		event: onSettle, id: a.CallID, agentID: a.AgentID, settled: a,
		settlement: &approval.Settlement{Status: approval.Status(o.status), By: by, Note: note, Seen: seen},
		outcome:    o, actor: actor, data: map[string]any{"digest": a.Digest.String()},
	}
	if note != "" {
		m.message, m.data["note"] = note, note
	}
	return m
}

// reviewersLimit bounds the search for reviewers within a transaction, because it may wait for a connection that other transactions
// of this kind hold.
const reviewersLimit = 250 * time.Millisecond

// expiryOutcome is [expiredOutcome], with a code of its own if it knows at once that the reviewers could not have approved the call.
func (s *Service) expiryOutcome(ctx context.Context, a *approval.Approval) outcome {
	ctx, cancel := context.WithTimeout(ctx, reviewersLimit)
	defer cancel()
	switch lack, err := s.FindLack(ctx, a); {
	case err != nil:
	case lack.Nobody:
		return outcome{status: Expired, code: CodeNoReviewer, message: "no known reviewer may decide this call"}
	case lack.IsAny():
		return outcome{status: Expired, code: CodeNoReviewer, message: "the reviewers could not meet the policy of this call"}
	}
	return expiredOutcome()
}

// warmReviewers warms the reviewer cache before a transaction takes a connection.
func (s *Service) warmReviewers(ctx context.Context) {
	if _, err := s.HasReviewer(ctx, &approval.Approval{}); err != nil {
		s.Logger.Warn("searching for reviewers", "error", err)
	}
}

func expiredOutcome() outcome {
	return outcome{status: Expired, code: CodeExpired, message: "no reviewer decided before the deadline"}
}

func cancelledOutcome() outcome {
	return outcome{status: Cancelled, code: CodeCancelled, message: "the call was cancelled before anyone decided"}
}

// Expire ends a call that waits for people if its deadline has passed.
func (s *Service) Expire(ctx context.Context, id uuid.UUID) error {
	_, err := s.expireApproval(ctx, id)
	return err
}

// expireApproval is [Service.Expire]. It returns the time that a pending call has left.
func (s *Service) expireApproval(ctx context.Context, id uuid.UUID) (left time.Duration, err error) {
	if left, err = s.abandonWait(ctx, id, expiredOutcome(), audit.System(), true); err != nil || left > 0 {
		return left, err
	}
	var expired *move
	var a approval.Approval
	var now time.Time
	s.warmReviewers(ctx)
	first := &pgx.Batch{}
	approval.QueueLock(first, id, &a, &now)
	err = postgres.InBatchTx(ctx, s.Pool, first, func(tx pgx.Tx) (*pgx.Batch, error) {
		if a.Status != approval.Pending {
			return nil, nil
		}
		if left = a.Deadline.Sub(now); left > 0 {
			return nil, nil
		}
		expired = newSettleMove(&a, s.expiryOutcome(ctx, &a), audit.System(), "", nil)
		last, err := s.prepareMoves(ctx, tx, expired)
		failpoint.Hit(failpoint.ExpireBeforeCommit)
		return last, err
	})
	if errors.Is(err, approval.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("expire approval %s: %w", id, err)
	}
	if expired != nil {
		failpoint.Hit(failpoint.ExpireAfterCommit)
		s.announceMoves(ctx, expired)
	}
	return left, nil
}

// Undo takes an approval back that was given with [Decision.Undo], before the call may be claimed: the call is parked again with its old
// deadline, or expires if that has passed. Only the reviewer who approved may do so. A vote on a call that waits for more votes may be taken
// back at any time.
// Errors: approval.ErrNotFound, approval.ErrTooLate, approval.ErrNotDecider, approval.ErrNoVote.
func (s *Service) Undo(ctx context.Context, id, by uuid.UUID) (Waiting, error) {
	var reopened approval.Approval
	var undone, expired *move
	s.warmReviewers(ctx)
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if a.Status == approval.Pending && len(a.Policies) > 0 {
			reopened = a
			return takeVoteBack(ctx, tx, &a, by)
		}
		if reopened, err = approval.Reopen(ctx, tx, a, by, now); err != nil {
			return err
		}
		if len(a.Policies) > 0 {
			if _, err := approval.VoidVotes(ctx, tx, id, by); err != nil {
				return err
			}
		}
		undone = &move{
			event: onUndo, id: id, agentID: a.AgentID, outcome: outcome{status: Parked}, actor: audit.Person(by),
			data: map[string]any{"digest": a.Digest.String()},
		}
		if err := s.moveInTx(ctx, tx, undone); err != nil {
			return err
		}
		if !undone.made { // it was cancelled
			return approval.ErrTooLate
		}
		if reopened.Deadline.After(now) {
			return s.scheduleEscalations(ctx, tx, Attention{Approval: reopened}) // a job may have found the call approved
		}
		expired = newSettleMove(&reopened, s.expiryOutcome(ctx, &a), audit.System(), "", nil)
		return s.moveInTx(ctx, tx, expired)
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("undo approval %s: %w", id, err)
	}
	s.announceMoves(ctx, undone, expired)
	return s.withCall(ctx, reopened)
}
