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
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Decide records a reviewer's decision: in one transaction the approval's
// compare-and-set, the call's move, the audit event and, for an approval, the job that executes. Approving with other arguments where
// edits need a second reviewer decides nothing: it records the edit, and the approval waits on.
// Errors: approval.ErrNotFound, approval.ErrDigestMismatch, approval.ErrSelfApproval, approval.ErrInvitedApproval, approval.ErrOwnEdit, *approval.ConflictError, *[EditError].
func (s *Service) Decide(ctx context.Context, d Decision) (Waiting, error) {
	var conflict error
	var decided approval.Approval
	var moved *move
	edit, err := s.edited(ctx, &d)
	if err != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, err)
	}
	s.recallReviewers(ctx)
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, d.CallID)
		if err != nil {
			return err
		}
		if conflict = s.mayDecide(ctx, tx, a, d); conflict != nil {
			return conflict
		}
		if !a.Deadline.After(now) {
			moved, err = s.settle(ctx, tx, a, s.expiry(ctx, a.PrincipalID), audit.System(), "")
			if err == nil {
				conflict = &approval.ConflictError{Approval: *moved.settled}
			}
			return err // the expiry is committed; the decision came too late
		}
		if d.Approve {
			decided, moved, err = s.approve(ctx, tx, a, d, edit)
		} else if moved, err = s.settle(ctx, tx, a, rejection(), audit.Person(d.By), d.Note); err == nil {
			decided = *moved.settled
		}
		failpoint.Hit(failpoint.DecideBeforeCommit)
		return err
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, err)
	}
	failpoint.Hit(failpoint.DecideAfterCommit)
	s.announceMoves(ctx, moved)
	if conflict != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, conflict)
	}
	waiting, err := s.withCalls(ctx, columns, []approval.Approval{decided})
	if err != nil {
		return Waiting{}, err
	}
	return waiting[0], nil
}

// mayDecide checks the decision against what waits. The digest comes before
// the status: who shows another digest knows nothing of this approval.
func (s *Service) mayDecide(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision) error {
	digest, err := approval.ParseDigest(d.Digest)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(digest[:], a.Digest[:]) != 1 {
		return approval.ErrDigestMismatch
	}
	if a.Status != approval.Pending {
		return &approval.ConflictError{Approval: a}
	}
	return s.notOwn(ctx, tx, a, d.By)
}

// CheckDecider tells why a person does not decide about a call, whatever their roles.
// Errors: approval.ErrSelfApproval, approval.ErrInvitedApproval.
func (s *Service) CheckDecider(ctx context.Context, c *Call, by uuid.UUID) error {
	return s.notOwn(ctx, s.Pool, approval.Approval{AgentID: c.AgentID, PrincipalID: c.PrincipalID, CreatedAt: c.CreatedAt}, by)
}

// notOwn refuses people what is about a call made on their own behalf. An unverified person may be another name of
// the person who invited them, so calls on that person's behalf, and of agents whose keys that person made, count too.
func (s *Service) notOwn(ctx context.Context, db postgres.Querier, a approval.Approval, by uuid.UUID) error {
	if s.AllowSelfApproval {
		return nil
	}
	if a.PrincipalID != uuid.Nil {
		same, err := identity.Same(ctx, db, a.PrincipalID, by)
		if err != nil {
			return err
		}
		if same {
			return approval.ErrSelfApproval
		}
	}
	inviters, err := identity.Inviters(ctx, db, by)
	if err != nil || len(inviters) == 0 {
		return err
	}
	makers, err := agent.KeyMakers(ctx, db, a.AgentID, a.CreatedAt)
	if err != nil {
		return err
	}
	if a.PrincipalID != uuid.Nil {
		makers = append(makers, a.PrincipalID)
	}
	invited, err := identity.SameAsAny(ctx, db, inviters, makers)
	if err == nil && invited {
		err = approval.ErrInvitedApproval
	}
	return err
}

