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
)

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
	var settled approval.Approval
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
		settled, err = s.end(ctx, tx, a, cancellation(), actor, "")
		return err
	})
	if err != nil {
		return Call{}, fmt.Errorf("cancel call %s: %w", id, err)
	}
	s.hub.wake(id, nil)
	s.tellDecision(ctx, &settled)
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

// RequestCancel is what a client asks for that wants no outcome any more: a call that nobody decided about is cancelled,
// and the server of one that nobody has to decide about is asked to cancel the task that it answered with. What
// a person approved goes its way. ErrNotFound.
func (s *Service) RequestCancel(ctx context.Context, viewer Viewer, id uuid.UUID) error {
	c, err := s.Get(ctx, viewer, id)
	if err != nil {
		return err
	}
	switch {
	case c.waitsForPeople():
		_, err := s.Cancel(ctx, viewer, viewer.PrincipalID, id)
		if errors.Is(err, ErrState) {
			return nil // it was decided about meanwhile
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
