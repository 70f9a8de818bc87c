package oauthclient

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

const (
	// A key signs for keyAge, and stays published for keyKept: until its last signatures, and the caches of the key set that
	// contain it, have expired.
	keyAge  = 30 * 24 * time.Hour
	keyKept = keyAge + 7*24*time.Hour

	keysTTL    = time.Minute     // of the cache
	keysMaxAge = 5 * time.Minute // for clients' caches of the key set
	keyPurpose = "oauth key"
)

// keyring holds Holdpoint's own keys for client authentication (table oauth_keys).
type keyring struct {
	pool  *pgxpool.Pool
	box   *secret.Box
	cache *registry.Memory[struct{}, []publishedKey]
}

// publishedKey is one of Holdpoint's own keys. It is settled if it has been published for so long that every cached key set contains it.
type publishedKey struct {
	*wire.SigningKey
	settled bool
}

// addSigningKey gives a client of method private_key_jwt its key: that of the settings, or Holdpoint's own.
func (kr *keyring) addSigningKey(ctx context.Context, settings Settings, c *wire.Client) (err error) {
	switch {
	case c.Method != wire.AuthPrivateKey:
		return nil
	case settings.PrivateKey != "":
		if c.Key, err = wire.ParsePrivateKey(settings.PrivateKey); err != nil {
			return wire.NewError(wire.StepRegistration, err, "oauth.private_key: %s", err)
		}
		return nil
	}
	keys, err := kr.ownKeys(ctx)
	if err != nil {
		return err
	}
	c.Key = keys[len(keys)-1].SigningKey
	if i := slices.IndexFunc(keys, func(k publishedKey) bool { return k.settled }); i >= 0 {
		c.Key = keys[i].SigningKey // the newest that every cached key set contains
	}
	return nil
}

// publicKeys returns the public keys as a key set (RFC 7517 section 5).
func (kr *keyring) publicKeys(ctx context.Context) (*jose.JSONWebKeySet, error) {
	keys, err := kr.ownKeys(ctx)
	if err != nil {
		return nil, err
	}
	set := &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		public, err := k.PublicKey()
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, public)
	}
	return set, nil
}

// ownKeys returns the keys that are still published, the newest first.
func (kr *keyring) ownKeys(ctx context.Context) ([]publishedKey, error) {
	return kr.cache.Get(ctx, struct{}{}, kr.loadKeys)
}

// loadKeys reads the keys, and makes a new one if the newest is too old.
func (kr *keyring) loadKeys(ctx context.Context) ([]publishedKey, error) {
	var keys []publishedKey
	err := postgres.InTx(ctx, kr.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_oauth_keys', 0))`); err != nil {
			return err
		}
		var young bool
		var err error
		if keys, young, err = kr.readKeys(ctx, tx); err != nil || young {
			return err
		}
		key, err := wire.NewSigningKey()
		if err != nil {
			return err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		der, err := key.MarshalEC()
		if err != nil {
			return err
		}
		sealed, err := kr.box.Seal(der, secret.For(keyPurpose, id))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO oauth_keys (id, sealed) VALUES ($1, $2)`, id, sealed); err != nil {
			return err
		}
		key.ID = id.String()
		keys = append([]publishedKey{{SigningKey: key}}, keys...)
		_, err = tx.Exec(ctx, `DELETE FROM oauth_keys WHERE created_at < holdpoint_now() - $1 * interval '1 second'`, keyKept.Seconds())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read own keys: %w", err)
	}
	return keys, nil
}

func (kr *keyring) readKeys(ctx context.Context, tx pgx.Tx) (keys []publishedKey, young bool, err error) {
	rows, err := tx.Query(ctx, `SELECT id, sealed, created_at > holdpoint_now() - $2 * interval '1 second',
			created_at < holdpoint_now() - $3 * interval '1 second' FROM oauth_keys
		WHERE created_at > holdpoint_now() - $1 * interval '1 second' ORDER BY created_at DESC, id DESC`, keyKept.Seconds(), keyAge.Seconds(), (keysTTL + keysMaxAge).Seconds())
	if err != nil {
		return nil, false, err
	}
	var id uuid.UUID
	var sealed []byte
	var fresh, settled bool
	_, err = pgx.ForEachRow(rows, []any{&id, &sealed, &fresh, &settled}, func() error {
		der, err := kr.box.Open(sealed, secret.For(keyPurpose, id))
		if err != nil {
			return err
		}
		key, err := wire.ParseECKey(der)
		if err != nil {
			return err
		}
		key.ID = id.String()
		keys, young = append(keys, publishedKey{key, settled}), young || fresh
		return nil
	})
	return keys, young, err
}
