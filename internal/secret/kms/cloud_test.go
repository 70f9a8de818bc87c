package kms_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/tink-crypto/tink-go-gcpkms/v2/integration/gcpkms"
	"github.com/tink-crypto/tink-go/v2/tink"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/secret/kms"
)

const arn = "arn:aws:kms:eu-central-1:111122223333:key/holdpoint"

// amazon speaks the part of AWS KMS's protocol that encrypts and decrypts.
func amazon(t *testing.T) http.Handler {
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
	server := httptest.NewServer(amazon(t))
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_KMS": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	key := of("aws-kms://"+arn, kms.Dialer{})
	roundTrip(t, key)
	made, err := secret.MakeKeyset(t.Context(), key)
	check(t, err)
	stranger := httptest.NewServer(amazon(t))
	t.Setenv("AWS_ENDPOINT_URL_KMS", stranger.URL)
	refused(t, made, key, "InvalidCiphertextException")
	stranger.Close()
	refused(t, made, key, "connection refused")
}

const cryptoKey = "projects/p/locations/europe/keyRings/r/cryptoKeys/holdpoint"

// google speaks the part of Cloud KMS's protocol that encrypts and decrypts.
type google struct {
	kmspb.UnimplementedKeyManagementServiceServer
	key tink.AEAD
}

func sum(data []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
}

func (g *google) Encrypt(_ context.Context, r *kmspb.EncryptRequest) (*kmspb.EncryptResponse, error) {
	sealed, err := g.key.Encrypt(r.GetPlaintext(), nil)
	return &kmspb.EncryptResponse{
		Name: r.GetName() + "/cryptoKeyVersions/1", Ciphertext: sealed, CiphertextCrc32C: sum(sealed),
		VerifiedPlaintextCrc32C:                   r.GetPlaintextCrc32C().GetValue() == sum(r.GetPlaintext()).GetValue(),
		VerifiedAdditionalAuthenticatedDataCrc32C: true,
	}, err
}

func (g *google) Decrypt(_ context.Context, r *kmspb.DecryptRequest) (*kmspb.DecryptResponse, error) {
	text, err := g.key.Decrypt(r.GetCiphertext(), nil)
	if err != nil || r.GetName() != cryptoKey {
		return nil, status.Error(codes.InvalidArgument, "decryption failed: the ciphertext is invalid")
	}
	return &kmspb.DecryptResponse{Plaintext: text, PlaintextCrc32C: sum(text)}, nil
}

// serveGoogle returns how it is dialled, and what ends it.
func serveGoogle(t *testing.T) (dialer kms.Dialer, stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	server := grpc.NewServer()
	kmspb.RegisterKeyManagementServiceServer(server, &google{key: newAEAD(t)})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return kms.Dialer{Google: []gcpkms.Option{gcpkms.WithGoogleAPIClientOptions(
		option.WithEndpoint(listener.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	)}}, server.Stop
}

func TestGoogle(t *testing.T) {
	t.Parallel()
	dialer, _ := serveGoogle(t)
	key := of("gcp-kms://"+cryptoKey, dialer)
	roundTrip(t, key)
	made, err := secret.MakeKeyset(t.Context(), key)
	check(t, err)
	other, stop := serveGoogle(t)
	refused(t, made, of(key.URI, other), "the ciphertext is invalid")
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // it tries until then
	defer cancel()
	_, err = secret.OpenContext(ctx, secret.Config{Keyset: made, KMS: of(key.URI, other)})
	if err == nil || !strings.Contains(err.Error(), key.URI) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("gone: %v", err)
	}
}
