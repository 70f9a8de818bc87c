// Package docs_test holds the pictures of the documentation together with the code.
package docs_test

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run ^TestArchitecture$ . -update

var update = flag.Bool("update", false, "write the picture into design.md")

const module = "github.com/holdpoint/holdpoint/"

// TestArchitecture holds the picture of the packages in design.md together with the imports of the code.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{} // of rooms
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		from := roomOf(paths[0])
		if from == "" {
			continue
		}
		for _, path := range paths[1:] {
			if to := roomOf(path); to != "" && to != from && !slices.Contains(imports[from], to) {
				imports[from] = append(imports[from], to)
			}
		}
	}
	const begin, end = "<!-- packages -->\n", "<!-- end of packages -->\n"
	text, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("design.md has no section of packages")
	}
	want := drawImports(imports)
	if *update {
		if err := os.WriteFile("design.md", []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if shown != want {
		t.Error("design.md does not show the packages as they are: go generate ./docs")
	}
}

// roomOf returns the name of a package in the picture: a package of runtime by itself, any other with its subpackages. Empty: the
// package is not shown.
func roomOf(path string) string {
	path, ours := strings.CutPrefix(path, module)
	parts := strings.Split(path, "/")
	switch {
	case !ours || slices.Contains([]string{"internal", "e2e", "bench", "migrations", "docs"}, parts[0]):
		return ""
	case parts[0] == "runtime" && len(parts) > 1:
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// drawImports draws imports as a Mermaid flowchart, without those that follow from others.
func drawImports(imports map[string][]string) string {
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return slices.ContainsFunc(imports[from], func(next string) bool { return next == to || reaches(next, to) })
	}
	var lines []string
	for from, list := range imports {
		for _, to := range list {
			if !slices.ContainsFunc(list, func(other string) bool { return other != to && reaches(other, to) }) {
				lines = append(lines, "    "+from+" --> "+to+"\n")
			}
		}
	}
	slices.Sort(lines)
	return "```mermaid\nflowchart TD\n" + strings.Join(lines, "") + "```\n"
}
