package secret_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/testing/fakekms"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/holdpoint/holdpoint/internal/secret"
)

func TestMain(m *testing.M) {
	client, err := fakekms.NewClient("fake-kms://")
	if err != nil {
		panic(err)
	}
	registry.RegisterKMSClient(client)
	os.Exit(m.Run())
}

func ownerOf(t *testing.T, path string) (uid, gid uint32) {
	t.Helper()
	info, err := os.Stat(path)
	check(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}

func fakeKMS(t *testing.T) secret.KMS {
	t.Helper()
	uri, err := fakekms.NewKeyURI()
	check(t, err)
	return secret.KMS{URI: uri, Name: "--keyset-kms-uri"}
}

func TestKeysetOfKMS(t *testing.T) {
	t.Parallel()
	kms := fakeKMS(t)
	text, err := secret.MakeKeyset(t.Context(), kms)
	check(t, err)
	sealed := sealText(t, openBox(t, secret.Config{Keyset: text, KMS: kms}))
	_, rotated, err := secret.ChangeKeyset(t.Context(), text, "test", secret.Change{From: kms, To: kms, Edit: (*secret.Keys).Rotate})
	check(t, err)
	for name, keyset := range map[string]string{"made": text, "rotated": rotated} {
		raw, err := base64.StdEncoding.DecodeString(keyset)
		check(t, err)
		if s := string(raw); !strings.Contains(s, "encryptedKeyset") || strings.Contains(s, "keyData") {
			t.Errorf("%s is not encrypted: %s", name, s)
		}
		box := openBox(t, secret.Config{Keyset: keyset, KMS: kms})
		if got, err := box.Open(sealed, nil); err != nil || string(got) != "hunter2" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if !strings.Contains(box.Source(), kms.URI) {
			t.Errorf("source %q", box.Source())
		}
	}
}

func TestFileOfKMS(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data", "key.json")
	sealed := sealText(t, openBox(t, secret.Config{File: path}))
	kms, next := fakeKMS(t), fakeKMS(t)
	steps := []secret.Change{
		{To: kms}, {From: kms, To: kms, Edit: (*secret.Keys).Add}, {From: kms, To: kms, Edit: (*secret.Keys).Promote}, {From: kms, To: next},
	}
	for i, step := range steps {
		if _, err := secret.ChangeFile(t.Context(), path, step); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	check(t, os.Chmod(path, 0o644)) // an encrypted keyset may be readable
	box := openBox(t, secret.Config{File: path, KMS: next})
	if _, err := box.Open(sealed, nil); err != nil || !box.Stale(sealed) {
		t.Errorf("sealed at first: %v, stale %v", err, box.Stale(sealed))
	}
	if _, err := secret.Open(secret.Config{File: path, KMS: kms}); err == nil {
		t.Error("opened by the former KMS key")
	}
	made := filepath.Join(t.TempDir(), "key.json") // created at first use
	openBox(t, secret.Config{File: made, KMS: kms})
	text, err := os.ReadFile(made)
	check(t, err)
	if !strings.Contains(string(text), "encryptedKeyset") {
		t.Errorf("made in clear: %s", text)
	}
}

// silent is a KMS that does not answer. With encrypts, it encrypts but does not decrypt.
type silent struct{ encrypts bool }

func (silent) Supported(string) bool               { return true }
func (s silent) GetAEAD(string) (tink.AEAD, error) { return s, nil }
func (silent) Decrypt(_, _ []byte) ([]byte, error) { return nil, errors.New("no route to host") }
func (s silent) Encrypt(_, _ []byte) (_ []byte, _ error) {
	if s.encrypts {
		return []byte("nobody knows"), nil
	}
	return nil, errors.New("no route to host")
}

type closing struct {
	silent
	closed *bool
}

func (c closing) Close() error {
	*c.closed = true
	return nil
}

func dialled(client registry.KMSClient, err error) secret.KMS {
	return secret.KMS{
		URI: "away-kms://key", Name: "--keyset-kms-uri",
		Dial: func(context.Context, string) (registry.KMSClient, error) { return client, err },
	}
}

func TestKMSErrorsNameSettingAndURI(t *testing.T) {
	t.Parallel()
	kms := fakeKMS(t)
	encrypted, err := secret.MakeKeyset(t.Context(), kms)
	check(t, err)
	plain, err := secret.NewKeyset()
	check(t, err)
	tests := []struct {
		name   string
		keyset string
		kms    secret.KMS
		want   []string
	}{
		{"no client", encrypted, secret.KMS{URI: "odd-kms://x", Name: "--keyset-kms-uri"}, []string{"--keyset-kms-uri", "odd-kms://x", "no client"}},
		{"no credentials", encrypted, dialled(nil, errors.New("no credentials")), []string{"--keyset-kms-uri", "away-kms://key", "no credentials"}},
		{"no network", encrypted, dialled(silent{}, nil), []string{"HOLDPOINT_ENCRYPTION_KEY", "--keyset-kms-uri", "away-kms://key", "no route"}},
		{"another KMS key", encrypted, fakeKMS(t), []string{"--keyset-kms-uri", "fake-kms://", "decrypt"}},
		{"no URI", encrypted, secret.KMS{Name: "--keyset-kms-uri"}, []string{"--keyset-kms-uri is needed"}},
		{"in clear", plain, kms, []string{"--keyset-kms-uri", "in clear", kms.URI}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := secret.Open(secret.Config{Keyset: test.keyset, KeysetName: "HOLDPOINT_ENCRYPTION_KEY", KMS: test.kms})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), test.keyset) {
				t.Errorf("the keyset is in: %v", err)
			}
		})
	}
}

// TestNothingThatCannotBeDecrypted: a keyset that cannot be decrypted again is not stored.
func TestNothingThatCannotBeDecrypted(t *testing.T) {
	t.Parallel()
	if text, err := secret.MakeKeyset(t.Context(), dialled(silent{encrypts: true}, nil)); err == nil {
		t.Errorf("made %s", text)
	}
	path := filepath.Join(t.TempDir(), "key.json")
	check(t, secret.CreateFile(t.Context(), path, secret.KMS{}))
	sealed := sealText(t, openBox(t, secret.Config{File: path}))
	if _, err := secret.ChangeFile(t.Context(), path, secret.Change{To: dialled(silent{encrypts: true}, nil)}); err == nil {
		t.Error("encrypted for good")
	}
	if _, err := openBox(t, secret.Config{File: path}).Open(sealed, nil); err != nil {
		t.Error(err)
	}
}

func TestClientIsClosed(t *testing.T) {
	t.Parallel()
	closed := false
	_, err := secret.MakeKeyset(t.Context(), dialled(closing{closed: &closed}, nil))
	if err == nil || !closed {
		t.Errorf("error %v, closed %v", err, closed)
	}
}
