//go:build !cloud

package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// TestCloudsAreNotInThisBuild: serve refuses at once, and doctor says the same: which setting, and which build can use it.
func TestCloudsAreNotInThisBuild(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	for flag, value := range map[string]string{
		"--files-url":      "gs://attic",
		"--keyset-kms-uri": "gcp-kms://projects/p/locations/europe/keyRings/r/cryptoKeys/holdpoint",
	} {
		dataDir := filepath.Join(t.TempDir(), "data")
		want := []string{flag, strings.Split(value, "/")[0], "-tags cloud"}
		env := map[string]string{"DATABASE_URL": db.URL()}
		var stdout, stderr bytes.Buffer
		for command, out := range map[string]*bytes.Buffer{"serve": &stderr, "doctor": &stdout} {
			args := []string{command, "--data-dir", dataDir, flag, value}
			if command == "serve" {
				args = append(args, "--addr", "127.0.0.1:0")
			}
			stdout.Reset()
			stderr.Reset()
			code := run(t.Context(), args, func(name string) string { return env[name] }, strings.NewReader(""), &stdout, &stderr)
			if code != 1 || slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(out.String(), s) }) {
				t.Errorf("%v: exit code %d, want %q in\n%s", args, code, want, out.String())
			}
		}
	}
}
