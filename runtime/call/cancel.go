package call

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Cancel ends a call that is not being sent yet. by is the person who cancels; uuid.Nil when the agent does.
// Errors: ErrNotFound, ErrState.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, by, id uuid.UUID) (Call, error) {
	c, err := s.Get(ctx, viewer, id)
	if err != nil {
		return Call{}, err
	}
	actor := audit.Agent(c.AgentID)
	if by != uuid.Nil {
		actor = audit.Person(by)
	}
	switch c.Status {
	case NeedsConnection:
		if _, err := s.giveUp(ctx, id, cancellation(), actor, false); err != nil {
			return Call{}, err
		}
		return s.cancelled(ctx, viewer, id)
	case Approved:
		if err := s.cancelApproved(ctx, id, actor); err != nil {
			return Call{}, err
		}
		return s.cancelled(ctx, viewer, id)
	default:
	}
	var cancelled *move
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
		cancelled, err = s.settle(ctx, tx, a, cancellation(), actor, "")
		return err
	})
	if err != nil {
		return Call{}, fmt.Errorf("cancel call %s: %w", id, err)
	}
	s.announceMoves(ctx, cancelled)
	return s.Get(ctx, viewer, id)
}

// cancelApproved ends an approved call that no instance has claimed.
func (s *Service) cancelApproved(ctx context.Context, id uuid.UUID, actor audit.Actor) error {
	m := &move{event: onCancel, id: id, actor: actor, data: map[string]any{"code": CodeCancelled}, outcome: outcome{
		status: Cancelled, code: CodeCancelled, effect: tool.EffectNone, message: "the call was cancelled after its approval, before it was sent",
	}}
	if err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error { return s.moveInTx(ctx, tx, m) }); err != nil {
		return fmt.Errorf("cancel call %s: %w", id, err)
	}
	s.announceMoves(ctx, m)
	return nil
}

// cancelled returns a call that was to be cancelled without a decision about its approval.
func (s *Service) cancelled(ctx context.Context, viewer Viewer, id uuid.UUID) (Call, error) {
	c, err := s.Get(ctx, viewer, id)
	if err == nil && c.Status != Cancelled {
		return Call{}, fmt.Errorf("cancel call %s: %w: it is %s", id, ErrState, c.Status)
	}
	return c, err
}

// RequestCancel serves a client that wants no outcome any more. A call that is not being sent yet is cancelled. The server of an
// auto-approved one is asked to cancel the task that it answered with. A gated call that is being sent goes on. ErrNotFound.
func (s *Service) RequestCancel(ctx context.Context, viewer Viewer, id uuid.UUID) error {
	c, err := s.Get(ctx, viewer, id)
	if err != nil {
		return err
	}
	switch {
	case c.waitsForPeople(), c.Status == Approved:
		_, err := s.Cancel(ctx, viewer, viewer.PrincipalID, id)
		if errors.Is(err, ErrState) {
			return nil // it moved on meanwhile
		}
		return err
	case c.Status == Executing && c.claimedBy == uuid.Nil && s.CancelCarried != nil:
		return s.CancelCarried(ctx, &c)
	case c.Status == Executing && !c.Gated:
		return s.requestCancel(ctx, viewer, &c)
	}
	return nil
}

func (s *Service) requestCancel(ctx context.Context, viewer Viewer, c *Call) error {
	event := audit.Event{Actor: viewer.actor(), Action: "call.cancel_requested", Subject: c.ID}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error { return audit.Write(ctx, tx, event) })
	if err != nil {
		return fmt.Errorf("cancel call %s: %w", c.ID, err)
	}
	if !s.relays.cancel(c.ID) {
		s.broadcast(ctx, Event{CallID: c.ID, Kind: eventCancel})
	}
	return nil
}

// actor is an agent's client, as the audit has it.
func (v Viewer) actor() audit.Actor {
	if v.PrincipalID != uuid.Nil {
		return audit.Person(v.PrincipalID)
	}
	return audit.Agent(v.AgentID)
}
