package oauthclient

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const (
	// A key signs for keyAge; it stays published for keyKept, so that what it signed, and
	// caches of the set, outlive the change.
	keyAge  = 30 * 24 * time.Hour
	keyKept = keyAge + 7*24*time.Hour

	keysTTL       = time.Minute     // how long they are remembered
	keysMaxAge    = 5 * time.Minute // how long whoever fetches them may use them
	assertionLife = time.Minute
	keyPurpose    = "oauth key"
)

// signingKey is a private key with the name it is published by.
type signingKey struct {
	id  string
	key crypto.Signer
	// settled: it was published long enough for every copy of the set to have it.
	settled bool
}

// newestSettled is the key to sign with: a new one is published first.
func newestSettled(keys []*signingKey) *signingKey {
	for _, k := range keys {
		if k.settled {
			return k
		}
	}
	return keys[len(keys)-1]
}

func newSigningKey() (*signingKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return &signingKey{key: key}, nil
}

// algorithm is the one that the key signs with.
func (k *signingKey) algorithm() (jose.SignatureAlgorithm, error) {
	switch key := k.key.(type) {
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
	case *rsa.PrivateKey:
		return jose.RS256, nil
	}
	return "", errors.New("private key: want RSA, or EC on P-256, P-384 or P-521")
}

// sign makes a JWT of claims. public puts the public key into its header.
func (k *signingKey) sign(typ jose.ContentType, claims map[string]any, public bool) (string, error) {
	algorithm, err := k.algorithm()
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{EmbedJWK: public}).WithType(typ)
	if k.id != "" {
		options = options.WithHeader("kid", k.id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: k.key}, options)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return signed.CompactSerialize()
}

// assertion authenticates a client (RFC 7523 section 2.2). Its audience is the issuer, as RFC 9700
// and the newer drafts want it: a token endpoint's URL could be another server's.
func (k *signingKey) assertion(clientID, issuer string, now time.Time) (string, error) {
	return k.sign("JWT", map[string]any{
		"iss": clientID, "sub": clientID, "aud": issuer, "jti": randomText(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}, false)
}

// randomText is a name that nobody can guess: 256 bits.
func randomText() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails, says its documentation
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// parsePrivateKey reads PEM: PKCS #8, or the older forms of EC and RSA keys.
func parsePrivateKey(text string) (*signingKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("private key: not PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, errors.New("private key: cannot be read") // the cause may quote it
	}
	k := &signingKey{key: signer}
	_, err = k.algorithm()
	return k, err
}

// ownKeys are Holdpoint's, newest first, those that are still published. The newest signs; when it is too old
// a new one is made.
func (s *Service) ownKeys(ctx context.Context) ([]*signingKey, error) {
	return s.keys.Get(ctx, struct{}{}, s.loadKeys)
}

func (s *Service) loadKeys(ctx context.Context) ([]*signingKey, error) {
	var keys []*signingKey
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_oauth_keys', 0))`); err != nil {
			return err
		}
		var young bool
		var err error
		if keys, young, err = s.readKeys(ctx, tx); err != nil || young {
			return err
		}
		key, err := s.insertKey(ctx, tx)
		if err != nil {
			return err
		}
		keys = append([]*signingKey{key}, keys...)
		_, err = tx.Exec(ctx, `DELETE FROM oauth_keys WHERE created_at < holdpoint_now() - $1 * interval '1 second'`, keyKept.Seconds())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read own keys: %w", err)
	}
	return keys, nil
}

func (s *Service) readKeys(ctx context.Context, tx pgx.Tx) (keys []*signingKey, young bool, err error) {
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
		der, err := s.Box.Open(sealed, secret.For(keyPurpose, id))
		if err != nil {
			return err
		}
		key, err := x509.ParseECPrivateKey(der)
		if err != nil {
			return errors.New("a stored key cannot be read")
		}
		keys, young = append(keys, &signingKey{id: id.String(), key: key, settled: settled}), young || fresh
		return nil
	})
	return keys, young, err
}

func (s *Service) insertKey(ctx context.Context, tx pgx.Tx) (*signingKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	sealed, err := s.Box.Seal(der, secret.For(keyPurpose, id))
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO oauth_keys (id, sealed) VALUES ($1, $2)`, id, sealed)
	return &signingKey{id: id.String(), key: key}, err
}

// hashText is the SHA-256 of a text, in base64url.
func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// publicKeys are Holdpoint's, as a set (RFC 7517 section 5).
func (s *Service) publicKeys(ctx context.Context) (*jose.JSONWebKeySet, error) {
	keys, err := s.ownKeys(ctx)
	if err != nil {
		return nil, err
	}
	set := &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		algorithm, err := k.algorithm()
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.key.Public(), KeyID: k.id, Algorithm: string(algorithm), Use: "sig"})
	}
	return set, nil
}
