package kms_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/holdpoint/holdpoint/internal/secret"
)

func newAEAD(t *testing.T) tink.AEAD {
	t.Helper()
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	check(t, err)
	key, err := aead.New(handle)
	check(t, err)
	return key
}

// serveTransit implements the part of Vault's API that encrypts and decrypts.
func serveTransit(t *testing.T) http.Handler {
	t.Helper()
	key := newAEAD(t)
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, name, value string) {
		json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{name: value}})
	}
	read := func(w http.ResponseWriter, r *http.Request) (body struct{ Plaintext, Ciphertext string }, ok bool) {
		if r.Header.Get("X-Vault-Token") != "t0ken" {
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte(`{"errors":["permission denied"]}`))
			return body, false
		}
		return body, json.NewDecoder(r.Body).Decode(&body) == nil
	}
	mux.HandleFunc("PUT /v1/team/transit/encrypt/holdpoint", func(w http.ResponseWriter, r *http.Request) {
		body, ok := read(w, r)
		if !ok {
			return
		}
		plaintext, err := base64.StdEncoding.DecodeString(body.Plaintext)
		if err != nil {
			t.Error(err)
		}
		sealed, err := key.Encrypt(plaintext, nil)
		if err != nil {
			t.Error(err)
		}
		answer(w, "ciphertext", "vault:v1:"+base64.StdEncoding.EncodeToString(sealed))
	})
	mux.HandleFunc("PUT /v1/team/transit/decrypt/holdpoint", func(w http.ResponseWriter, r *http.Request) {
		body, ok := read(w, r)
		if !ok {
			return
		}
		sealed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(body.Ciphertext, "vault:v1:"))
		if err == nil {
			sealed, err = key.Decrypt(sealed, nil)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`{"errors":["invalid ciphertext"]}`))
			return
		}
		answer(w, "plaintext", base64.StdEncoding.EncodeToString(sealed))
	})
	return mux
}

func vaultURI(server *httptest.Server) string {
	_, host, _ := strings.Cut(server.URL, "://")
	return "hcvault://" + host + "/team/transit/keys/holdpoint"
}

func TestVault(t *testing.T) {
	server := httptest.NewTLSServer(serveTransit(t))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	key := keyOf(vaultURI(server))

	t.Setenv("VAULT_TOKEN", "t0ken")
	_, err := secret.MakeKeyset(t.Context(), key)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
	t.Setenv("VAULT_CACERT", ca)
	roundTrip(t, key)

	made, err := secret.MakeKeyset(t.Context(), key)
	check(t, err)
	t.Setenv("VAULT_TOKEN", "0ther")
	wantRefused(t, made, key, "permission denied")
	t.Setenv("VAULT_TOKEN", "t0ken")
	stranger := httptest.NewTLSServer(serveTransit(t))
	t.Setenv("VAULT_SKIP_VERIFY", "true")
	wantRefused(t, made, keyOf(vaultURI(stranger)), "invalid ciphertext")
	stranger.Close()
	wantRefused(t, made, keyOf(vaultURI(stranger)), "connection refused")
}

// TestVaultInClear: plain http is used only for the address in VAULT_ADDR.
func TestVaultInClear(t *testing.T) {
	server := httptest.NewServer(serveTransit(t))
	defer server.Close()
	t.Setenv("VAULT_TOKEN", "t0ken")
	key := keyOf(vaultURI(server))
	for _, addr := range []string{"", "http://127.0.0.1:1", strings.Replace(server.URL, "http", "https", 1)} {
		t.Setenv("VAULT_ADDR", addr)
		if _, err := secret.MakeKeyset(t.Context(), key); err == nil {
			t.Errorf("in clear with VAULT_ADDR %q", addr)
		}
	}
	t.Setenv("VAULT_ADDR", server.URL)
	roundTrip(t, key)
}
