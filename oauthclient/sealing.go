package oauthclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secret"
)

const (
	connectionPurpose = "oauth connection"
	clientPurpose     = "oauth client"
	flowPurpose       = "oauth flow"
	revokePurpose     = "oauth revocation"
)

// sealer encrypts values as JSON, bound to their purpose and their row.
type sealer struct{ box *secret.Box }

func (sl *sealer) sealJSON(purpose string, id uuid.UUID, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode secrets: %w", err)
	}
	return sl.box.Seal(text, secret.For(purpose, id))
}

func (sl *sealer) unsealJSON(purpose string, id uuid.UUID, sealed []byte, v any) error {
	text, err := sl.box.Open(sealed, secret.For(purpose, id))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return errors.New("decode secrets: unexpected form") // the cause may quote them
	}
	return nil
}

// Reseal encrypts again all values that are not encrypted with the primary key of the keyset, and returns their number. It
// leaves out pending authorization requests, which live for minutes.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	total := 0
	for _, column := range []struct{ table, purpose string }{
		{"oauth_connections", connectionPurpose}, {"oauth_keys", keyPurpose}, {"oauth_revocations", revokePurpose},
	} {
		n, err := s.Box.Reseal(ctx, tx, column.table, column.purpose)
		if err != nil {
			return 0, err
		}
		total += n
	}
	// The rows of oauth_clients have no id.
	rows, err := tx.Query(ctx, `SELECT issuer, redirect_uri, sealed FROM oauth_clients WHERE sealed IS NOT NULL FOR UPDATE`)
	if err != nil {
		return 0, fmt.Errorf("reseal oauth_clients: %w", err)
	}
	type row struct {
		Issuer, Redirect string
		Sealed           []byte
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, fmt.Errorf("reseal oauth_clients: %w", err)
	}
	for _, r := range found {
		sealed, stale, err := s.Box.ResealValue(r.Sealed, secret.For(clientPurpose, clientRow(r.Issuer, r.Redirect)))
		if err == nil && stale {
			_, err = tx.Exec(ctx, `UPDATE oauth_clients SET sealed = $3 WHERE issuer = $1 AND redirect_uri = $2`, r.Issuer, r.Redirect, sealed)
			total++
		}
		if err != nil {
			return 0, fmt.Errorf("reseal oauth_clients: %w", err)
		}
	}
	return total, nil
}
