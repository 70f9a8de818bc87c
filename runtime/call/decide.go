package call

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
	var settled approval.Approval
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
			settled, err = s.end(ctx, tx, a, s.expiry(ctx, a.PrincipalID), audit.System(), "")
			conflict = &approval.ConflictError{Approval: settled}
			return err // the expiry is committed; the decision came too late
		}
		if d.Approve {
			settled, err = s.approve(ctx, tx, a, d, edit)
		} else {
			settled, err = s.end(ctx, tx, a, rejection(), audit.Person(d.By), d.Note)
		}
		failpoint.Hit(failpoint.DecideBeforeCommit)
		return err
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, err)
	}
	failpoint.Hit(failpoint.DecideAfterCommit)
	if conflict != nil || !d.Approve {
		s.hub.wake(d.CallID, nil)
	}
	s.tellDecision(ctx, &settled)
	if conflict != nil {
		return Waiting{}, fmt.Errorf("decide approval %s: %w", d.CallID, conflict)
	}
	waiting, err := s.withCalls(ctx, columns, []approval.Approval{settled})
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
func (s *Service) notOwn(ctx context.Context, db audit.Querier, a approval.Approval, by uuid.UUID) error {
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

func (s *Service) approve(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision, edit *edit) (approval.Approval, error) {
	if edit != nil && edit.late {
		return a, fmt.Errorf("edit call: %w: it was not parked", ErrState)
	}
	if edit != nil {
		if err := checkEdited(ctx, tx, a.CallID, edit); err != nil {
			return a, err
		}
	}
	if edit != nil && edit.second {
		return s.propose(ctx, tx, a, d, edit)
	}
	event := audit.Event{
		Actor: audit.Person(d.By), Action: "approval.approved", Subject: a.CallID,
		Data: map[string]any{"digest": a.Digest.String(), "note": d.Note},
	}
	event.SetOrigin(ctx)
	a, err := s.applyEdit(ctx, tx, a, d, edit, &event)
	if err != nil {
		return a, err
	}
	batch := &pgx.Batch{}
	var moved int64
	batch.Queue(`UPDATE calls SET status = 'approved' WHERE id = $1 AND status = 'parked'`, a.CallID).
		Exec(func(tag pgconn.CommandTag) error { moved = tag.RowsAffected(); return nil })
	settled, err := approval.Settle(ctx, tx, a, approval.Approved, d.By, d.Note)
	if err != nil {
		return settled, err
	}
	if err := s.recordIf(batch, "true", []uuid.UUID{a.AgentID}, event); err != nil {
		return settled, err
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return settled, fmt.Errorf("move call: %w", err)
	}
	if moved != 1 {
		return settled, fmt.Errorf("move call: %w: it is not parked", ErrState)
	}
	if _, err := s.river.InsertTx(ctx, tx, executeArgs{CallID: a.CallID}, nil); err != nil {
		return settled, fmt.Errorf("insert execute job: %w", err)
	}
	return settled, s.attend(ctx, tx, waitsNoMore(a))
}

// ending is an outcome of an approval that ends the call unsent.
type ending struct {
	approval approval.Status
	call     Status
	code     string
	message  string // when there is no note
}

func rejection() ending {
	return ending{approval.Rejected, Rejected, CodeRejected, "no reason was given"}
}

// reviewersLimit bounds the look for reviewers within a transaction: those that expire calls at the same moment hold connections
// that the look may wait for.
const reviewersLimit = 250 * time.Millisecond

// expiry also says when there was nobody who might have decided, where that is known at once.
func (s *Service) expiry(ctx context.Context, principal uuid.UUID) ending {
	ctx, cancel := context.WithTimeout(ctx, reviewersLimit)
	defer cancel()
	if someone, err := s.reviewable(ctx, principal, uuid.Nil); err == nil && !someone {
		return ending{approval.Expired, Expired, CodeNoReviewer, "there was nobody who may decide about this call"}
	}
	return expiry()
}

// recallReviewers has it in memory who may decide, before a transaction holds a connection.
func (s *Service) recallReviewers(ctx context.Context) {
	if _, err := s.reviewable(ctx, uuid.Nil, uuid.Nil); err != nil {
		s.Logger.Warn("looking for reviewers", "error", err)
	}
}

func expiry() ending {
	return ending{approval.Expired, Expired, CodeExpired, "nobody decided before the deadline"}
}

func cancellation() ending {
	return ending{approval.Cancelled, Cancelled, CodeCancelled, "the call was cancelled before anyone decided"}
}

// end settles a pending approval so that its call ends here.
func (s *Service) end(ctx context.Context, tx pgx.Tx, a approval.Approval, e ending, actor audit.Actor, note string) (approval.Approval, error) {
	by := uuid.Nil
	if actor.Kind == audit.KindPerson && e.approval == approval.Rejected {
		by = actor.ID
	}
	settled, err := approval.Settle(ctx, tx, a, e.approval, by, note)
	if err != nil {
		return settled, err
	}
	message := note
	if message == "" {
		message = e.message
	}
	tag, err := tx.Exec(ctx, `UPDATE calls SET status = $2, code = $3, message = $4, finished_at = holdpoint_now()
		WHERE id = $1 AND status = 'parked'`, a.CallID, e.call, e.code, nullableText(message))
	if err != nil {
		return settled, fmt.Errorf("end call: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return settled, fmt.Errorf("end call: %w: it is not parked", ErrState)
	}
	event := audit.Event{
		Actor: actor, Action: "approval." + string(e.approval), Subject: a.CallID,
		Data: map[string]any{"digest": a.Digest.String()},
	}
	if note != "" {
		event.Data["note"] = note
	}
	if err := s.ended(ctx, tx, event); err != nil {
		return settled, err
	}
	return settled, s.attend(ctx, tx, waitsNoMore(a))
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
	var expired *approval.Approval
	s.recallReviewers(ctx)
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if err != nil || a.Status != approval.Pending {
			return err
		}
		if left = a.Deadline.Sub(now); left > 0 {
			return nil
		}
		settled, err := s.end(ctx, tx, a, s.expiry(ctx, a.PrincipalID), audit.System(), "")
		expired = &settled
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
		s.hub.wake(id, nil)
		s.tellDecision(ctx, expired)
	}
	return left, nil
}
