package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// vouchedKey is who somebody is.
type vouchedKey struct{ issuer, subject string }

// Vouched returns the person of whom a verified access token speaks, made known if new. It begins no session and gives no
// role: what a sign-in or an operator said of them stands. From memory. Errors: ErrBlocked, *InvalidError.
func (s *Service) Vouched(ctx context.Context, c Claims) (uuid.UUID, error) {
	c.Roles, c.Teams = nil, nil
	c, err := c.clean()
	if err != nil {
		return uuid.Nil, fmt.Errorf("know a person of %s: %w", c.Issuer, err)
	}
	return s.vouched.Get(ctx, vouchedKey{c.Issuer, c.Subject}, func(ctx context.Context) (uuid.UUID, error) {
		id, err := s.loadVouched(ctx, c)
		if err != nil {
			return uuid.Nil, fmt.Errorf("know %s of %s: %w", c.Subject, c.Issuer, err)
		}
		return id, nil
	})
}

func (s *Service) loadVouched(ctx context.Context, c Claims) (uuid.UUID, error) {
	id, err := findVouched(ctx, s.pool, c)
	if !errors.Is(err, ErrNotFound) {
		return id, err
	}
	added, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO people (id, issuer, subject, name, email) VALUES ($1, $2, $3, $4, nullif($5, ''))
			ON CONFLICT (issuer, subject) DO NOTHING`, added, c.Issuer, c.Subject, c.Name, c.Email)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			err = audit.Write(ctx, tx, audit.Event{
				Actor: audit.Person(added), Action: "person.created", Subject: added,
				Data: map[string]any{"issuer": c.Issuer, "subject": c.Subject, "by": "access_token"},
			})
			if err != nil {
				return err
			}
		}
		id, err = findVouched(ctx, tx, c)
		return err
	})
	return id, err
}

func findVouched(ctx context.Context, db postgres.Querier, c Claims) (uuid.UUID, error) {
	rows, err := db.Query(ctx, `SELECT id, blocked_at IS NOT NULL FROM people WHERE issuer = $1 AND subject = $2`, c.Issuer, c.Subject)
	if err != nil {
		return uuid.Nil, err
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct {
		ID      uuid.UUID
		Blocked bool
	}])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return uuid.Nil, ErrNotFound
	case err != nil:
		return uuid.Nil, err
	case found.Blocked:
		return uuid.Nil, ErrBlocked
	}
	return found.ID, nil
}
