package notify

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secret"
)

// Reseal encrypts again what another key than the primary one of the keyset had encrypted, and returns
// how many rows it changed.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	total := 0
	for _, c := range []struct{ table, purpose string }{
		{"webhooks", webhookPurpose}, {"push_keys", pushKeyPurpose}, {"push_subscriptions", subscriptionPurpose},
	} {
		n, err := s.resealTable(ctx, tx, c.table, c.purpose)
		if err != nil {
			return 0, fmt.Errorf("reseal %s: %w", c.table, err)
		}
		total += n
	}
	return total, nil
}

func (s *Service) resealTable(ctx context.Context, tx pgx.Tx, table, purpose string) (int, error) {
	rows, err := tx.Query(ctx, `SELECT id, sealed FROM `+table+` ORDER BY id FOR UPDATE`)
	if err != nil {
		return 0, err
	}
	type row struct {
		ID     uuid.UUID
		Sealed []byte
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, err
	}
	n := 0
	for _, r := range found {
		if !s.Box.Stale(r.Sealed) {
			continue
		}
		text, err := s.Box.Open(r.Sealed, secret.For(purpose, r.ID))
		if err != nil {
			return 0, err
		}
		sealed, err := s.Box.Seal(text, secret.For(purpose, r.ID))
		if err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `UPDATE `+table+` SET sealed = $2 WHERE id = $1`, r.ID, sealed); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
