package secret_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/holdpoint/holdpoint/internal/secret"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sealText(t *testing.T, box *secret.Box) []byte {
	t.Helper()
	sealed, err := box.Seal([]byte("hunter2"), nil)
	check(t, err)
	return sealed
}

// changeKeyset edits a keyset in text form.
func changeKeyset(t *testing.T, keyset string, edit func(*secret.Keys) error) (*secret.Keys, string) {
	t.Helper()
	keys, text, err := secret.ChangeKeyset(t.Context(), keyset, "test", secret.Change{Edit: edit})
	check(t, err)
	return keys, text
}

// TestRotation rotates keys in several processes. At each stage, processes with the new and the old keyset decrypt each
// other's values.
func TestRotation(t *testing.T) {
	t.Parallel()
	first, err := secret.NewKeyset()
	check(t, err)
	_, added := changeKeyset(t, first, (*secret.Keys).Add)
	keys, promoted := changeKeyset(t, added, (*secret.Keys).Promote)
	if ids := keys.IDs(); len(ids) != 2 || keys.Primary() != ids[1] {
		t.Fatalf("keys %v, primary %d", ids, keys.Primary())
	}
	boxes := []*secret.Box{}
	for _, text := range []string{first, added, promoted} {
		boxes = append(boxes, openBox(t, secret.Config{Keyset: text}))
	}
	tests := []struct {
		name       string
		sealer     int
		opener     int
		opens      bool
		staleThere bool
	}{
		{"added key does not seal yet", 1, 0, true, false},
		{"old opened after adding", 0, 1, true, false},
		{"promoted opened by those that have the key", 2, 1, true, true},
		{"old opened after promotion", 1, 2, true, true},
		{"promoted is not stale", 2, 2, true, false},
		{"promoted too early", 2, 0, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sealed := sealText(t, boxes[test.sealer])
			_, err := boxes[test.opener].Open(sealed, nil)
			if (err == nil) != test.opens {
				t.Errorf("opened: %v", err)
			}
			if stale := boxes[test.opener].Stale(sealed); stale != test.staleThere {
				t.Errorf("stale: %v", stale)
			}
		})
	}
	if boxes[2].Stale(nil) {
		t.Error("nothing is stale")
	}
}

func TestStagesInTheirOrder(t *testing.T) {
	t.Parallel()
	first, err := secret.NewKeyset()
	check(t, err)
	_, added := changeKeyset(t, first, (*secret.Keys).Add)
	for name, test := range map[string]struct {
		keyset string
		edit   func(*secret.Keys) error
		want   error
	}{
		"promote what is not there": {first, (*secret.Keys).Promote, secret.ErrNoneWaiting},
		"add twice":                 {added, (*secret.Keys).Add, secret.ErrWaiting},
	} {
		_, _, err := secret.ChangeKeyset(t.Context(), test.keyset, "test", secret.Change{Edit: test.edit})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	keys, _ := changeKeyset(t, added, (*secret.Keys).Rotate)
	if ids := keys.IDs(); len(ids) != 3 || keys.Primary() != ids[2] {
		t.Errorf("both at once while a key waits: keys %v, primary %d", ids, keys.Primary())
	}
}

// TestKeysWithoutMark: another tool's keyset may have keys whose ciphertexts carry no key id.
func TestKeysWithoutMark(t *testing.T) {
	t.Parallel()
	encode := func(handle *keyset.Handle) string {
		var text strings.Builder
		check(t, insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)))
		return base64.StdEncoding.EncodeToString([]byte(text.String()))
	}
	template := aead.AES256GCMNoPrefixKeyTemplate()
	handle, err := keyset.NewHandle(template)
	check(t, err)
	bare := encode(handle)
	_, rotated := changeKeyset(t, bare, (*secret.Keys).Rotate)
	manager := keyset.NewManagerFromHandle(handle)
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	check(t, err)
	check(t, manager.SetPrimary(id))
	marked, err := manager.Handle()
	check(t, err)
	manager = keyset.NewManagerFromHandle(marked)
	id, err = manager.Add(template)
	check(t, err)
	check(t, manager.SetPrimary(id))
	again, err := manager.Handle()
	check(t, err)

	without, with := openBox(t, secret.Config{Keyset: bare}), openBox(t, secret.Config{Keyset: rotated})
	if old := sealText(t, without); without.Stale(old) || !with.Stale(old) {
		t.Errorf("sealed without a mark: stale %v before, %v after", without.Stale(old), with.Stale(old))
	}
	back := openBox(t, secret.Config{Keyset: encode(again)})
	if !back.Stale(sealText(t, openBox(t, secret.Config{Keyset: encode(marked)}))) || back.Stale(sealText(t, back)) {
		t.Error("a primary key without a mark is taken for another, or another for it")
	}
}

func TestChangeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "key.json"), filepath.Join(t.TempDir(), "link.json")
	check(t, secret.CreateFile(t.Context(), path, secret.KMS{}))
	if err := secret.CreateFile(t.Context(), path, secret.KMS{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made a second time: %v", err)
	}
	check(t, os.Symlink(path, link))
	check(t, os.Chmod(path, 0o640))
	sealed := sealText(t, openBox(t, secret.Config{File: path}))

	const processes = 8
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			if _, err := secret.ChangeFile(t.Context(), link, secret.Change{Edit: (*secret.Keys).Rotate}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	keys, err := secret.ChangeFile(t.Context(), path, secret.Change{})
	check(t, err)
	if n := len(keys.IDs()); n != processes+1 {
		t.Errorf("%d keys after %d rotations at once", n, processes)
	}
	box := openBox(t, secret.Config{File: link})
	if _, err := box.Open(sealed, nil); err != nil || !box.Stale(sealed) {
		t.Errorf("sealed before: %v, stale %v", err, box.Stale(sealed))
	}
	info, err := os.Stat(path)
	check(t, err)
	files, err := os.ReadDir(dir)
	check(t, err)
	if info.Mode().Perm() != 0o640 || len(files) != 1 {
		t.Errorf("permissions %v, files %v", info.Mode(), files)
	}
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("the link was replaced: %s, %v", target, err)
	}
}

func TestOwnerStays(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	path := filepath.Join(t.TempDir(), "key.json")
	check(t, secret.CreateFile(t.Context(), path, secret.KMS{}))
	check(t, os.Chown(path, 12345, 54321))
	_, err := secret.ChangeFile(t.Context(), path, secret.Change{Edit: (*secret.Keys).Rotate})
	check(t, err)
	if uid, gid := ownerOf(t, path); uid != 12345 || gid != 54321 {
		t.Errorf("owner %d, group %d", uid, gid)
	}
}

// TestBrokenChangesLeaveTheFile: a failed change does not alter the file.
func TestBrokenChangesLeaveTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key.json")
	check(t, secret.CreateFile(t.Context(), path, secret.KMS{}))
	before, err := os.ReadFile(path)
	check(t, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]secret.Change{
		"order":   {Edit: (*secret.Keys).Promote},
		"from":    {From: secret.KMS{URI: "nowhere://x"}},
		"no KMS":  {To: secret.KMS{URI: "nowhere://x"}},
		"silence": {To: fakeKMS(t), Edit: (*secret.Keys).Rotate},
	} {
		ctx := t.Context()
		if name == "silence" {
			ctx = cancelled
		}
		if _, err := secret.ChangeFile(ctx, path, c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	after, err := os.ReadFile(path)
	check(t, err)
	files, err := os.ReadDir(dir)
	check(t, err)
	if !slices.Equal(before, after) || len(files) != 1 {
		t.Errorf("changed, or left behind: %v", files)
	}
}
