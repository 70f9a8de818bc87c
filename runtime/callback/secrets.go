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
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

const (
	// secretPurpose binds an encrypted secret to its row.
	secretPurpose = "callback_secret"
	// secretPrefix marks secrets of Standard Webhooks.
	secretPrefix = "whsec_"
	// secretBytes: Standard Webhooks asks for 24 to 64.
	secretBytes = 32

	// DefaultGrace is how long an earlier secret still signs after a rotation.
	DefaultGrace = 24 * time.Hour
	// MaxGrace is the longest grace period.
	MaxGrace = 7 * 24 * time.Hour
	// maxSecrets is how many secrets sign at once.
	maxSecrets = 4
)

// Rotate gives a callback a new secret, which is shown once. Earlier secrets also sign during the grace period; zero: they
// stop signing at once. Errors: [ErrNotFound], *[fault.InvalidError].
func (s *Service) Rotate(ctx context.Context, by audit.Actor, a *agent.Agent, name string, grace time.Duration) (rotated Callback, secretText string, err error) {
	if grace < 0 || grace > MaxGrace {
		return Callback{}, "", fmt.Errorf("rotate secret: %w", fault.Invalid("grace_seconds", fmt.Sprintf("must be from 0 to %d", int(MaxGrace.Seconds()))))
	}
	err = s.editCallback(ctx, by, a, name, audit.CallbackSecretRotated, func(tx pgx.Tx, c *Callback) error {
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
			return fault.Invalid("grace_seconds", fmt.Sprintf("%d earlier secrets still sign; wait until one expires, or end them with 0", signing))
		}
		if secretText, err = s.addSecret(ctx, tx, c.ID); err != nil {
			return err
		}
		rotated, err = s.findCallback(ctx, tx, a.ID, name)
		return err
	})
	if err != nil {
		return Callback{}, "", err
	}
	return rotated, secretText, nil
}

// addSecret makes a callback's new secret.
func (s *Service) addSecret(ctx context.Context, tx pgx.Tx, callback uuid.UUID) (string, error) {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
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

// readSigners returns signers for the valid secrets, the newest first.
func (s *Service) readSigners(ctx context.Context, callback uuid.UUID) ([]*standardwebhooks.Webhook, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT id, sealed FROM callback_secrets
		WHERE callback_id = $1 AND (expires_at IS NULL OR expires_at > holdpoint_now()) ORDER BY expires_at DESC NULLS FIRST`, callback)
	var signers []*standardwebhooks.Webhook
	var id uuid.UUID
	var sealed []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &sealed}, func() error {
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
