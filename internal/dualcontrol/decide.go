package dualcontrol

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Approve applies a change exactly as it was proposed. Errors: [ErrNotFound], [ErrOwn], [ErrStale], *[EndedError].
func (s *Service) Approve(ctx context.Context, by, id uuid.UUID, note string) (Change, error) {
	return s.decide(ctx, by, id, Approved, note)
}

// Reject ends a change without applying it. Its proposer may do so too. Errors: [ErrNotFound], *[EndedError].
func (s *Service) Reject(ctx context.Context, by, id uuid.UUID, note string) (Change, error) {
	return s.decide(ctx, by, id, Rejected, note)
}

func (s *Service) decide(ctx context.Context, by, id uuid.UUID, to Status, note string) (Change, error) {
	before, err := s.Get(ctx, id)
	if err != nil {
		return Change{}, err
	}
	applier, known := s.appliers[before.Kind]
	if !known {
		return Change{}, fmt.Errorf("decide change %s: unknown kind %q", id, before.Kind)
	}
	var decided Change
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, applier.Lock); err != nil {
			return err
		}
		c, err := s.readStored(ctx, tx, `id = $1 FOR UPDATE`, id)
		switch {
		case err != nil:
			return err
		case c.Status != Pending:
			return &EndedError{Change: c.Change}
		}
		if to == Approved {
			switch one, err := s.MayBeOne(ctx, tx, c.ProposedBy, by); {
			case err != nil:
				return err
			case one:
				return ErrOwn
			}
			if err := applier.Apply(ctx, tx, c.Change, c.payload, by); err != nil {
				return err
			}
		}
		decided, err = settle(ctx, tx, by, c.Change, to, note)
		return err
	})
	if errors.Is(err, ErrStale) {
		return before, errors.Join(fmt.Errorf("approve change %s: %w", id, err), s.markStale(ctx, by, id))
	}
	if err != nil {
		return Change{}, fmt.Errorf("decide change %s: %w", id, err)
	}
	if to == Approved && applier.Applied != nil {
		applier.Applied()
	}
	return decided, nil
}

// markStale ends a change that can no longer be applied.
func (s *Service) markStale(ctx context.Context, by, id uuid.UUID) error {
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		c, err := s.readStored(ctx, tx, `id = $1 FOR UPDATE`, id)
		if err != nil || c.Status != Pending {
			return err
		}
		_, err = settle(ctx, tx, by, c.Change, Stale, "")
		return err
	})
}

func settle(ctx context.Context, tx pgx.Tx, by uuid.UUID, c Change, to Status, note string) (Change, error) {
	settled, err := postgres.CollectOne(ctx, tx, scanChange, `UPDATE changes SET status = $2, decided_by = $3, decided_at = holdpoint_now(),
		note = nullif($4, ''), sealed = NULL, fields = `+keptFields+` WHERE id = $1 RETURNING `+changeColumns, c.ID, to, by, note)
	if err != nil {
		return Change{}, fmt.Errorf("settle change %s: %w", c.ID, err)
	}
	action := map[Status]audit.Action{Approved: audit.ChangeApproved, Rejected: audit.ChangeRejected, Stale: audit.ChangeStale}[to]
	data := map[string]any{"kind": c.Kind, "name": c.Name, "proposed_by": c.ProposedBy}
	if note != "" {
		data["note"] = note
	}
	if err := audit.Write(ctx, tx, audit.Event{Actor: audit.Person(by), Action: action, Subject: c.ID, Data: data}); err != nil {
		return Change{}, err
	}
	return settled, registry.Notify(ctx, tx)
}

// Get returns a change. Error: [ErrNotFound].
func (s *Service) Get(ctx context.Context, id uuid.UUID) (Change, error) {
	found, err := postgres.CollectOne(ctx, s.Pool, scanChange, `SELECT `+changeColumns+` FROM changes WHERE id = $1`, id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Change{}, fmt.Errorf("read change %s: %w", id, err)
	}
	return found, nil
}

// List returns changes older than before (uuid.Nil: all), the newest first, and the cursor of the next page; uuid.Nil: this is the last
// page. pending selects those that wait.
func (s *Service) List(ctx context.Context, before uuid.UUID, limit int, pending bool) ([]Change, uuid.UUID, error) {
	limit = postgres.PageLength(limit)
	found, err := postgres.Collect(ctx, s.Pool, scanChange, `SELECT `+changeColumns+` FROM changes
		WHERE ($1::uuid IS NULL OR id < $1) AND (NOT $2 OR status = 'pending' AND expires_at > holdpoint_now()) ORDER BY id DESC LIMIT $3`,
		postgres.OrNull(before), pending, limit+1)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list changes: %w", err)
	}
	if len(found) <= limit {
		return found, uuid.Nil, nil
	}
	return found[:limit], found[limit-1].ID, nil
}

// MayApprove reports whether an operator may approve a change, as far as who proposed it goes.
func (s *Service) MayApprove(ctx context.Context, c *Change, by uuid.UUID) (bool, error) {
	one, err := s.MayBeOne(ctx, s.Pool, c.ProposedBy, by)
	return err == nil && !one, err
}

// CountPending returns the number of changes that wait, or 0 if none can.
func (s *Service) CountPending(ctx context.Context) (int, error) {
	if !s.IsOn() {
		return 0, nil
	}
	n, err := postgres.CollectOne(ctx, s.Pool, pgx.RowTo[int], `SELECT count(*) FROM changes WHERE status = 'pending' AND expires_at > holdpoint_now()`)
	if err != nil {
		return 0, fmt.Errorf("count changes: %w", err)
	}
	return n, nil
}
