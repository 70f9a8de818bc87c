package audit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestActionsAreListed(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "action.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil || audit.Action(text).About() == "" {
				t.Errorf("%s is not in Action.About: %v", spec.Names[0].Name, err)
			}
			count++
		}
		return true
	})
	if count < 90 {
		t.Errorf("action.go has %d constants", count)
	}
}

func TestUnknownActionIsRefused(t *testing.T) {
	t.Parallel()
	event := audit.Event{Actor: audit.System(), Action: "call.lost", Subject: uuid.New()}
	err := postgres.InTx(t.Context(), postgrestest.New(t).Pool(), func(tx pgx.Tx) error { return audit.Write(t.Context(), tx, event) })
	for _, err := range []error{err, audit.Queue(&pgx.Batch{}, event), audit.Queue(&pgx.Batch{}, event, event, event, event, event)} {
		if err == nil || !strings.Contains(err.Error(), `action "call.lost" is unknown`) {
			t.Errorf("recorded an unknown action: %v", err)
		}
	}
}

// TestActionsAreConstants finds actions that production code spells out in Go or SQL. Types of callback messages look
// the same but have their own constants.
func TestActionsAreConstants(t *testing.T) {
	t.Parallel()
	quoted := regexp.MustCompile(`'([a-z_]+\.[a-z_]+)'`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "../../internal/audit/action.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				return n.Type == nil
			case *ast.BasicLit:
				literal, err := strconv.Unquote(n.Value)
				if n.Kind != token.STRING || err != nil {
					break
				}
				for _, found := range append(quoted.FindAllStringSubmatch(literal, -1), []string{"", literal}) {
					if audit.Action(found[1]).About() != "" {
						t.Errorf("%s: use the constant of package audit for %q", set.Position(n.Pos()), found[1])
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
