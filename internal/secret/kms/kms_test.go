package kms_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/secret/kms"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keyOf(uri string) secret.KMS {
	return secret.KMS{URI: uri, Name: "--keyset-kms-uri", Dial: kms.Dial}
}

// roundTrip creates a keyset, rotates it, and decrypts an earlier value.
func roundTrip(t *testing.T, key secret.KMS) {
	t.Helper()
	made, err := secret.MakeKeyset(t.Context(), key)
	check(t, err)
	before, err := secret.OpenContext(t.Context(), secret.Config{Keyset: made, KMS: key})
	check(t, err)
	sealed, err := before.Seal([]byte("hunter2"), nil)
	check(t, err)
	_, rotated, err := secret.ChangeKeyset(t.Context(), made, "test", secret.Change{From: key, To: key, Edit: (*secret.Keys).Rotate})
	check(t, err)
	after, err := secret.OpenContext(t.Context(), secret.Config{Keyset: rotated, KMS: key})
	check(t, err)
	if text, err := after.Open(sealed, nil); err != nil || string(text) != "hunter2" || !after.Stale(sealed) {
		t.Errorf("%q, %v, stale %v", text, err, after.Stale(sealed))
	}
}

// wantRefused opens a keyset whose KMS refuses, and checks the error.
func wantRefused(t *testing.T, made string, key secret.KMS, wanted ...string) {
	t.Helper()
	_, err := secret.OpenContext(t.Context(), secret.Config{Keyset: made, KeysetName: "HOLDPOINT_ENCRYPTION_KEY", KMS: key})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range append(wanted, "HOLDPOINT_ENCRYPTION_KEY", key.Name, key.URI) {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), made) {
		t.Errorf("the keyset is in: %v", err)
	}
}

func TestBadURIs(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"", "x", "/etc/key", "azure-kms://x", "AWS-KMS://x",
		"aws-kms://alias/holdpoint", "aws-kms://",
		"hcvault://", "hcvault:///transit/keys/x", "hcvault://u:hush@vault/transit/keys/x", "hcvault://vault/transit/keys/x?a=b",
		"hcvault://vault/transit", "hcvault://vault/transit/x", "hcvault://%zz/",
	} {
		key := keyOf(uri)
		if _, err := secret.MakeKeyset(t.Context(), key); uri != "" && (err == nil || !strings.Contains(err.Error(), key.Name)) {
			t.Errorf("%q: %v", uri, err)
		}
	}
}