// approve approves a call, or records an edit that another reviewer has to approve: then nothing moves.
func (s *Service) approve(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision, edit *edit) (approval.Approval, *move, error) {
	if edit != nil && edit.late {
		return a, nil, fmt.Errorf("edit call: %w: it was not parked", ErrState)
	}
	if edit != nil {
		if err := checkEdited(ctx, tx, a.CallID, edit); err != nil {
			return a, nil, err
		}
	}
	if edit != nil && edit.second {
		a, err := s.propose(ctx, tx, a, d, edit)
		return a, nil, err
	}
	data := map[string]any{"digest": a.Digest.String(), "note": d.Note}
	a, err := s.applyEdit(ctx, tx, a, d, edit, data)
	if err != nil {
		return a, nil, err
	}
	settled, err := approval.Settle(ctx, tx, a, approval.Approved, d.By, d.Note)
	if err != nil {
		return settled, nil, err
	}
	m := &move{
		event: onApprove, id: a.CallID, agentID: a.AgentID, settled: &settled,
		outcome: outcome{status: Approved}, actor: audit.Person(d.By), data: data,
	}
	return settled, m, s.moveParked(ctx, tx, m)
}

// settle ends a parked call with its approval: rejected, expired or cancelled.
func (s *Service) settle(ctx context.Context, tx pgx.Tx, a approval.Approval, o outcome, actor audit.Actor, note string) (*move, error) {
	by := uuid.Nil
	if actor.Kind == audit.KindPerson && o.status == Rejected {
		by = actor.ID
	}
	settled, err := approval.Settle(ctx, tx, a, approval.Status(o.status), by, note)
	if err != nil {
		return nil, err
	}
	m := &move{
		event: onSettle, id: a.CallID, agentID: a.AgentID, settled: &settled,
		outcome: o, actor: actor, data: map[string]any{"digest": a.Digest.String()},
	}
	if note != "" {
		m.message, m.data["note"] = note, note
	}
	return m, s.moveParked(ctx, tx, m)
}

// moveParked moves a call whose approval was pending.
func (s *Service) moveParked(ctx context.Context, tx pgx.Tx, m *move) error {
	err := s.moveInTx(ctx, tx, m)
	if err == nil && !m.made {
		err = fmt.Errorf("move call: %w: it is not parked", ErrState)
	}
	return err
}

func rejection() outcome {
	return outcome{status: Rejected, code: CodeRejected, message: "no reason was given"}
}

// reviewersLimit bounds the look for reviewers within a transaction: those that expire calls at the same moment hold connections
// that the look may wait for.
const reviewersLimit = 250 * time.Millisecond

// expiry also says when there was nobody who might have decided, where that is known at once.
func (s *Service) expiry(ctx context.Context, principal uuid.UUID) outcome {
	ctx, cancel := context.WithTimeout(ctx, reviewersLimit)
	defer cancel()
	if someone, err := s.reviewable(ctx, principal, uuid.Nil); err == nil && !someone {
		return outcome{status: Expired, code: CodeNoReviewer, message: "there was nobody who may decide about this call"}
	}
	return expiry()
}

// recallReviewers has it in memory who may decide, before a transaction holds a connection.
func (s *Service) recallReviewers(ctx context.Context) {
	if _, err := s.reviewable(ctx, uuid.Nil, uuid.Nil); err != nil {
		s.Logger.Warn("looking for reviewers", "error", err)
	}
}

func expiry() outcome {
	return outcome{status: Expired, code: CodeExpired, message: "nobody decided before the deadline"}
}

func cancellation() outcome {
	return outcome{status: Cancelled, code: CodeCancelled, message: "the call was cancelled before anyone decided"}
}

// Expire ends a parked call whose deadline has passed; any other it leaves as it is.
func (s *Service) Expire(ctx context.Context, id uuid.UUID) error {
	_, err := s.expire(ctx, id)
	return err
}

// expire also tells how long a pending approval still has.
func (s *Service) expire(ctx context.Context, id uuid.UUID) (left time.Duration, err error) {
	if left, err = s.expireWait(ctx, id); err != nil || left > 0 {
		return left, err
	}
	var expired *move
	s.recallReviewers(ctx)
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if err != nil || a.Status != approval.Pending {
			return err
		}
		if left = a.Deadline.Sub(now); left > 0 {
			return nil
		}
		expired, err = s.settle(ctx, tx, a, s.expiry(ctx, a.PrincipalID), audit.System(), "")
		failpoint.Hit(failpoint.ExpireBeforeCommit)
		return err
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
