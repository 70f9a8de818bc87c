package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// TestHookFollowsLinks: a link that leads out of a folder is resolved, and what is not known for sure is not claimed.
func TestHookFollowsLinks(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project, outside := filepath.Join(root, "project"), filepath.Join(root, "outside")
	for _, step := range []error{
		os.Mkdir(project, 0o700), os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(project, "a"), []byte("a"), 0o600),
		os.Symlink(outside, filepath.Join(project, "out")), os.Symlink("nowhere", filepath.Join(project, "dangling")), os.Symlink("loop", filepath.Join(project, "loop")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	for _, c := range []struct {
		named string
		want  string
	}{
		{"a", project + "/a"},
		{".", project},
		{"./../project/a", project + "/a"},
		{"./x/../a", ""},
		{"out/../project/a", ""},
		{project + "/out/../a", ""},
		{"new/file", project + "/new/file"},
		{"out", outside},
		{"out/new", outside + "/new"},
		{project + "/out", outside},
		{"dangling", ""},
		{"loop", ""},
		{"~/a", ""},
		{"", ""},
		{"a\x00", ""},
	} {
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if got := resolvePaths(project, []string{c.named}); !slices.Equal(got, want) {
			t.Errorf("%q leads to %q, want %q", c.named, got, want)
		}
	}
	if got := resolvePaths(filepath.Join(project, "out"), []string{"../project/a"}); got != nil {
		t.Errorf("from a folder that is a link, .. leads to %q", got)
	}
	if got := resolvePaths("", []string{"a"}); got != nil {
		t.Errorf("without a folder, a leads to %q", got)
	}
}

// TestHookReadsFiles: the hook sends a file that a call would change, unless it is large, no text, or likely to hold secrets.
func TestHookReadsFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, content := range map[string]string{"a.go": "package a\n", ".env": "KEY=1", "large": strings.Repeat("x", host.MaxFileText+1), "binary": "a\x00b"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".env", filepath.Join(folder, "notes")); err != nil {
		t.Fatal(err)
	}
	if f := readChanged(folder, "a.go"); f == nil || !f.Exists || f.Text == nil || *f.Text != "package a\n" || f.Size != 10 || len(f.SHA256) != 64 {
		t.Errorf("a text: %+v", f)
	}
	for _, name := range []string{".env", "notes", "large", "binary"} {
		if f := readChanged(folder, name); f == nil || !f.Exists || f.Text != nil || f.Size == 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := readChanged(folder, ".env"); f.SHA256 != "" {
		t.Error("the digest of a secret is sent")
	}
	if f := readChanged(folder, "new"); f == nil || f.Exists || f.Text != nil {
		t.Errorf("a new file: %+v", f)
	}
	for _, name := range []string{"", ".", "~/a"} {
		if f := readChanged(folder, name); f != nil {
			t.Errorf("%q: %+v", name, f)
		}
	}
}
