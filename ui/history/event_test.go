package history_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/ui/history"
	"github.com/holdpoint/holdpoint/ui/text"
)

// Each action has the sentence with its name.
func TestEveryActionHasASentence(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../text/en/event.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sentences := map[string]string{}
	if err := yaml.Unmarshal(content, &sentences); err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../internal/audit/action.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{who:html}", "Jonas", "{what:html}", "files: write (billing)")
	count := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		action, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		sentence := history.DescribeEvent(audit.Action(action), text.Literal("Jonas"), text.Literal("files: write (billing)"))
		if err := sentence.Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if want := fill.Replace(sentences[spec.Names[0].Name]); b.String() != want || want == "" {
			t.Errorf("%s: %q, want %q", action, b.String(), want)
		}
		count++
		return true
	})
	if count < 90 {
		t.Errorf("%d actions", count)
	}
}
