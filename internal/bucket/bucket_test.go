package bucket_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/bucket"
)

func TestFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a", "files")
	for _, location := range []string{"", "file://" + folder} {
		opened, err := bucket.Open(t.Context(), location, folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := opened.WriteAll(t.Context(), "key", []byte("content"), nil); err != nil {
			t.Fatal(err)
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 || entries[0].Name() != "key" {
		t.Errorf("in the folder: %v, %v; want the content alone", entries, err)
	}
}

func openAndClose(t *testing.T, location string) {
	t.Helper()
	opened, err := bucket.Open(t.Context(), location, "")
	if err != nil {
		t.Errorf("%s: %v", location, err)
		return
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}

// An error contains only the scheme and host of a location.
func TestLocations(t *testing.T) {
	t.Parallel()
	openAndClose(t, "s3://attic?region=eu-central-1")
	for _, location := range []string{
		"s3://us3r:pa55w0rd@attic?wrong=hunter2", "ftp://us3r:pa55w0rd@attic?x=hunter2", "s3://attic?anonymous=hunter2",
		"file://pa55w0rd/folder", "file:relative?hunter2", "hunter2", "://hunter2",
	} {
		_, err := bucket.Open(t.Context(), location, "")
		if err == nil {
			t.Errorf("%s: opened", location)
			continue
		}
		for _, secret := range []string{"us3r", "pa55w0rd", "hunter2"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", location, err)
			}
		}
	}
	if got := bucket.Name("s3://us3r:pa55w0rd@attic?x=hunter2"); got != "s3://attic" {
		t.Errorf("name: %q", got)
	}
}
