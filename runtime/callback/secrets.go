package callback

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

const (
	// secretPurpose binds a sealed secret to its row.
	secretPurpose = "callback_secret"
	// secretPrefix tells what a secret is for, as the specification says.
	secretPrefix = "whsec_"
	// secretBytes: the specification wants 24 to 64.
	secretBytes = 32

	// DefaultGrace is how long an earlier secret signs beside its successor.
	DefaultGrace = 24 * time.Hour
	// MaxGrace bounds it.
	MaxGrace = 7 * 24 * time.Hour
	// maxSecrets sign at once.
	maxSecrets = 4
)

// addSecret makes a callback's present secret.
func (s *Service) addSecret(ctx context.Context, tx pgx.Tx, callback uuid.UUID) (string, error) {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand crashes the program instead
	text := secretPrefix + base64.StdEncoding.EncodeToString(random[:])
	id, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	sealed, err := s.Box.Seal([]byte(text), secret.For(secretPurpose, id))
	if err != nil {
		return "", err
	}
	_, err = tx.Exec(ctx, `INSERT INTO callback_secrets (id, callback_id, sealed) VALUES ($1, $2, $3)`, id, callback, sealed)
	if err != nil {
		return "", fmt.Errorf("store secret: %w", err)
	}
	return text, nil
}

// Rotate gives a callback a new secret, which is not shown again. The earlier ones sign beside it for the grace period,
// and no longer; zero: they stop at once. Errors: ErrNotFound, *InvalidError.
func (s *Service) Rotate(ctx context.Context, by audit.Actor, a *agent.Agent, name string, grace time.Duration) (rotated Callback, secretText string, err error) {
	if grace < 0 || grace > MaxGrace {
		return Callback{}, "", fmt.Errorf("rotate secret: %w", &InvalidError{"grace_seconds", fmt.Sprintf("must be from 0 to %d", int(MaxGrace.Seconds()))})
	}
	err = s.edit(ctx, by, a, name, "secret_rotated", func(tx pgx.Tx, c *Callback) error {
		_, err := tx.Exec(ctx, `UPDATE callback_secrets SET expires_at = least(expires_at, holdpoint_now() + $2 * interval '1 microsecond')
			WHERE callback_id = $1`, c.ID, grace.Microseconds())
		if err != nil {
			return fmt.Errorf("end earlier secrets: %w", err)
		}
		var signing int
		err = tx.QueryRow(ctx, `SELECT count(*) FROM callback_secrets WHERE callback_id = $1 AND expires_at > holdpoint_now()`, c.ID).Scan(&signing)
		if err != nil {
			return fmt.Errorf("count secrets: %w", err)
		}
		if signing >= maxSecrets {
			return &InvalidError{"grace_seconds", fmt.Sprintf("%d earlier secrets still sign; wait until one expires, or end them with 0", signing)}
		}
		if secretText, err = s.addSecret(ctx, tx, c.ID); err != nil {
			return err
		}
		rotated, err = s.one(ctx, tx, a.ID, name)
		return err
	})
	if err != nil {
		return Callback{}, "", err
	}
	return rotated, secretText, nil
}

// signers are those that sign at present, the newest first.
func (s *Service) signers(ctx context.Context, callback uuid.UUID) ([]*standardwebhooks.Webhook, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, sealed FROM callback_secrets
		WHERE callback_id = $1 AND (expires_at IS NULL OR expires_at > holdpoint_now()) ORDER BY expires_at DESC NULLS FIRST`, callback)
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	var signers []*standardwebhooks.Webhook
	var id uuid.UUID
	var sealed []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &sealed}, func() error {
		text, err := s.Box.Open(sealed, secret.For(secretPurpose, id))
		if err != nil {
			return err
		}
		signer, err := standardwebhooks.NewWebhook(string(text))
		signers = append(signers, signer)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	return signers, nil
}

// Reseal encrypts again what another key than the primary one of the keyset had encrypted, and returns
// how many rows it changed.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	total := 0
	for table, purpose := range map[string]string{"callbacks": callbackPurpose, "callback_secrets": secretPurpose} {
		n, err := s.Box.Reseal(ctx, tx, table, purpose)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
