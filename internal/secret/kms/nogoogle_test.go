//go:build !cloud

package kms_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/buildtag"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Without the tag, the error about a Google key names the setting and the build that supports it.
func TestGoogleIsNotInThisBuild(t *testing.T) {
	t.Parallel()
	key := keyOf("gcp-kms://projects/p/locations/europe/keyRings/r/cryptoKeys/holdpoint")
	_, err := secret.MakeKeyset(t.Context(), key)
	missing, ok := errors.AsType[*buildtag.MissingError](err)
	if !ok || missing.Scheme != "gcp-kms" || !strings.Contains(err.Error(), key.Name) || !strings.Contains(err.Error(), "-tags cloud") {
		t.Error(err)
	}
}
