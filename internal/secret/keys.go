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
	// ErrWaiting: the newest key is not primary yet.
	ErrWaiting = errors.New("the keyset has a newer key that is not primary yet: promote it first")
	// ErrNoneWaiting: the newest key is primary already.
	ErrNoneWaiting = errors.New("the newest key of the keyset is primary already: add one first")
)

// Keys are the keys of a keyset, the oldest first. The primary key seals; all keys open.
type Keys struct{ handle *keyset.Handle }

func newKeys() (*Keys, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make secret key: %w", err)
	}
	return &Keys{handle}, nil
}

// Primary returns the id of the key that seals.
func (k *Keys) Primary() uint32 {
	entry, err := k.handle.Primary()
	if err != nil { // impossible: every handle has one
		panic(err)
	}
	return entry.KeyID()
}

// IDs returns the ids of all keys, the oldest first.
func (k *Keys) IDs() []uint32 {
	ids := make([]uint32, k.handle.Len())
	for i := range ids {
		ids[i] = k.entryAt(i).KeyID()
	}
	return ids
}

func (k *Keys) entryAt(i int) *keyset.Entry {
	entry, err := k.handle.Entry(i)
	if err != nil { // impossible: i is below Len
		panic(err)
	}
	return entry
}

// newestEnabled returns the enabled key that was added last.
func (k *Keys) newestEnabled() uint32 {
	for i := k.handle.Len() - 1; i >= 0; i-- {
		if entry := k.entryAt(i); entry.KeyStatus() == keyset.Enabled {
			return entry.KeyID()
		}
	}
	return k.Primary()
}

// Add adds a key that opens and does not seal yet. It returns [ErrWaiting] if an earlier key is not primary yet.
func (k *Keys) Add() error {
	if k.newestEnabled() != k.Primary() {
		return ErrWaiting
	}
	return k.changeHandle(func(m *keyset.Manager) error {
		_, err := m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// Promote makes the newest key primary. It returns [ErrNoneWaiting] if it is primary already.
func (k *Keys) Promote() error {
	if k.newestEnabled() == k.Primary() {
		return ErrNoneWaiting
	}
	return k.changeHandle(func(m *keyset.Manager) error { return m.SetPrimary(k.newestEnabled()) })
}

// Rotate adds a key and makes it primary at once.
func (k *Keys) Rotate() error {
	return k.changeHandle(func(m *keyset.Manager) error {
		id, err := m.Add(aead.AES256GCMKeyTemplate())
		if err != nil {
			return err
		}
		return m.SetPrimary(id)
	})
}

func (k *Keys) changeHandle(f func(*keyset.Manager) error) error {
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

// NewKeyset makes an unencrypted keyset with one new key, in the form of [Config.Keyset].
func NewKeyset() (string, error) { return MakeKeyset(context.Background(), KMS{}) }

// MakeKeyset makes a keyset with one new key, in the form of [Config.Keyset].
func MakeKeyset(ctx context.Context, kms KMS) (string, error) {
	keys, err := newKeys()
	if err != nil {
		return "", err
	}
	text, err := keys.encodeKeys(ctx, kms)
	return base64.StdEncoding.EncodeToString(text), err
}

// Change is a change of a keyset.
type Change struct {
	From KMS               // the KMS key that encrypts it now
	To   KMS               // the KMS key that will encrypt it
	Edit func(*Keys) error // changes the keys; nil: they stay
}

func (c Change) applyChange(ctx context.Context, text []byte, source string) (*Keys, []byte, error) {
	keys, err := decodeKeys(ctx, text, source, c.From)
	if err != nil {
		return nil, nil, err
	}
	if c.Edit != nil {
		if err := c.Edit(keys); err != nil {
			return nil, nil, err
		}
	}
	text, err = keys.encodeKeys(ctx, c.To)
	return keys, text, err
}

// ChangeKeyset changes a keyset in the form of [Config.Keyset]. source names it in errors.
func ChangeKeyset(ctx context.Context, keyset, source string, c Change) (*Keys, string, error) {
	text, err := fromBase64(keyset, source)
	if err != nil {
		return nil, "", err
	}
	keys, text, err := c.applyChange(ctx, text, source)
	return keys, base64.StdEncoding.EncodeToString(text), err
}

// encodeKeys returns the keyset as JSON, encrypted if there is a KMS.
func (k *Keys) encodeKeys(ctx context.Context, kms KMS) ([]byte, error) {
	if kms.URI != "" {
		text, err := kms.encryptKeyset(ctx, k.handle)
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

func decodeKeys(ctx context.Context, text []byte, source string, kms KMS) (*Keys, error) {
	switch encrypted := isEncrypted(text); {
	case encrypted && kms.URI == "":
		return nil, fmt.Errorf("open secret key of %s: it is encrypted by a KMS, so %s is needed", source, kms.settingName())
	case encrypted:
		handle, err := kms.decryptKeyset(ctx, text)
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
			"encrypt it with that key first", source, kms.settingName(), kms.URI)
	}
	return &Keys{handle}, nil
}

// isEncrypted looks for the field that only encrypted keysets have.
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
