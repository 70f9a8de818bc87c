package agent

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secret"
)

// Reseal encrypts the secrets of skills and agents again that another key than the
// primary one of the keyset had encrypted, and returns how many rows it changed. What they say stays,
// so no revision grows, and nobody needs to forget anything.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	// Nobody else changes secrets until the transaction ends.
	if _, err := tx.Exec(ctx, lockSQL); err != nil {
		return 0, fmt.Errorf("reseal skills and agents: %w", err)
	}
	skills, err := reseal(ctx, tx, s.box, "skills", skillPurpose)
	if err != nil {
		return 0, err
	}
	agents, err := reseal(ctx, tx, s.box, "agents", agentPurpose)
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

func reseal(ctx context.Context, tx pgx.Tx, box *secret.Box, table, purpose string) (int, error) {
	rows, err := tx.Query(ctx, `SELECT id, name, secrets FROM `+table+` WHERE secrets IS NOT NULL`)
	if err != nil {
		return 0, fmt.Errorf("read secrets of %s: %w", table, err)
	}
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
