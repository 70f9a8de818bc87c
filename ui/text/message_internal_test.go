package text

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text/section"
)

// TestFind: each language has its own plural forms and order of arguments.
func TestFind(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"en/a.yaml": {Data: []byte("Waiting:\n  one: '{n:count} call for {agent} waits'\n  other: '{n} calls for {agent} wait'\n")},
		"ja/a.yaml": {Data: []byte("Waiting: '{agent}: {n:count} 件'\n")},
	}
	for _, test := range []struct {
		folder string
		n      int
		want   string
	}{
		{"en", 1, "1 call for build waits"}, {"en", 12500, "12,500 calls for build wait"}, {"ja", 1, "build: 1 件"},
	} {
		c, err := readCatalog(files, test.folder)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		args := []argument{{"agent", "build"}, {"n", test.n}}
		for _, p := range c.find("a.Waiting", args) {
			b.WriteString(format(t.Context(), p, args))
		}
		if b.String() != test.want {
			t.Errorf("%s: %q, want %q", test.folder, b.String(), test.want)
		}
	}
}

// TestHTMLEscapes: only components may add HTML to a text.
func TestHTMLEscapes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Literal("a <b>").Render(t.Context(), &b); err != nil || b.String() != "a &lt;b&gt;" {
		t.Errorf("literal: %q, %v", b.String(), err)
	}
	parts := []section.Part{{Literal: "<"}, {Argument: "a"}, {Argument: "b"}}
	b.Reset()
	if err := renderParts(t.Context(), &b, parts, []argument{{"a", "<i>"}, {"b", templ.Raw("<b>x</b>")}}); err != nil || b.String() != "&lt;&lt;i&gt;<b>x</b>" {
		t.Errorf("HTML: %q, %v", b.String(), err)
	}
}

// TestReadRefuses: an error in a file of the catalog names the text.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"A: [x]":                              "A: expected a string, or a string for each plural form",
		"A: '{n'":                             "A: {n: expected a name",
		"A: '{n:date}'":                       "A: {n:date: expected a name",
		"A: {one: x, other: y}":               "A: expected an argument {n:count}",
		"A: {other: y, one: x}":               "A: expected the form other at the end",
		"A: {one: '{b}', other: '{n:count}'}": "A: {b}: the form other does not have it",
		"A: '{n:count} {n:html}'":             "elsewhere",
	} {
		if _, err := section.Read([]byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", content, err, want)
		}
	}
	if _, err := readCatalog(fstest.MapFS{"en/a.yaml": {Data: []byte("A: {single: '{n:count}', other: '{n}'}")}}, "en"); err == nil {
		t.Error("a plural form that does not exist is read")
	}
}

// TestEnglish: the catalog can be read, and texts show their arguments.
func TestEnglish(t *testing.T) {
	t.Parallel()
	if n := len(english().texts); n == 0 {
		t.Error("no texts")
	}
	if !(Message{}).IsZero() || Literal("a").IsZero() {
		t.Error("the zero message is not empty")
	}
	if got := Number(-1234567).In(t.Context()); got != "-1,234,567" {
		t.Errorf("number: %s", got)
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for _, empty := range []Message{Join(" "), Join(", ", Message{}, Literal(""))} {
		if !empty.IsZero() || empty.In(t.Context()) != "" {
			t.Errorf("a join of nothing is %q", empty.In(t.Context()))
		}
	}
	if joined := Join(", ", Literal("a"), Message{}, Literal("b")); joined.IsZero() || joined.In(t.Context()) != "a, b" {
		t.Errorf("joined %q", joined.In(t.Context()))
	}
}
