package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Cancel cancels a call that is not being sent yet. by is the person who cancels it; uuid.Nil: the agent.
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
		if _, err := s.abandonWait(ctx, id, cancelledOutcome(), actor, false); err != nil {
			return Call{}, err
		}
		return s.getCancelled(ctx, viewer, id)
	case Approved: // and not claimed by an instance
		m := &move{event: onCancel, id: id, actor: actor, data: map[string]any{"code": CodeCancelled}, outcome: outcome{
			status: Cancelled, code: CodeCancelled, effect: tool.EffectNone, message: "the call was cancelled after its approval, before it was sent",
		}}
		if err := s.moveCalls(ctx, s.Pool, m); err != nil {
			return Call{}, fmt.Errorf("cancel call %s: %w", id, err)
		}
		s.announceMoves(ctx, m)
		return s.getCancelled(ctx, viewer, id)
	default:
	}
	var cancelled *move
	var a approval.Approval
	var now time.Time
	first := &pgx.Batch{}
	approval.QueueLock(first, id, &a, &now)
	err = postgres.InBatchTx(ctx, s.Pool, first, func(tx pgx.Tx) (*pgx.Batch, error) {
		if a.Status != approval.Pending || !a.Deadline.After(now) {
			return nil, fmt.Errorf("%w: its approval is %s", ErrState, a.Status)
		}
		cancelled = newSettleMove(&a, cancelledOutcome(), actor, "", nil)
		return s.prepareMoves(ctx, tx, cancelled)
	})
	if errors.Is(err, approval.ErrNotFound) {
		err = fmt.Errorf("%w: it is %s", ErrState, c.Status)
	}
	if err != nil {
		return Call{}, fmt.Errorf("cancel call %s: %w", id, err)
	}
	s.announceMoves(ctx, cancelled)
	return s.Get(ctx, viewer, id)
}

// getCancelled returns a call after its cancellation, or [ErrState] if it has another status.
func (s *Service) getCancelled(ctx context.Context, viewer Viewer, id uuid.UUID) (Call, error) {
	c, err := s.Get(ctx, viewer, id)
	if err == nil && c.Status != Cancelled {
		return Call{}, fmt.Errorf("cancel call %s: %w: it is %s", id, ErrState, c.Status)
	}
	return c, err
}

// RequestCancel handles the cancellation by a client. It cancels a call that is not being sent yet, and asks the server of an
// auto-approved call to cancel its task. A gated call that is being sent continues. Errors: ErrNotFound.
func (s *Service) RequestCancel(ctx context.Context, viewer Viewer, id uuid.UUID) error {
	c, err := s.Get(ctx, viewer, id)
	if err != nil {
		return err
	}
	switch {
	case c.Status.waitsForPeople(), c.Status == Approved:
		_, err := s.Cancel(ctx, viewer, viewer.PrincipalID, id)
		if errors.Is(err, ErrState) {
			return nil // it moved in the meantime
		}
		return err
	case c.Status == Executing && c.claimedBy == uuid.Nil && s.CancelCarried != nil:
		return s.CancelCarried(ctx, &c)
	case c.Status == Executing && !c.Gated:
		event := audit.Event{Actor: viewer.auditActor(), Action: audit.CallCancelRequested, Subject: id}
		if err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error { return audit.Write(ctx, tx, event) }); err != nil {
			return fmt.Errorf("cancel call %s: %w", id, err)
		}
		if !s.cancelRelay(id) {
			s.notifyProcesses(ctx, Event{CallID: id, Kind: eventCancel})
		}
	}
	return nil
}

// auditActor returns the actor of an audit event for an agent's client.
func (v Viewer) auditActor() audit.Actor {
	if v.PrincipalID != uuid.Nil {
		return audit.Person(v.PrincipalID)
	}
	return audit.Agent(v.AgentID)
}
