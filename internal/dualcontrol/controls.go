package dualcontrol

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/postgres"
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
