//go:build !cloud

package bucket_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/bucket"
	"github.com/holdpoint/holdpoint/internal/buildtag"
)

// Without the tag, the error about a cloud URL names the build that supports it.
func TestCloudsAreNotInThisBuild(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"gs://attic", "azblob://attic?storage_account=attic"} {
		_, openErr := bucket.Open(t.Context(), location, t.TempDir())
		for _, err := range []error{bucket.Check(location), openErr} {
			missing, ok := errors.AsType[*buildtag.MissingError](err)
			if !ok || !strings.HasPrefix(location, missing.Scheme+"://") || !strings.Contains(err.Error(), "-tags cloud") {
				t.Errorf("%s: %v", location, err)
			}
		}
	}
	err := bucket.Check("ftp://attic")
	if _, missing := errors.AsType[*buildtag.MissingError](err); err == nil || missing {
		t.Errorf("unknown to all builds: %v", err)
	}
}
