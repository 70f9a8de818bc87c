package oauthclient

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secret"
)

// sealedColumn is a table whose column sealed is encrypted, bound to the column id.
type sealedColumn struct {
	table, purpose string
}

// Reseal encrypts again what another key than the primary one of the keyset had encrypted, and returns
// how many rows it changed. Authorization requests under way are left out: they live for minutes.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	total := 0
	for _, column := range []sealedColumn{
		{"oauth_connections", connectionPurpose},
		{"oauth_keys", keyPurpose},
		{"oauth_revocations", revokePurpose},
	} {
		n, err := s.resealColumn(ctx, tx, column)
		if err != nil {
			return 0, fmt.Errorf("reseal %s: %w", column.table, err)
		}
		total += n
	}
	n, err := s.resealClients(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("reseal oauth_clients: %w", err)
	}
	return total + n, nil
}

func (s *Service) resealColumn(ctx context.Context, tx pgx.Tx, c sealedColumn) (int, error) {
	rows, err := tx.Query(ctx, `SELECT id, sealed FROM `+c.table+` WHERE sealed IS NOT NULL FOR UPDATE`)
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
		sealed, stale, err := s.resealed(r.Sealed, c.purpose, r.ID)
		if err != nil {
			return 0, err
		}
		if !stale {
			continue
		}
		if _, err := tx.Exec(ctx, `UPDATE `+c.table+` SET sealed = $2 WHERE id = $1`, r.ID, sealed); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// resealClients is resealColumn for the table whose rows have no id of their own.
func (s *Service) resealClients(ctx context.Context, tx pgx.Tx) (int, error) {
	rows, err := tx.Query(ctx, `SELECT issuer, redirect_uri, sealed FROM oauth_clients WHERE sealed IS NOT NULL FOR UPDATE`)
	if err != nil {
		return 0, err
	}
	type row struct {
		Issuer, Redirect string
		Sealed           []byte
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, err
	}
	n := 0
	for _, r := range found {
		sealed, stale, err := s.resealed(r.Sealed, clientPurpose, clientRow(r.Issuer, r.Redirect))
		if err != nil {
			return 0, err
		}
		if !stale {
			continue
		}
		_, err = tx.Exec(ctx, `UPDATE oauth_clients SET sealed = $3 WHERE issuer = $1 AND redirect_uri = $2`, r.Issuer, r.Redirect, sealed)
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

func (s *Service) resealed(sealed []byte, purpose string, id uuid.UUID) ([]byte, bool, error) {
	if !s.Box.Stale(sealed) {
		return nil, false, nil
	}
	text, err := s.Box.Open(sealed, secret.For(purpose, id))
	if err != nil {
		return nil, false, err
	}
	again, err := s.Box.Seal(text, secret.For(purpose, id))
	return again, true, err
}
