//go:build cloud

package bucket_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/internal/bucket"
)

func TestClouds(t *testing.T) {
	t.Parallel()
	openAndClose(t, "gs://attic?anonymous=true")
	openAndClose(t, "azblob://attic?storage_account=attic")
	if err := bucket.Check("ftp://attic"); err == nil {
		t.Error("ftp://attic: no error")
	}
}
