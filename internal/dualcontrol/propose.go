package dualcontrol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const changeColumns = `id, kind, subject, name, action, fields, proposed_by, proposed_at, expires_at,
	CASE WHEN status = 'pending' AND expires_at <= holdpoint_now() THEN 'expired' ELSE status END,
	coalesce(decided_by, '00000000-0000-0000-0000-000000000000'), decided_at, coalesce(note, '')`

func scanChange(row pgx.CollectableRow) (Change, error) {
	var c Change
	err := row.Scan(&c.ID, &c.Kind, &c.Subject, &c.Name, &c.Action, &c.Fields, &c.ProposedBy, &c.ProposedAt, &c.ExpiresAt,
		&c.Status, &c.DecidedBy, &c.DecidedAt, &c.Note)
	return c, err
}

// payloadPurpose binds sealed values to the changes table.
const payloadPurpose = "change"

// Propose stores a change that loosens, in the transaction that would have made it, or returns nil if it needs no second operator. Proposing
// what waits already returns the change that waits. Another proposal about the same thing replaces it. Errors: [ErrAlone].
func (s *Service) Propose(ctx context.Context, tx pgx.Tx, by audit.Actor, p Proposal) (*Change, error) {
	if !s.IsOn() || by.Kind != audit.KindPerson {
		return nil, nil
	}
	switch alone, err := s.isAlone(ctx, tx, by.ID); {
	case err != nil:
		return nil, err
	case alone:
		return nil, ErrAlone
	}
	if p.Fields == nil {
		p.Fields = []Field{}
	}
	payload, err := json.Marshal(p.Payload)
	if err != nil {
		return nil, fmt.Errorf("propose change of %s %s: %w", p.Kind, p.Name, err)
	}
	if _, err := tx.Exec(ctx, endExpired); err != nil {
		return nil, fmt.Errorf("end expired changes: %w", err)
	}
	waiting, err := s.findWaiting(ctx, tx, p)
	if err != nil {
		return nil, err
	}
	data := map[string]any{"kind": p.Kind, "name": p.Name, "action": p.Action}
	if p.Kind != Invitation && p.Kind != Grant { // they may have data of people, which no erasure finds in an event
		data["fields"] = p.Fields
	}
	if waiting != nil {
		if bytes.Equal(waiting.payload, payload) {
			return &waiting.Change, nil
		}
		data["replaces"] = waiting.ID
		if _, err := tx.Exec(ctx, `UPDATE changes SET status = 'replaced', sealed = NULL, fields = `+keptFields+` WHERE id = $1`, waiting.ID); err != nil {
			return nil, fmt.Errorf("replace change %s: %w", waiting.ID, err)
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	sealed, err := s.Box.Seal(payload, secret.For(payloadPurpose, id))
	if err != nil {
		return nil, fmt.Errorf("encrypt change: %w", err)
	}
	made, err := postgres.CollectOne(ctx, tx, scanChange, `INSERT INTO changes (id, kind, subject, name, action, fields, sealed, proposed_by, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, holdpoint_now() + $9 * interval '1 microsecond') RETURNING `+changeColumns,
		id, p.Kind, p.Subject, p.Name, p.Action, p.Fields, sealed, by.ID, s.TTL.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("propose change of %s %s: %w", p.Kind, p.Name, err)
	}
	data["expires_at"] = made.ExpiresAt.UTC()
	if err := audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.ChangeProposed, Subject: id, Data: data}); err != nil {
		return nil, err
	}
	return &made, registry.Notify(ctx, tx)
}

// keptFields are the differences of a change that has ended. Those of an invitation name a person, and those of a grant have arguments.
const keptFields = `CASE WHEN kind IN ('invitation', 'grant') THEN '[]' ELSE fields END`

// storedChange is a change with what it applies.
type storedChange struct {
	Change
	payload []byte
}

// EndExpired removes the contents of changes that nobody decided in time. It does nothing without dual control's service.
func (s *Service) EndExpired(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if _, err := s.Pool.Exec(ctx, endExpired); err != nil {
		return fmt.Errorf("end expired changes: %w", err)
	}
	return nil
}

const endExpired = `UPDATE changes SET status = 'expired', sealed = NULL, fields = ` + keptFields + ` WHERE status = 'pending' AND expires_at <= holdpoint_now()`

// findWaiting locks and returns the change about a thing that has not been decided, or nil.
func (s *Service) findWaiting(ctx context.Context, tx pgx.Tx, p Proposal) (*storedChange, error) {
	found, err := s.readStored(ctx, tx, `kind = $1 AND subject = $2 AND status = 'pending' FOR UPDATE`, p.Kind, p.Subject)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return found, err
}

func (s *Service) readStored(ctx context.Context, tx pgx.Tx, where string, args ...any) (*storedChange, error) {
	found, err := postgres.CollectOne(ctx, tx, func(row pgx.CollectableRow) (storedChange, error) {
		var c storedChange
		err := row.Scan(&c.ID, &c.Kind, &c.Subject, &c.Name, &c.Action, &c.Fields, &c.ProposedBy, &c.ProposedAt, &c.ExpiresAt,
			&c.Status, &c.DecidedBy, &c.DecidedAt, &c.Note, &c.payload)
		return c, err
	}, `SELECT `+changeColumns+`, sealed FROM changes WHERE `+where, args...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read change: %w", err)
	}
	if found.payload != nil {
		if found.payload, err = s.Box.Open(found.payload, secret.For(payloadPurpose, found.ID)); err != nil {
			return nil, fmt.Errorf("decrypt change %s: %w", found.ID, err)
		}
	}
	return &found, nil
}

// isAlone reports whether no operator other than the person could approve a change.
func (s *Service) isAlone(ctx context.Context, db postgres.Querier, person uuid.UUID) (bool, error) {
	operators, err := s.Operators(ctx, db)
	if err != nil {
		return false, err
	}
	for _, other := range operators {
		one, err := s.MayBeOne(ctx, db, person, other)
		if err != nil || !one {
			return false, err
		}
	}
	return true, nil
}

// HasTwo reports whether there are two operators who are different people.
func (s *Service) HasTwo(ctx context.Context, db postgres.Querier) (bool, error) {
	operators, err := s.Operators(ctx, db)
	if err != nil {
		return false, err
	}
	for _, person := range operators {
		if alone, err := s.isAlone(ctx, db, person); err != nil || !alone {
			return err == nil, err
		}
	}
	return false, nil
}
