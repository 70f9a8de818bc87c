//go:build !cloud

package kms

import (
	"context"
	"strings"

	"github.com/tink-crypto/tink-go/v2/core/registry"

	"github.com/holdpoint/holdpoint/internal/buildtag"
)

const google = "gcp-kms"

// Check returns a [buildtag.MissingError] if this build has no client for a URI.
func Check(uri string) error {
	if strings.HasPrefix(uri, google+"://") {
		return &buildtag.MissingError{Scheme: google}
	}
	return nil
}

func dialGoogle(context.Context, string) (registry.KMSClient, error) {
	return nil, &buildtag.MissingError{Scheme: google}
}
