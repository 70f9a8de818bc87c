package dualcontrol

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Start notes that dual control is on or off. It refuses to switch it on while there are not two operators who are different people. A server
// that had it on starts in any case: a change that loosens is then refused until there are two again.
func (s *Service) Start(ctx context.Context) error {
	err := Switch(ctx, s.Pool, "dual_control", s.On, func(tx pgx.Tx) error {
		two, err := s.HasTwo(ctx, tx)
		if err == nil && !two {
			err = errors.New("must be off until there are two operators who are different people and who do not vouch for each other: invite a second operator, then switch it on")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("--dual-control: %w", err)
	}
	return nil
}

// Switch notes that a setting which takes two people is on or off. check may refuse to switch it on.
func Switch(ctx context.Context, pool *pgxpool.Pool, name string, on bool, check func(tx pgx.Tx) error) error {
	return postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		if !on {
			_, err := tx.Exec(ctx, `DELETE FROM controls WHERE name = $1`, name)
			return err
		}
		var was bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM controls WHERE name = $1)`, name).Scan(&was); err != nil || was {
			return err
		}
		if err := check(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO controls (name) VALUES ($1) ON CONFLICT DO NOTHING`, name)
		return err
	})
}

// Reseal encrypts changes that wait with the primary key of the keyset, unless they already are, and returns the number of changed rows.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	type row struct {
		ID     uuid.UUID
		Sealed []byte
	}
	found, err := postgres.Collect(ctx, tx, pgx.RowToStructByPos[row], `SELECT id, sealed FROM changes WHERE sealed IS NOT NULL FOR UPDATE`)
	if err != nil {
		return 0, fmt.Errorf("read changes: %w", err)
	}
	n := 0
	for _, r := range found {
		if !s.Box.Stale(r.Sealed) {
			continue
		}
		text, err := s.Box.Open(r.Sealed, secret.For(payloadPurpose, r.ID))
		if err != nil {
			return 0, fmt.Errorf("reseal change %s: %w", r.ID, err)
		}
		sealed, err := s.Box.Seal(text, secret.For(payloadPurpose, r.ID))
		if err != nil {
			return 0, fmt.Errorf("reseal change %s: %w", r.ID, err)
		}
		if _, err := tx.Exec(ctx, `UPDATE changes SET sealed = $2 WHERE id = $1`, r.ID, sealed); err != nil {
			return 0, fmt.Errorf("reseal change %s: %w", r.ID, err)
		}
		n++
	}
	return n, nil
}
