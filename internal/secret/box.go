// Package secret owns encryption at rest and the form of the credentials that Holdpoint issues. It owns one table,
// secret_check; the owner of any other row seals and opens the secrets in it.
package secret

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Config says where the key comes from.
type Config struct {
	// Keyset is a Tink AEAD keyset: its JSON in base64. Empty: File is used.
	Keyset string
	// KeysetName is the name of the setting that gave Keyset, for errors. Empty: "the given keyset".
	KeysetName string
	// File holds the keyset, readable by its owner only. It is made if it does not exist.
	File string
	// KMS is the key that encrypts the keyset, wherever it comes from. Zero: the keyset is in clear.
	KMS KMS
}

// ErrDecrypt is wrapped by the error of [Box.Open]: the value was sealed with another key or for another row, or was altered.
var ErrDecrypt = errors.New("secret cannot be decrypted")

// DecryptError says why a value cannot be decrypted. It wraps [ErrDecrypt].
type DecryptError struct {
	Source string // where the key came from
	// UnknownKey: the value names a key that the keyset lacks. Another process of this database may have another keyset.
	UnknownKey bool
}

func (e *DecryptError) Error() string {
	if e.UnknownKey {
		return fmt.Sprintf("%v: it was encrypted with a key that %s does not hold; "+
			"every process of one database needs the same keyset", ErrDecrypt, e.Source)
	}
	return fmt.Sprintf("%v with the key of %s: it was altered, or belongs to another row", ErrDecrypt, e.Source)
}

func (e *DecryptError) Unwrap() error { return ErrDecrypt }

// Box seals and opens secrets. It is safe for concurrent use.
type Box struct {
	primitive tink.AEAD
	keyIDs    map[uint32]bool
	prefix    []byte // of values that the primary key sealed
	source    string
}

// Open reads the keyset and returns a box that uses it.
func Open(cfg Config) (*Box, error) { return OpenContext(context.Background(), cfg) }

// OpenContext is [Open] for a key that may have to be decrypted by a KMS.
func OpenContext(ctx context.Context, cfg Config) (*Box, error) {
	if cfg.Keyset == "" {
		if cfg.File == "" {
			return nil, errors.New("open secret key: neither a keyset nor a file is configured")
		}
		return openFile(ctx, cfg.File, cfg.KMS)
	}
	source := cfg.KeysetName
	if source == "" {
		source = "the given keyset"
	}
	text, err := fromBase64(cfg.Keyset, source)
	if err != nil {
		return nil, err
	}
	return parseKeyset(ctx, text, source, cfg.KMS)
}

func parseKeyset(ctx context.Context, text []byte, source string, kms KMS) (*Box, error) {
	keys, err := decodeKeys(ctx, text, source, kms)
	if err != nil {
		return nil, err
	}
	primitive, err := aead.New(keys.handle)
	if err != nil {
		return nil, fmt.Errorf("open secret key of %s: %w", source, err)
	}
	box := &Box{primitive: primitive, keyIDs: map[uint32]bool{}, source: source}
	if kms.URI != "" {
		box.source += ", encrypted by " + kms.URI
	}
	for _, id := range keys.IDs() {
		box.keyIDs[id] = true
	}
	primary, err := keys.handle.Primary()
	if err != nil {
		return nil, fmt.Errorf("open secret key of %s: %w", source, err)
	}
	if key, ok := primary.Key().(interface{ OutputPrefix() []byte }); ok {
		box.prefix = key.OutputPrefix()
	}
	return box, nil
}

// Source says where the keyset came from.
func (b *Box) Source() string { return b.source }

// For returns the associated data of a secret: a sealed value opens only for the purpose and row that it was sealed for.
func For(purpose string, id uuid.UUID) []byte {
	return append([]byte(purpose+" "), id[:]...)
}

// Seal encrypts.
func (b *Box) Seal(plaintext, associated []byte) ([]byte, error) {
	sealed, err := b.primitive.Encrypt(plaintext, associated)
	if err != nil {
		return nil, fmt.Errorf("encrypt secret: %w", err)
	}
	return sealed, nil
}

// Open decrypts. The error is a *[DecryptError].
func (b *Box) Open(sealed, associated []byte) ([]byte, error) {
	plaintext, err := b.primitive.Decrypt(sealed, associated)
	if err != nil {
		return nil, &DecryptError{Source: b.source, UnknownKey: !b.hasKeyOf(sealed)}
	}
	return plaintext, nil
}

// Stale reports whether a value was sealed by another key than the primary one. An empty value is not stale.
func (b *Box) Stale(sealed []byte) bool {
	if len(b.prefix) > 0 {
		return len(sealed) > 0 && !bytes.HasPrefix(sealed, b.prefix)
	}
	id, ok := keyID(sealed) // values of the primary key have no prefix; others do
	return ok && b.keyIDs[id]
}

// hasKeyOf reports whether the keyset has the key that a value names, if it names one.
func (b *Box) hasKeyOf(sealed []byte) bool {
	id, ok := keyID(sealed)
	return !ok || b.keyIDs[id]
}

// keyID reads the key id that Tink writes before a ciphertext.
func keyID(sealed []byte) (id uint32, ok bool) {
	const version, prefix = 1, 5
	if len(sealed) < prefix || sealed[0] != version {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:prefix]), true
}
