package secret

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Reseal encrypts again, with the primary key, the values in the column "sealed" of a table with the key "id" that another
// key encrypted. The table's owner sealed them for a purpose and the row. Reseal returns the number of changed rows.
func (b *Box) Reseal(ctx context.Context, tx pgx.Tx, table, purpose string) (int, error) {
	rows, err := tx.Query(ctx, `SELECT id, sealed FROM `+table+` WHERE sealed IS NOT NULL ORDER BY id FOR UPDATE`)
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
		sealed, stale, err := b.ResealValue(r.Sealed, For(purpose, r.ID))
		if err == nil && stale {
			_, err = tx.Exec(ctx, `UPDATE `+table+` SET sealed = $2 WHERE id = $1`, r.ID, sealed)
			n++
		}
		if err != nil {
			return 0, fmt.Errorf("reseal %s %s: %w", table, r.ID, err)
		}
	}
	return n, nil
}

// ResealValue encrypts a value again with the primary key. stale is false if the primary key encrypted it before.
func (b *Box) ResealValue(sealed, associated []byte) (again []byte, stale bool, err error) {
	if !b.Stale(sealed) {
		return nil, false, nil
	}
	text, err := b.Open(sealed, associated)
	if err != nil {
		return nil, true, err
	}
	again, err = b.Seal(text, associated)
	return again, true, err
}
