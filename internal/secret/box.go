// Package secret owns encryption at rest and the form of the credentials that
// Holdpoint issues. It knows no table: whoever owns a row seals and opens what
// the row keeps.
package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Config says where the key comes from.
type Config struct {
	// Keyset is a Tink AEAD keyset in clear: base64 of its JSON. When it is
	// empty, File is used.
	Keyset string
	// KeysetName is what Keyset was given by, for errors: the name of a
	// variable. Empty: "the given keyset".
	KeysetName string
	// File holds the keyset, readable by its owner only. It is made when there is none.
	File string
}

// ErrDecrypt is wrapped by the error of [Box.Open]: the value was sealed with
// another key, for another row, or was altered.
var ErrDecrypt = errors.New("secret cannot be decrypted")

// DecryptError says which key did not fit. It wraps [ErrDecrypt].
type DecryptError struct {
	Source string // where the key came from
	// UnknownKey is set when the value names a key that the keyset does not
	// hold: another process of this database has another key.
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
	source    string
}

// Open gets the key and returns a Box that uses it.
func Open(cfg Config) (*Box, error) {
	if cfg.Keyset == "" {
		if cfg.File == "" {
			return nil, errors.New("open secret key: neither a keyset nor a file is configured")
		}
		return openFile(cfg.File)
	}
	source := cfg.KeysetName
	if source == "" {
		source = "the given keyset"
	}
	text, err := base64.StdEncoding.DecodeString(cfg.Keyset)
	if err != nil {
		// The cause may quote the secret.
		return nil, fmt.Errorf("open secret key of %s: not base64", source)
	}
	return parse(text, source)
}

// NewKeyset makes a keyset with one new key, in the form of [Config.Keyset].
func NewKeyset() (string, error) {
	text, err := generate()
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

func generate() ([]byte, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make secret key: %w", err)
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		return nil, fmt.Errorf("encode secret key: %w", err)
	}
	return text.Bytes(), nil
}

func parse(text []byte, source string) (*Box, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		// The cause may quote the secret.
		return nil, fmt.Errorf("open secret key of %s: not a Tink keyset in JSON", source)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("open secret key of %s: %w", source, err)
	}
	box := &Box{primitive: primitive, keyIDs: map[uint32]bool{}, source: source}
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return nil, fmt.Errorf("open secret key of %s: %w", source, err)
		}
		box.keyIDs[entry.KeyID()] = true
	}
	return box, nil
}

// Source says where the key came from.
func (b *Box) Source() string { return b.source }

// For is the associated data of one row's secret: a sealed value opens only
// for the purpose and row that it was sealed for.
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
		return nil, &DecryptError{Source: b.source, UnknownKey: !b.holds(sealed)}
	}
	return plaintext, nil
}

// holds reads the key id that Tink writes before a ciphertext.
func (b *Box) holds(sealed []byte) bool {
	const version, prefix = 1, 5
	if len(sealed) < prefix || sealed[0] != version {
		return true
	}
	return b.keyIDs[binary.BigEndian.Uint32(sealed[1:prefix])]
}
