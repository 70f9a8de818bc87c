package notify

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// pushKeyPurpose binds the sealed key to its row.
const pushKeyPurpose = "push key"

// vapid is the key pair by which push services know this server (RFC 8292), in the form of its library.
type vapid struct {
	private, public string
}

// PushKey is what a browser needs to subscribe: the public key of this server, which is made when it is asked for
// first. All processes of a database have the same.
func (s *Service) PushKey(ctx context.Context) (string, error) {
	keys, err := s.pushKeys(ctx)
	return keys.public, err
}

func (s *Service) pushKeys(ctx context.Context) (vapid, error) {
	return s.vapid.Get(ctx, struct{}{}, func(ctx context.Context) (keys vapid, err error) {
		err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
			keys, err = s.readPushKeys(ctx, tx)
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_push_keys', 0))`); err != nil {
				return err
			}
			keys, err = s.readPushKeys(ctx, tx)
			if errors.Is(err, pgx.ErrNoRows) {
				keys, err = s.makePushKeys(ctx, tx)
			}
			return err
		})
		if err != nil {
			return vapid{}, fmt.Errorf("read the key for push messages: %w", err)
		}
		return keys, nil
	})
}

func (s *Service) readPushKeys(ctx context.Context, tx pgx.Tx) (vapid, error) {
	var id uuid.UUID
	var sealed []byte
	if err := tx.QueryRow(ctx, `SELECT id, sealed FROM push_keys ORDER BY id LIMIT 1`).Scan(&id, &sealed); err != nil {
		return vapid{}, err
	}
	private, err := s.Box.Open(sealed, secret.For(pushKeyPurpose, id))
	if err != nil {
		return vapid{}, err
	}
	return pairOf(private)
}

func (s *Service) makePushKeys(ctx context.Context, tx pgx.Tx) (vapid, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return vapid{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return vapid{}, err
	}
	sealed, err := s.Box.Seal(key.Bytes(), secret.For(pushKeyPurpose, id))
	if err != nil {
		return vapid{}, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO push_keys (id, sealed) VALUES ($1, $2)`, id, sealed); err != nil {
		return vapid{}, err
	}
	return pairOf(key.Bytes())
}

func pairOf(private []byte) (vapid, error) {
	key, err := ecdh.P256().NewPrivateKey(private)
	if err != nil {
		return vapid{}, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return vapid{private: encode(private), public: encode(key.PublicKey().Bytes())}, nil
}

// contact is what a push service is told of who sends, as the library takes it.
func (s *Service) contact() string {
	if strings.HasPrefix(s.PublicURL, "https://") {
		return s.PublicURL
	}
	return "postmaster@localhost" // push services ask for some address; this is not reached from outside anyway
}
