package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// Errors of changes to [Keys].
var (
	// ErrWaiting means that the newest key is not the primary one yet.
	ErrWaiting = errors.New("the keyset has a newer key that is not primary yet: promote it first")
	// ErrNoneWaiting means that the newest key is the primary one.
	ErrNoneWaiting = errors.New("the newest key of the keyset is primary already: add one first")
)

// Keys are the keys of a keyset, oldest first, to be changed. The primary one
// seals; all of them open.
type Keys struct{ handle *keyset.Handle }

func newKeys() (*Keys, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make secret key: %w", err)
	}
	return &Keys{handle}, nil
}

// Primary is the id of the key that seals.
func (k *Keys) Primary() uint32 {
	entry, err := k.handle.Primary()
	if err != nil { // a handle without one cannot be made
		panic(err)
	}
	return entry.KeyID()
}

// IDs are the ids of all keys, oldest first.
func (k *Keys) IDs() []uint32 {
	ids := make([]uint32, k.handle.Len())
	for i := range ids {
		ids[i] = k.entry(i).KeyID()
	}
	return ids
}

func (k *Keys) entry(i int) *keyset.Entry {
	entry, err := k.handle.Entry(i)
	if err != nil { // i is below Len
		panic(err)
	}
	return entry
}

// newest is the key that was added last. Keys that were disabled do not count.
func (k *Keys) newest() uint32 {
	for i := k.handle.Len() - 1; i >= 0; i-- {
		if entry := k.entry(i); entry.KeyStatus() == keyset.Enabled {
			return entry.KeyID()
		}
	}
	return k.Primary()
}

// Add makes a key that opens and does not seal yet. There may be one at a time that
// waits to be promoted: [ErrWaiting].
func (k *Keys) Add() error {
	if k.newest() != k.Primary() {
		return ErrWaiting
	}
	return k.change(func(m *keyset.Manager) error {
		_, err := m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// Promote lets the newest key seal. [ErrNoneWaiting] when it does so already.
func (k *Keys) Promote() error {
	if k.newest() == k.Primary() {
		return ErrNoneWaiting
	}
	return k.change(func(m *keyset.Manager) error { return m.SetPrimary(k.newest()) })
}

// Rotate adds a key and lets it seal, whatever waits.
func (k *Keys) Rotate() error {
	return k.change(func(m *keyset.Manager) error {
		id, err := m.Add(aead.AES256GCMKeyTemplate())
		if err != nil {
			return err
		}
		return m.SetPrimary(id)
	})
}

func (k *Keys) change(f func(*keyset.Manager) error) error {
	manager := keyset.NewManagerFromHandle(k.handle)
	if err := f(manager); err != nil {
		return fmt.Errorf("change keyset: %w", err)
	}
	handle, err := manager.Handle()
	if err != nil {
		return fmt.Errorf("change keyset: %w", err)
	}
	k.handle = handle
	return nil
}

// NewKeyset makes a keyset in clear with one new key, in the form of [Config.Keyset].
func NewKeyset() (string, error) { return MakeKeyset(context.Background(), KMS{}) }

// MakeKeyset makes a keyset with one new key, in the form of [Config.Keyset].
func MakeKeyset(ctx context.Context, kms KMS) (string, error) {
	keys, err := newKeys()
	if err != nil {
		return "", err
	}
	text, err := keys.encode(ctx, kms)
	return base64.StdEncoding.EncodeToString(text), err
}

// Change says how a keyset is to be changed.
type Change struct {
	From KMS               // it is encrypted with now
	To   KMS               // it will be encrypted with
	Edit func(*Keys) error // nil: the keys stay as they are
}

func (c Change) apply(ctx context.Context, text []byte, source string) (*Keys, []byte, error) {
	keys, err := decode(ctx, text, source, c.From)
	if err != nil {
		return nil, nil, err
	}
	if c.Edit != nil {
		if err := c.Edit(keys); err != nil {
			return nil, nil, err
		}
	}
	text, err = keys.encode(ctx, c.To)
	return keys, text, err
}

// ChangeKeyset changes a keyset in the form of [Config.Keyset]. Source is what errors call it.
func ChangeKeyset(ctx context.Context, keyset, source string, c Change) (*Keys, string, error) {
	text, err := fromBase64(keyset, source)
	if err != nil {
		return nil, "", err
	}
	keys, text, err := c.apply(ctx, text, source)
	return keys, base64.StdEncoding.EncodeToString(text), err
}

// encode is the keyset as JSON.
func (k *Keys) encode(ctx context.Context, kms KMS) ([]byte, error) {
	if kms.URI != "" {
		text, err := kms.seal(ctx, k.handle)
		if err != nil {
			return nil, fmt.Errorf("encrypt secret key: %w", err)
		}
		return text, nil
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&text)); err != nil {
		return nil, fmt.Errorf("encode secret key: %w", err)
	}
	return text.Bytes(), nil
}

func decode(ctx context.Context, text []byte, source string, kms KMS) (*Keys, error) {
	switch encrypted := isEncrypted(text); {
	case encrypted && kms.URI == "":
		return nil, fmt.Errorf("open secret key of %s: it is encrypted by a KMS, so %s is needed", source, kms.name())
	case encrypted:
		handle, err := kms.open(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("open secret key of %s: %w", source, err)
		}
		return &Keys{handle}, nil
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		// The cause may quote the secret.
		return nil, fmt.Errorf("open secret key of %s: not a Tink keyset in JSON", source)
	}
	if kms.URI != "" {
		return nil, fmt.Errorf("open secret key of %s: it is in clear, although %s is set (%s): "+
			"encrypt it with that key first", source, kms.name(), kms.URI)
	}
	return &Keys{handle}, nil
}

// isEncrypted looks for the one field that only encrypted keysets have.
func isEncrypted(text []byte) bool {
	var form struct {
		Keyset *string `json:"encryptedKeyset"`
	}
	return json.Unmarshal(text, &form) == nil && form.Keyset != nil
}

func fromBase64(keyset, source string) ([]byte, error) {
	text, err := base64.StdEncoding.DecodeString(keyset)
	if err != nil {
		// The cause may quote the secret.
		return nil, fmt.Errorf("open secret key of %s: not base64", source)
	}
	return text, nil
}
