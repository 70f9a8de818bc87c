package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// kmsTimeout bounds one use of a key management service.
const kmsTimeout = 20 * time.Second

// KMS is a key of a key management service that encrypts a keyset. The zero value is none.
type KMS struct {
	// URI of the key, in the forms of Tink: aws-kms://, gcp-kms://, hcvault://.
	URI string
	// Name is the setting that gave URI, for errors. Empty: "the URI of a KMS key".
	Name string
	// Dial makes a client for a URI that no client in Tink's registry supports. A client that is an io.Closer is closed
	// after use. Nil: only the registry's clients are used.
	Dial func(ctx context.Context, uri string) (registry.KMSClient, error)
}

func (k KMS) settingName() string {
	if k.Name == "" {
		return "the URI of a KMS key"
	}
	return k.Name
}

// withKey calls f with the key. Errors name the setting and the URI.
func (k KMS) withKey(ctx context.Context, f func(context.Context, tink.AEADWithContext) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, kmsTimeout)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in time, is the KMS reachable from here? %w", err) // some clients retry until the deadline and lose the cause
		}
		if err != nil {
			err = fmt.Errorf("use the key of %s, %s: %w", k.settingName(), k.URI, err)
		}
	}()
	client, err := registry.GetKMSClient(k.URI)
	if err != nil {
		if k.Dial == nil {
			return errors.New("there is no client for this kind of KMS")
		}
		if client, err = k.Dial(ctx, k.URI); err != nil {
			return err
		}
		if closer, ok := client.(io.Closer); ok {
			defer func() { err = errors.Join(err, closer.Close()) }()
		}
	}
	primitive, err := client.GetAEAD(k.URI)
	if err != nil {
		return err
	}
	bounded, ok := primitive.(tink.AEADWithContext)
	if !ok {
		bounded = withoutContext{primitive}
	}
	return f(ctx, bounded)
}

func (k KMS) decryptKeyset(ctx context.Context, text []byte) (handle *keyset.Handle, err error) {
	err = k.withKey(ctx, func(ctx context.Context, key tink.AEADWithContext) error {
		handle, err = keyset.ReadWithContext(ctx, keyset.NewJSONReader(bytes.NewReader(text)), key, nil)
		return err
	})
	return handle, err
}

// encryptKeyset encrypts a keyset, and decrypts the result once: a keyset that cannot be decrypted would lose everything that
// it sealed.
func (k KMS) encryptKeyset(ctx context.Context, handle *keyset.Handle) ([]byte, error) {
	var text bytes.Buffer
	err := k.withKey(ctx, func(ctx context.Context, key tink.AEADWithContext) error {
		if err := handle.WriteWithContext(ctx, keyset.NewJSONWriter(&text), key, nil); err != nil {
			return err
		}
		_, err := keyset.ReadWithContext(ctx, keyset.NewJSONReader(bytes.NewReader(text.Bytes())), key, nil)
		return err
	})
	return text.Bytes(), err
}

// withoutContext adapts a key whose client takes no context and has its own timeouts.
type withoutContext struct{ key tink.AEAD }

func (u withoutContext) EncryptWithContext(ctx context.Context, plaintext, associated []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return u.key.Encrypt(plaintext, associated)
}

func (u withoutContext) DecryptWithContext(ctx context.Context, ciphertext, associated []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return u.key.Decrypt(ciphertext, associated)
}
