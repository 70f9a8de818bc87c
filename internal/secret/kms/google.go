//go:build cloud

package kms

import (
	"context"

	"github.com/tink-crypto/tink-go-gcpkms/v2/integration/gcpkms"
	"github.com/tink-crypto/tink-go/v2/core/registry"
)

// Check returns nil: this build has all clients.
func Check(string) error { return nil }

func dialGoogle(ctx context.Context, uri string) (registry.KMSClient, error) {
	return DialGoogle(ctx, uri)
}

// DialGoogle makes a client for a gcp-kms:// URI, with further options of Google's library.
func DialGoogle(ctx context.Context, uri string, options ...gcpkms.Option) (registry.KMSClient, error) {
	return gcpkms.NewClient(ctx, uri, options...)
}
