package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The limits of the walk of a gated call. Who adds a step to it finds one to remove.
const (
	maxWalkFunctions = 60
	maxWalkFiles     = 25
)

// calledFromOutside are the functions of the walk that none of its other functions names: net/http, River, the batchers and the surfaces
// of reviewers call them.
func calledFromOutside() []string {
	return []string{"Server.guard", "exchange.servePost", "Service.writeIntake", "Service.Decide", "Service.writeOutcomes"}
}

// TestWalk holds the walk of a gated call in design.md together with the code: each function exists in its file, and is used by
// another one of the walk.
func TestWalk(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- walk -->\n")
	table, _, ended := strings.Cut(rest, "<!-- end of walk -->\n")
	if !found || !ended {
		t.Fatal("design.md has no walk of a gated call")
	}
	files := map[string]map[string]*ast.FuncDecl{}
	var steps []string
	used := map[string]bool{} // names in the bodies of the steps
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[2], " `") {
			continue // a heading
		}
		step, file := strings.Trim(cells[1], " `"), strings.Trim(cells[2], " `")
		if files[file] == nil {
			files[file] = readFunctions(t, file)
		}
		steps = append(steps, step)
		function := files[file][step]
		if function == nil {
			t.Errorf("%s has no function %s", file, step)
			continue
		}
		ast.Inspect(function.Body, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok {
				used[name.Name] = true
			}
			return true
		})
	}
	for _, step := range steps {
		name := step[strings.Index(step, ".")+1:]
		if outside := slices.Contains(calledFromOutside(), step); used[name] == outside {
			t.Errorf("%s: used by another function of the walk: %t, want %t", step, used[name], !outside)
		}
	}
	if len(steps) == 0 || len(steps) > maxWalkFunctions {
		t.Errorf("the walk has %d functions, want 1 to %d", len(steps), maxWalkFunctions)
	}
	if len(files) > maxWalkFiles {
		t.Errorf("the walk has %d files, want at most %d", len(files), maxWalkFiles)
	}
}

// readFunctions returns the functions of a file of the project; those of a type as "type.function".
func readFunctions(t *testing.T, file string) map[string]*ast.FuncDecl {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", filepath.FromSlash(file)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]*ast.FuncDecl{}
	for _, declared := range parsed.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := function.Name.Name
		if function.Recv != nil {
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if generic, ok := receiver.(*ast.IndexExpr); ok {
				receiver = generic.X
			}
			if of, ok := receiver.(*ast.Ident); ok {
				name = of.Name + "." + name
			}
		}
		functions[name] = function
	}
	return functions
}
