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
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Decide records a reviewer's decision: in one transaction the approval's
// compare-and-set, the call's move, the audit event and, for an approval, the job that executes.
// Errors: approval.ErrNotFound, approval.ErrDigestMismatch, approval.ErrSelfApproval, *approval.ConflictError.
func (s *Service) Decide(ctx context.Context, d Decision) (Waiting, error) {
	var conflict error
	var settled approval.Approval
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, d.CallID)
		if err != nil {
			return err
		}
		if conflict = s.mayDecide(ctx, tx, a, d); conflict != nil {
			return conflict
		}
		if !a.Deadline.After(now) {
			settled, err = s.end(ctx, tx, a, expiry(), audit.System(), "")
			conflict = &approval.ConflictError{Approval: settled}
			return err // the expiry is committed; the decision came too late
		}
		if d.Approve {
			settled, err = s.approve(ctx, tx, a, d)
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
	if s.AllowSelfApproval {
		return nil
	}
	var principal *uuid.UUID
	if err := tx.QueryRow(ctx, `SELECT principal_id FROM calls WHERE id = $1`, a.CallID).Scan(&principal); err != nil {
		return fmt.Errorf("read principal: %w", err)
	}
	if principal == nil {
		return nil
	}
	same, err := identity.Same(ctx, tx, *principal, d.By)
	if err == nil && same {
		err = approval.ErrSelfApproval
	}
	return err
}

func (s *Service) approve(ctx context.Context, tx pgx.Tx, a approval.Approval, d Decision) (approval.Approval, error) {
	settled, err := approval.Settle(ctx, tx, a, approval.Approved, d.By, d.Note)
	if err != nil {
		return settled, err
	}
	batch := &pgx.Batch{}
	var moved int64
	batch.Queue(`UPDATE calls SET status = 'approved' WHERE id = $1 AND status = 'parked'`, a.CallID).
		Exec(func(tag pgconn.CommandTag) error { moved = tag.RowsAffected(); return nil })
	err = audit.Queue(batch, audit.Event{
		Actor: audit.Person(d.By), Action: "approval.approved", Subject: a.CallID,
		Data: map[string]any{"digest": a.Digest.String(), "note": d.Note},
	})
	if err != nil {
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
	return settled, nil
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
	return settled, s.ended(ctx, tx, a.CallID, event)
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
	expired := false
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if err != nil || a.Status != approval.Pending {
			return err
		}
		if left = a.Deadline.Sub(now); left > 0 {
			return nil
		}
		expired = true
		_, err = s.end(ctx, tx, a, expiry(), audit.System(), "")
		failpoint.Hit(failpoint.ExpireBeforeCommit)
		return err
	})
	if errors.Is(err, approval.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("expire approval %s: %w", id, err)
	}
	if expired {
		failpoint.Hit(failpoint.ExpireAfterCommit)
		s.hub.wake(id, nil)
	}
	return left, nil
}

// Cancel ends a call that nobody decided about yet. by is the person who
// cancels; uuid.Nil when the agent does. Errors: ErrNotFound, ErrState.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, by, id uuid.UUID) (Call, error) {
	c, err := s.Get(ctx, viewer, id)
	if err != nil {
		return Call{}, err
	}
	actor := audit.Agent(c.AgentID)
	if by != uuid.Nil {
		actor = audit.Person(by)
	}
	if c.Status == NeedsConnection {
		if _, err := approval.Get(ctx, s.Pool, id); !errors.Is(err, approval.ErrNotFound) {
			return Call{}, errors.Join(err, fmt.Errorf("cancel call %s: %w: it was approved", id, ErrState))
		}
		if _, err := s.giveUp(ctx, id, cancellation(), actor, false); err != nil {
			return Call{}, err
		}
		return s.cancelled(ctx, viewer, id)
	}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if errors.Is(err, approval.ErrNotFound) {
			return fmt.Errorf("%w: it is %s", ErrState, c.Status)
		}
		if err != nil {
			return err
		}
		if a.Status != approval.Pending || !a.Deadline.After(now) {
			return fmt.Errorf("%w: its approval is %s", ErrState, a.Status)
		}
		_, err = s.end(ctx, tx, a, cancellation(), actor, "")
		return err
	})
	if err != nil {
		return Call{}, fmt.Errorf("cancel call %s: %w", id, err)
	}
	s.hub.wake(id, nil)
	return s.Get(ctx, viewer, id)
}

// cancelled returns a call that was to be cancelled while it waited for a connection.
func (s *Service) cancelled(ctx context.Context, viewer Viewer, id uuid.UUID) (Call, error) {
	c, err := s.Get(ctx, viewer, id)
	if err == nil && c.Status != Cancelled {
		return Call{}, fmt.Errorf("cancel call %s: %w: it is %s", id, ErrState, c.Status)
	}
	return c, err
}

// expireArgs is the job that expires an approval when nobody waits for it any more.
type expireArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (expireArgs) Kind() string { return "call_expire" }

func expireJob(id uuid.UUID, deadline time.Time) river.InsertManyParams {
	return river.InsertManyParams{Args: expireArgs{CallID: id}, InsertOpts: &river.InsertOpts{ScheduledAt: deadline}}
}

type expireWorker struct {
	river.WorkerDefaults[expireArgs]
	service *Service
}

// Work trusts no schedule: the deadline is read again, and may have moved.
func (w *expireWorker) Work(ctx context.Context, job *river.Job[expireArgs]) error {
	left, err := w.service.expire(ctx, job.Args.CallID)
	if err != nil {
		return err
	}
	if left > 0 {
		return river.JobSnooze(left)
	}
	return nil
}
