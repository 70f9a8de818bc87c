package text_test

import (
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/a-h/templ/parser/v2"
	"github.com/a-h/templ/parser/v2/visitor"

	"github.com/holdpoint/holdpoint/ui/text"
)

// TestTemplatesHaveNoTexts: all text for people comes from the catalog.
func TestTemplatesHaveNoTexts(t *testing.T) {
	t.Parallel()
	for _, name := range list(t, ".templ") {
		file, err := parser.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		v := visitor.New()
		v.Text = func(n *parser.Text) error { return refuse(n.Value) }
		v.StringExpression = func(n *parser.StringExpression) error { return refuseLiterals(n.Expression) }
		v.ConstantAttribute = func(n *parser.ConstantAttribute) error {
			if isRead(n.Key) {
				return refuse(n.Value)
			}
			return nil
		}
		v.ExpressionAttribute = func(n *parser.ExpressionAttribute) error {
			if isRead(n.Key) {
				return refuseLiterals(n.Expression)
			}
			return nil
		}
		if err := file.Visit(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// refuse returns an error for a text that contains a word.
func refuse(value string) error {
	if word.MatchString(value) {
		return fmt.Errorf("%q: must be a text of the catalog", strings.TrimSpace(value))
	}
	return nil
}

var word = regexp.MustCompile(`\pL\pL`)

// refuseLiterals returns an error for an expression that contains a word. Arguments of calls may contain words, such as
// time formats and icon names.
func refuseLiterals(e parser.Expression) error {
	expression, err := goparser.ParseExpr(strings.TrimSpace(e.Value))
	if err != nil {
		return err
	}
	ast.Inspect(expression, func(n ast.Node) bool {
		if _, isCall := n.(*ast.CallExpr); isCall || err != nil {
			return false
		}
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, _ := strconv.Unquote(literal.Value)
			err = refuse(value)
		}
		return true
	})
	return err
}

// isRead reports whether people read the value of an attribute.
func isRead(key parser.AttributeKey) bool {
	switch key.String() {
	case "aria-label", "aria-description", "title", "placeholder", "alt":
		return true
	}
	return false
}

// TestTextsAreUsed: every text of the catalog is used.
func TestTextsAreUsed(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	var functions []string
	for _, name := range slices.Concat(list(t, ".go"), list(t, ".templ")) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(name, "_gen.go"):
			for _, match := range function.FindAllSubmatch(content, -1) {
				functions = append(functions, string(match[1]))
			}
		case !strings.HasSuffix(name, "_templ.go") && !strings.HasSuffix(name, "_test.go"):
			code.Write(content)
		}
	}
	used := map[string]bool{}
	for _, name := range strings.FieldsFunc(code.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		used[name] = true
	}
	for _, f := range functions {
		if !used[f] {
			t.Errorf("%s is not used", f)
		}
	}
}

// TestFaults: what services say is found by its text, with the values in it, and is translated. The texts are those of services.
func TestFaults(t *testing.T) {
	t.Parallel()
	german := text.WithLanguage(t.Context(), "de")
	for said, want := range map[string]string{
		"must be at most 7 names":                              "darf höchstens 7 Namen haben",
		"args has no field amuont: did you mean amount?":       "args hat kein Feld amuont: Meinten Sie amount?",
		"args has no field x":                                  "args hat kein Feld x",
		"must be allow, park or deny":                          "muss allow, park oder deny sein",
		"must be something that nobody has translated {n} yet": "must be something that nobody has translated {n} yet",
	} {
		if got := text.Fault(said).In(german); got != want {
			t.Errorf("%s: %s, want %s", said, got, want)
		}
		if got := text.Fault(said).String(); got != said {
			t.Errorf("%s: %s in English", said, got)
		}
	}
}

// TestScriptsHaveTexts: scripts use exactly the texts that they get.
func TestScriptsHaveTexts(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, name := range list(t, ".js") {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, say := range saying.FindAllString(string(content), -1) {
			for _, match := range scriptText.FindAllStringSubmatch(say, -1) {
				said[match[1]] = true
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(text.Scripts(t.Context()))); !slices.Equal(got, want) {
		t.Errorf("scripts say %q, and have %q", got, want)
	}
}

var (
	saying     = regexp.MustCompile(`\bsay\([^;]*`)
	scriptText = regexp.MustCompile(`"([A-Z]\w+)"`)
)

var function = regexp.MustCompile(`(?m)^func (\w+)\(`)

// list returns the files of ui with a suffix.
func list(t *testing.T, suffix string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
