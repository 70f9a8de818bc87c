package cli_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tink-crypto/tink-go/v2/testing/fakekms"

	"github.com/holdpoint/holdpoint/internal/secret"
)

// keysOf returns the ids of keys that a command printed, and the one that encrypts.
func keysOf(t *testing.T, told string) (ids []string, primary string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(\d+)( \(encrypts\))?`).FindAllStringSubmatch(told[strings.LastIndex(told, "keys "):], -1) {
		ids = append(ids, found[1])
		if found[2] != "" {
			primary = found[1]
		}
	}
	return ids, primary
}

func opened(t *testing.T, cfg secret.Config) *secret.Box {
	t.Helper()
	box, err := secret.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func fakeKMS(t *testing.T) string {
	t.Helper()
	uri, err := fakekms.NewKeyURI()
	if err != nil {
		t.Fatal(err)
	}
	return uri
}

// TestKeysetText: as for HOLDPOINT_ENCRYPTION_KEY, in clear and encrypted by a KMS.
func TestKeysetText(t *testing.T) {
	t.Parallel()
	uri := fakeKMS(t)
	for name, env := range map[string]map[string]string{
		"in clear": {}, "by KMS": {"HOLDPOINT_KEYSET_KMS_URI": uri, "HOLDPOINT_ADD": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kms := secret.KMS{URI: env["HOLDPOINT_KEYSET_KMS_URI"]}
			made := run(t, env, "", "keyset", "new").wantCode(t, 0).stdout
			box := opened(t, secret.Config{Keyset: strings.TrimSpace(made), KMS: kms})
			sealed, err := box.Seal([]byte("x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			added := run(t, env, made, "keyset", "rotate", "--add").wantCode(t, 0)
			promoted := run(t, env, added.stdout, "keyset", "rotate", "--promote", "-").wantCode(t, 0)
			rotated := run(t, env, promoted.stdout, "keyset", "rotate").wantCode(t, 0)
			for i, r := range []struct {
				ran
				keys    int
				primary int
				stale   bool
			}{{added, 2, 0, false}, {promoted, 2, 1, true}, {rotated, 3, 2, true}} {
				ids, primary := keysOf(t, r.stderr)
				if len(ids) != r.keys || primary != ids[r.primary] {
					t.Errorf("stage %d: %s", i, r.stderr)
				}
				box := opened(t, secret.Config{Keyset: strings.TrimSpace(r.stdout), KMS: kms})
				if _, err := box.Open(sealed, nil); err != nil || box.Stale(sealed) != r.stale {
					t.Errorf("stage %d: %v, stale %v", i, err, box.Stale(sealed))
				}
			}
			run(t, env, added.stdout, "keyset", "rotate", "--add").wantCode(t, 1)
			run(t, env, made, "keyset", "rotate", "--promote").wantCode(t, 1)
		})
	}
}

func TestKeysetFile(t *testing.T) {
	t.Parallel()
	uri := fakeKMS(t)
	config := writeFile(t, "holdpoint.yaml", fmt.Sprintf("server: {keyset_kms_uri: %q}\n", uri))
	path := filepath.Join(t.TempDir(), "key.json")
	run(t, nil, "", "keyset", "new", path).wantCode(t, 0)
	wantContains(t, "new again", run(t, nil, "", "keyset", "new", path).wantCode(t, 1).stderr, path, "exists")
	sealed, err := opened(t, secret.Config{File: path}).Seal([]byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantContains(t, "in clear", run(t, nil, "", "keyset", "rotate", path, "--config", config).wantCode(t, 1).stderr, "in clear", "--keyset-kms-uri")
	run(t, nil, "", "keyset", "encrypt", path, "--to-kms-uri", uri).wantCode(t, 0)
	wantContains(t, "encrypted", run(t, nil, "", "keyset", "rotate", path).wantCode(t, 1).stderr, "--keyset-kms-uri is needed")
	got := run(t, nil, "", "keyset", "rotate", path, "--config", config).wantCode(t, 0)
	if ids, primary := keysOf(t, got.stderr); len(ids) != 2 || primary != ids[1] || got.stdout != "" {
		t.Errorf("rotate: %s%s", got.stdout, got.stderr)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "encryptedKeyset") {
		t.Errorf("the file holds %s, %v", text, err)
	}
	box := opened(t, secret.Config{File: path, KMS: secret.KMS{URI: uri}})
	if _, err := box.Open(sealed, nil); err != nil || !box.Stale(sealed) {
		t.Errorf("%v, stale %v", err, box.Stale(sealed))
	}
}

func TestKeysetErrors(t *testing.T) {
	t.Parallel()
	odd := base64.StdEncoding.EncodeToString([]byte(`{"primaryKeyId":1,"key":"s3cret"}`))
	away := "hcvault://127.0.0.1:1/transit/keys/holdpoint"
	for _, test := range []struct {
		stdin string
		args  string
		want  []string
	}{
		{"s3cret?", "keyset rotate", []string{"not base64"}},
		{"", "keyset rotate", []string{"not a Tink keyset"}},
		{odd, "keyset rotate", []string{"not a Tink keyset"}},
		{"", "keyset rotate /nonexistent/key.json", []string{"/nonexistent"}},
		{"", "keyset rotate a b", []string{"--help"}},
		{"", "keyset encrypt", []string{"--to-kms-uri"}},
		{"", "keyset", []string{"name one"}},
		{"", "keyset new --keyset-kms-uri nowhere://x", []string{"--keyset-kms-uri, nowhere://x", "hcvault://"}},
		{"", "keyset new --keyset-kms-uri " + away, []string{"--keyset-kms-uri, " + away, "connection refused"}},
	} {
		got := run(t, nil, test.stdin, strings.Fields(test.args)...).wantCode(t, 1)
		wantContains(t, test.args, got.stderr, test.want...)
		if strings.Contains(got.stderr, "s3cret") || strings.Contains(got.stderr, odd) || got.stdout != "" {
			t.Errorf("%s: %s%s", test.args, got.stdout, got.stderr)
		}
	}
}

// TestDoctorAndKMS: doctor finds the problems with a KMS that would stop serve.
func TestDoctorAndKMS(t *testing.T) {
	t.Parallel()
	uri := fakeKMS(t)
	env := map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/x", "HOLDPOINT_DATA_DIR": t.TempDir(), "HOLDPOINT_KEYSET_KMS_URI": uri}
	env["HOLDPOINT_ENCRYPTION_KEY"] = strings.TrimSpace(run(t, env, "", "keyset", "new").wantCode(t, 0).stdout)
	wantContains(t, "doctor", run(t, env, "", "doctor").stdout, "ok    encryption key   of HOLDPOINT_ENCRYPTION_KEY, encrypted by "+uri)
	env["HOLDPOINT_KEYSET_KMS_URI"] = fakeKMS(t)
	wantContains(t, "doctor", run(t, env, "", "doctor").stdout, "fail  encryption key", env["HOLDPOINT_KEYSET_KMS_URI"], "check --keyset-kms-uri")
}
