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
