package secret_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/secret"
)

func openBox(t *testing.T, cfg secret.Config) *secret.Box {
	t.Helper()
	box, err := secret.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestBoxOpensWhatItSealed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data", "secret.keyset.json")
	first := openBox(t, secret.Config{File: path})
	row := secret.For("skill", uuid.New())
	sealed, err := first.Seal([]byte("hunter2"), row)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(sealed), "hunter2") {
		t.Error("the sealed value holds the secret")
	}
	again := openBox(t, secret.Config{File: path})
	text, err := again.Open(sealed, row)
	if err != nil || string(text) != "hunter2" {
		t.Errorf("opened by another process: %q, %v", text, err)
	}
	_, err = again.Open(sealed, secret.For("skill", uuid.New()))
	var wrong *secret.DecryptError
	if !errors.As(err, &wrong) || wrong.UnknownKey || !errors.Is(err, secret.ErrDecrypt) {
		t.Errorf("opened for another row: %v", err)
	}
}

func TestAnotherKeyIsNamed(t *testing.T) {
	t.Parallel()
	keyset, err := secret.NewKeyset()
	if err != nil {
		t.Fatal(err)
	}
	mine := openBox(t, secret.Config{Keyset: keyset, KeysetName: "HOLDPOINT_SECRET_KEYSET"})
	path := filepath.Join(t.TempDir(), "key.json")
	theirs := openBox(t, secret.Config{File: path})
	sealed, err := theirs.Seal([]byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = mine.Open(sealed, nil)
	var wrong *secret.DecryptError
	if !errors.As(err, &wrong) || !wrong.UnknownKey || !strings.Contains(err.Error(), "HOLDPOINT_SECRET_KEYSET") {
		t.Errorf("error does not say which key it is about: %v", err)
	}
	if !strings.Contains(theirs.Source(), path) {
		t.Errorf("source is %q", theirs.Source())
	}
}

func TestKeyFileIsMadeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key.json")
	boxes := make([]*secret.Box, 16)
	var all sync.WaitGroup
	for i := range boxes {
		all.Go(func() {
			box, err := secret.Open(secret.Config{File: path})
			if err != nil {
				t.Error(err)
			}
			boxes[i] = box
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	sealed, err := boxes[0].Seal([]byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, box := range boxes {
		if _, err := box.Open(sealed, nil); err != nil {
			t.Errorf("process %d has another key: %v", i, err)
		}
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, cfg := range map[string]secret.Config{
		"nothing":  {},
		"readable": {File: write("readable", "{}", 0o644)},
		"no JSON":  {File: write("nojson", "s3cret", 0o600)},
		"empty":    {File: write("empty", "", 0o600)},
		"base64":   {Keyset: "s3cret?"},
		"keyset":   {Keyset: "czNjcmV0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := secret.Open(cfg)
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, prefix := range []secret.Prefix{secret.AgentKey, secret.PersonalToken, secret.SignIn} {
		for range 100 {
			c := secret.NewCredential(prefix)
			switch {
			case seen[c.Secret]:
				t.Fatal("the same credential twice")
			case !prefix.Is(c.Secret) || len(c.Secret) != len(prefix)+52:
				t.Fatalf("credential %q", c.Secret)
			case c.Hint != c.Secret[:len(prefix)+4]:
				t.Fatalf("hint %q", c.Hint)
			case c.Hash != secret.HashOf(c.Secret):
				t.Fatal("the hash is of something else")
			}
			seen[c.Secret] = true
		}
	}
}
