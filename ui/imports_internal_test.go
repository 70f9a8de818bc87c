package ui

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdpoint/holdpoint/"

// Templates import view models, never services. The linter skips generated files, so this test checks it.
func TestTemplatesImportNoServices(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"ui/text": true, "ui/view": true, "ui/view/hostile": true,
		"ui/operate/connections": true, // its part is shown on the page of a skill
	}
	found := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_templ.go") {
			return err
		}
		found++
		file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(path), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, one := range file.Imports {
			name, err := strconv.Unquote(one.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(name, module); ok && !allowed[own] {
				t.Errorf("%s imports %s", path, own)
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Fatalf("%d templates, %v", found, err)
	}
}
