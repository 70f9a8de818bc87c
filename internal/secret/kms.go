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

// kmsTimeout bounds one conversation with a key management service.
const kmsTimeout = 20 * time.Second

// KMS names the key of a key management service that a keyset is encrypted
// with. The zero value is none: the keyset is in clear.
type KMS struct {
	// URI of the key, in the forms of Tink: aws-kms://, gcp-kms://, hcvault://.
	URI string
	// Name is what URI was given by, for errors: the name of a setting.
	// Empty: "the URI of a KMS key".
	Name string
	// Dial makes a client for a URI that no client of Tink's registry supports. A client that
	// is an io.Closer is closed after use. Nil: there is none but the registry's.
	Dial func(ctx context.Context, uri string) (registry.KMSClient, error)
}

func (k KMS) name() string {
	if k.Name == "" {
		return "the URI of a KMS key"
	}
	return k.Name
}

// use lends the key to f. Errors name the setting and the URI.
func (k KMS) use(ctx context.Context, f func(context.Context, tink.AEADWithContext) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, kmsTimeout)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in time, is the KMS reachable from here? %w", err) // some clients try until the end, and do not say why
		}
		if err != nil {
			err = fmt.Errorf("use the key of %s, %s: %w", k.name(), k.URI, err)
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
		bounded = unbounded{primitive}
	}
	return f(ctx, bounded)
}

// open decrypts a keyset.
func (k KMS) open(ctx context.Context, text []byte) (handle *keyset.Handle, err error) {
	err = k.use(ctx, func(ctx context.Context, key tink.AEADWithContext) error {
		handle, err = keyset.ReadWithContext(ctx, keyset.NewJSONReader(bytes.NewReader(text)), key, nil)
		return err
	})
	return handle, err
}

// seal encrypts a keyset. What the KMS answered is decrypted again before anybody relies
// on it: a keyset that nobody can open is the loss of all that it sealed.
func (k KMS) seal(ctx context.Context, handle *keyset.Handle) ([]byte, error) {
	var text bytes.Buffer
	err := k.use(ctx, func(ctx context.Context, key tink.AEADWithContext) error {
		if err := handle.WriteWithContext(ctx, keyset.NewJSONWriter(&text), key, nil); err != nil {
			return err
		}
		_, err := keyset.ReadWithContext(ctx, keyset.NewJSONReader(bytes.NewReader(text.Bytes())), key, nil)
		return err
	})
	return text.Bytes(), err
}

// unbounded is a key whose client knows no context and has limits of its own.
type unbounded struct{ key tink.AEAD }

func (u unbounded) EncryptWithContext(ctx context.Context, plaintext, associated []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return u.key.Encrypt(plaintext, associated)
}

func (u unbounded) DecryptWithContext(ctx context.Context, ciphertext, associated []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return u.key.Decrypt(ciphertext, associated)
}
