//go:build cloud

package kms_test

import (
	"context"
	"hash/crc32"
	"net"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/tink-crypto/tink-go-gcpkms/v2/integration/gcpkms"
	"github.com/tink-crypto/tink-go/v2/core/registry"
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

const cryptoKey = "projects/p/locations/europe/keyRings/r/cryptoKeys/holdpoint"

// google serves Encrypt and Decrypt of the protocol of Cloud KMS.
type google struct {
	kmspb.UnimplementedKeyManagementServiceServer
	key tink.AEAD
}

func checksum(data []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
}

func (g *google) Encrypt(_ context.Context, r *kmspb.EncryptRequest) (*kmspb.EncryptResponse, error) {
	sealed, err := g.key.Encrypt(r.GetPlaintext(), nil)
	return &kmspb.EncryptResponse{
		Name: r.GetName() + "/cryptoKeyVersions/1", Ciphertext: sealed, CiphertextCrc32C: checksum(sealed),
		VerifiedPlaintextCrc32C:                   r.GetPlaintextCrc32C().GetValue() == checksum(r.GetPlaintext()).GetValue(),
		VerifiedAdditionalAuthenticatedDataCrc32C: true,
	}, err
}

func (g *google) Decrypt(_ context.Context, r *kmspb.DecryptRequest) (*kmspb.DecryptResponse, error) {
	text, err := g.key.Decrypt(r.GetCiphertext(), nil)
	if err != nil || r.GetName() != cryptoKey {
		return nil, status.Error(codes.InvalidArgument, "decryption failed: the ciphertext is invalid")
	}
	return &kmspb.DecryptResponse{Plaintext: text, PlaintextCrc32C: checksum(text)}, nil
}

type dialer = func(ctx context.Context, uri string) (registry.KMSClient, error)

// keyFor returns a key that uses clients from dial.
func keyFor(uri string, dial dialer) secret.KMS {
	key := keyOf(uri)
	key.Dial = dial
	return key
}

// serveGoogle starts a server, and returns a function that creates clients and one that stops it.
func serveGoogle(t *testing.T) (dial dialer, stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	server := grpc.NewServer()
	kmspb.RegisterKeyManagementServiceServer(server, &google{key: newAEAD(t)})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	options := gcpkms.WithGoogleAPIClientOptions(
		option.WithEndpoint(listener.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	)
	return func(ctx context.Context, uri string) (registry.KMSClient, error) {
		return kms.DialGoogle(ctx, uri, options)
	}, server.Stop
}

func TestGoogle(t *testing.T) {
	t.Parallel()
	dial, _ := serveGoogle(t)
	key := keyFor("gcp-kms://"+cryptoKey, dial)
	roundTrip(t, key)
	made, err := secret.MakeKeyset(t.Context(), key)
	check(t, err)
	other, stop := serveGoogle(t)
	wantRefused(t, made, keyFor(key.URI, other), "the ciphertext is invalid")
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the client retries until then
	defer cancel()
	_, err = secret.OpenContext(ctx, secret.Config{Keyset: made, KMS: keyFor(key.URI, other)})
	if err == nil || !strings.Contains(err.Error(), key.URI) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("gone: %v", err)
	}
}
