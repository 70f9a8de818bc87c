package call

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Claim records that a reviewer works on a parked call. It replaces the holder before, and every reviewer may still decide.
// Errors: approval.ErrNotFound, approval.ErrSelfApproval, approval.ErrInvitedApproval, *identity.LimitError, *approval.ConflictError.
func (s *Service) Claim(ctx context.Context, id, by uuid.UUID) (Waiting, error) {
	return s.changePending(ctx, id, "claim", func(tx pgx.Tx, a approval.Approval) (approval.Approval, error) {
		if a.HeldBy == by && a.AssignedBy == uuid.Nil {
			return a, nil
		}
		if err := s.checkConflictOfInterest(ctx, tx, &a, by); err != nil {
			return a, err
		}
		a, err := approval.Hold(ctx, tx, a, by, uuid.Nil)
		if err != nil {
			return a, err
		}
		return a, audit.Write(ctx, tx, audit.Event{Actor: audit.Person(by), Action: audit.ApprovalClaimed, Subject: id})
	})
}

// Release removes the holder of a parked call, also if it is another reviewer.
// Errors: approval.ErrNotFound, *approval.ConflictError.
func (s *Service) Release(ctx context.Context, id, by uuid.UUID) (Waiting, error) {
	return s.changePending(ctx, id, "release", func(tx pgx.Tx, a approval.Approval) (approval.Approval, error) {
		if a.HeldBy == uuid.Nil {
			return a, nil
		}
		data := map[string]any{"person": a.HeldBy}
		a, err := approval.Release(ctx, tx, a)
		if err != nil {
			return a, err
		}
		return a, audit.Write(ctx, tx, audit.Event{Actor: audit.Person(by), Action: audit.ApprovalReleased, Subject: id, Data: data})
	})
}

// Reviewers lists the people who may be assigned.
type Reviewers interface {
	Reviewers(ctx context.Context) ([]identity.Eligible, error)
}

// Assign asks a reviewer to decide a parked call. Assigning oneself is claiming.
// Errors: those of [Service.Claim], *fault.InvalidError if the person may not decide the call.
func (s *Service) Assign(ctx context.Context, id, to, by uuid.UUID, people Reviewers) (Waiting, error) {
	if to == by {
		return s.Claim(ctx, id, by)
	}
	reviewers, err := people.Reviewers(ctx)
	if err != nil {
		return Waiting{}, err
	}
	return s.changePending(ctx, id, "assign", func(tx pgx.Tx, a approval.Approval) (approval.Approval, error) {
		if !containsPerson(reviewers, to) {
			return a, fault.Invalid("person", "must be a reviewer")
		}
		if s.checkConflictOfInterest(ctx, tx, &a, to) != nil {
			return a, fault.Invalid("person", "must be a reviewer who may decide this call")
		}
		if a.HeldBy == to {
			return a, nil
		}
		a, err := approval.Hold(ctx, tx, a, to, by)
		if err != nil {
			return a, err
		}
		return a, audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: audit.ApprovalAssigned, Subject: id, Data: map[string]any{"person": to},
		})
	})
}

func containsPerson(list []identity.Eligible, person uuid.UUID) bool {
	for i := range list {
		if list[i].Person == person {
			return true
		}
	}
	return false
}

// Comment adds a remark for other reviewers to a call that was parked. Agents never see it.
// Errors: approval.ErrNotFound, approval.ErrComments, *fault.InvalidError.
func (s *Service) Comment(ctx context.Context, id, by uuid.UUID, text string) (Waiting, error) {
	text = strings.TrimSpace(text)
	switch n := utf8.RuneCountInString(text); {
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return Waiting{}, fault.Invalid("text", "must be characters that can be stored")
	case n == 0:
		return Waiting{}, fault.Invalid("text", "must not be empty")
	case n > approval.MaxComment:
		return Waiting{}, fault.Invalid("text", fmt.Sprintf("must be at most %d characters, not %d", approval.MaxComment, n))
	}
	return s.changeApproval(ctx, id, "comment on", func(tx pgx.Tx, a approval.Approval) (approval.Approval, error) {
		a, err := approval.AddComment(ctx, tx, a, by, text)
		if err != nil {
			return a, err
		}
		return a, audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: audit.ApprovalCommented, Subject: id, Data: map[string]any{"number": a.Comments},
		})
	})
}

// ListComments returns the comments on a call, oldest first.
func (s *Service) ListComments(ctx context.Context, id uuid.UUID) ([]approval.Comment, error) {
	var comments []approval.Comment
	batch := &pgx.Batch{}
	approval.QueueComments(batch, id, &comments)
	err := s.Pool.SendBatch(ctx, batch).Close()
	return comments, err
}

// changePending calls change with a pending approval that is locked. An overdue one expires first.
func (s *Service) changePending(ctx context.Context, id uuid.UUID, action string, change func(pgx.Tx, approval.Approval) (approval.Approval, error)) (Waiting, error) {
	if err := s.Expire(ctx, id); err != nil {
		return Waiting{}, err
	}
	return s.changeApproval(ctx, id, action, func(tx pgx.Tx, a approval.Approval) (approval.Approval, error) {
		if a.Status != approval.Pending {
			return a, &approval.ConflictError{Approval: a}
		}
		return change(tx, a)
	})
}

// changeApproval calls change with an approval that is locked.
func (s *Service) changeApproval(ctx context.Context, id uuid.UUID, action string, change func(pgx.Tx, approval.Approval) (approval.Approval, error)) (Waiting, error) {
	var changed approval.Approval
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, _, err := approval.Lock(ctx, tx, id)
		if err == nil {
			changed, err = change(tx, a)
		}
		return err
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("%s approval %s: %w", action, id, err)
	}
	return s.withCall(ctx, changed)
}
