package agent

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secret"
)

// Reseal encrypts secrets of skills and agents with the primary key of the keyset, unless they already are, and returns the number
// of changed rows. The values stay the same, so no revision changes and no cache is dropped.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	// The lock keeps other changes of secrets out until the transaction ends.
	if _, err := tx.Exec(ctx, lockSQL); err != nil {
		return 0, fmt.Errorf("reseal skills and agents: %w", err)
	}
	skills, err := resealTable(ctx, tx, s.box, "skills", skillPurpose)
	if err != nil {
		return 0, err
	}
	agents, err := resealTable(ctx, tx, s.box, "agents", agentPurpose)
	if err != nil {
		return 0, err
	}
	return skills + agents, nil
}

// sealedRow is a row with its secrets.
type sealedRow struct {
	ID     uuid.UUID
	Name   string
	Sealed []byte
}

func resealTable(ctx context.Context, tx pgx.Tx, box *secret.Box, table, purpose string) (int, error) {
	rows, _ := tx.Query(ctx, `SELECT id, name, secrets FROM `+table+` WHERE secrets IS NOT NULL`)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sealedRow])
	if err != nil {
		return 0, fmt.Errorf("read secrets of %s: %w", table, err)
	}
	n := 0
	for _, row := range found {
		if !box.Stale(row.Sealed) {
			continue
		}
		text, err := box.Open(row.Sealed, secret.For(purpose, row.ID))
		if err != nil {
			return 0, fmt.Errorf("reseal secrets of %s %s: %w", purpose, row.Name, err)
		}
		sealed, err := box.Seal(text, secret.For(purpose, row.ID))
		if err != nil {
			return 0, fmt.Errorf("reseal secrets of %s %s: %w", purpose, row.Name, err)
		}
		if _, err := tx.Exec(ctx, `UPDATE `+table+` SET secrets = $2 WHERE id = $1`, row.ID, sealed); err != nil {
			return 0, fmt.Errorf("reseal secrets of %s %s: %w", purpose, row.Name, err)
		}
		n++
	}
	return n, nil
}
