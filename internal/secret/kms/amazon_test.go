package kms_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdpoint/holdpoint/internal/secret"
)

const arn = "arn:aws:kms:eu-central-1:111122223333:key/holdpoint"

// serveAmazon serves Encrypt and Decrypt of the protocol of AWS KMS.
func serveAmazon(t *testing.T) http.Handler {
	t.Helper()
	key := newAEAD(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			KeyId                     string
			Plaintext, CiphertextBlob []byte
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.KeyId != arn || r.Header.Get("Authorization") == "" {
			t.Errorf("asked %+v: %v", body, err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		text, err := key.Decrypt(body.CiphertextBlob, nil)
		if target := r.Header.Get("X-Amz-Target"); target == "TrentService.Encrypt" {
			text, err = key.Encrypt(body.Plaintext, nil)
		} else if target != "TrentService.Decrypt" {
			t.Errorf("target %s", target)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"InvalidCiphertextException","message":"no"}`)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"KeyId": arn, "Plaintext": text, "CiphertextBlob": text})
	})
}

func TestAmazon(t *testing.T) {
	server := httptest.NewServer(serveAmazon(t))
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_KMS": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	key := keyOf("aws-kms://" + arn)
	roundTrip(t, key)
	made, err := secret.MakeKeyset(t.Context(), key)
	check(t, err)
	stranger := httptest.NewServer(serveAmazon(t))
	t.Setenv("AWS_ENDPOINT_URL_KMS", stranger.URL)
	wantRefused(t, made, key, "InvalidCiphertextException")
	stranger.Close()
	wantRefused(t, made, key, "connection refused")
}
