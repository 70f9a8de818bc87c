package secret

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Reseal encrypts again what another key than the primary one had encrypted in the column "sealed" of a table with
// the key "id", for the table's owner, who sealed it for a purpose and the row. It returns how many rows it changed.
func (b *Box) Reseal(ctx context.Context, tx pgx.Tx, table, purpose string) (int, error) {
	rows, err := tx.Query(ctx, `SELECT id, sealed FROM `+table+` ORDER BY id FOR UPDATE`)
	if err != nil {
		return 0, fmt.Errorf("reseal %s: %w", table, err)
	}
	type row struct {
		ID     uuid.UUID
		Sealed []byte
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, fmt.Errorf("reseal %s: %w", table, err)
	}
	n := 0
	for _, r := range found {
		if !b.Stale(r.Sealed) {
			continue
		}
		text, err := b.Open(r.Sealed, For(purpose, r.ID))
		if err != nil {
			return 0, fmt.Errorf("reseal %s %s: %w", table, r.ID, err)
		}
		sealed, err := b.Seal(text, For(purpose, r.ID))
		if err != nil {
			return 0, fmt.Errorf("reseal %s %s: %w", table, r.ID, err)
		}
		if _, err := tx.Exec(ctx, `UPDATE `+table+` SET sealed = $2 WHERE id = $1`, r.ID, sealed); err != nil {
			return 0, fmt.Errorf("reseal %s %s: %w", table, r.ID, err)
		}
		n++
	}
	return n, nil
}
