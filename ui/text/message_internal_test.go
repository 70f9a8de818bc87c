package text

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text/section"
)

// TestPluralForms: each language has its own plural forms, order of arguments and separators.
func TestPluralForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		language string
		message  Message
		want     string
	}{
		{"en", QueueQuestions(1), "1 question"},
		{"en", QueueQuestions(0), "0 questions"},
		{"en", QueueQuestions(12500), "12,500 questions"},
		{"de", QueueQuestions(1), "1 Frage"},
		{"de", QueueQuestions(0), "0 Fragen"},
		{"de", QueueQuestions(12500), "12.500 Fragen"},
		{"ja", QueueQuestions(1), "質問1件"},
		{"ja", QueueQuestions(12500), "質問12,500件"},
		{"en", MeasureAgo(CountdownMinutes(2, 5)), "2 min 5 s ago"},
		{"de", MeasureAgo(CountdownMinutes(2, 5)), "vor 2 Min. 5 s"},
		{"ja", MeasureAgo(CountdownMinutes(2, 5)), "2分5秒前"},
		{"en", Join(", ", Number(-1234567), Decimal(1.25, 1)), "-1,234,567, 1.2"},
		{"de", Join("; ", Exact("-1284.50"), Exact("12345678901234567.10"), Exact("128450")), "-1.284,50; 12.345.678.901.234.567,10; 128.450"},
		{"ja", Join("; ", Exact("1284.50"), Decimal(1000.25, -1)), "1,284.50; 1,000.25"},
		{"de", Join("; ", Number(-1234567), Decimal(1234.5, 1)), "-1.234.567; 1.234,5"},
	} {
		if got := test.message.In(WithLanguage(t.Context(), test.language)); got != test.want {
			t.Errorf("%s: %q, want %q", test.language, got, test.want)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 4, 15, 6, 7, 0, time.UTC)
	for language, want := range map[string]string{
		"en": "Wed 4 Mar 2026, 15:06", "de": "Mi, 4. März 2026, 15:06", "ja": "2026年3月4日(水) 15:06",
	} {
		ctx := WithLanguage(t.Context(), language)
		if got := Time(at, FormatWeekdayMinute()).In(ctx); got != want {
			t.Errorf("%s: %q, want %q", language, got, want)
		}
		c := catalogOf(ctx)
		if len(c.months) != 12 || len(c.weekdays) != 7 {
			t.Errorf("%s: %d months, %d weekdays", language, len(c.months), len(c.weekdays))
		}
	}
}

// TestAcceptedLanguage: the best language of a browser's list is chosen.
func TestAcceptedLanguage(t *testing.T) {
	t.Parallel()
	for accepted, want := range map[string]string{
		"": "en", "de": "de", "ja": "ja", "de-AT,en;q=0.5": "de", "fr,ja;q=0.8,en;q=0.1": "ja", "en-GB,de": "en", "fr-FR": "en", "*": "en", "?;q": "en",
	} {
		if got := LanguageOf(WithLanguage(t.Context(), accepted)); got != want {
			t.Errorf("%q: %s, want %s", accepted, got, want)
		}
	}
}

// TestLanguagesAreComplete: each language has all texts with their arguments, in its own plural forms.
func TestLanguagesAreComplete(t *testing.T) {
	t.Parallel()
	for _, l := range Languages()[1:] {
		problems, err := section.Compare(files, source, l.Tag)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Error(p)
		}
	}
	if _, err := readCatalogs(files); err != nil {
		t.Error(err)
	}
}

// TestCompare: each difference is found.
func TestCompare(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"en/a.yaml": {Data: []byte("A: a\nB: '{x} {y:html}'\nC:\n  one: '{n:count} c'\n  other: '{n} cs'\nD: d\n")},
		"en/b.yaml": {Data: []byte("A: a\n")},
		"de/a.yaml": {Data: []byte("A: a\nB: '{y:html} {x:text}'\nC: '{n:count} c'\nE: e\n")},
		"ja/a.yaml": {Data: []byte("A: a\nB: '{y:html} {x}'\nC:\n  one: '{n:count} c'\n  other: '{n} cs'\nD: d\n")},
		"ja/b.yaml": {Data: []byte("A: a\n")},
	}
	for folder, want := range map[string][]string{
		"de": {
			`de/a.yaml: B: arguments must be ["x:" "y:html"], not ["x:text" "y:html"]`, `de/a.yaml: C: plural forms must be ["one" "other"], not ["other"]`,
			"de/a.yaml: D: missing", "de/a.yaml: E: en does not have it", "de/b.yaml: A: missing",
		},
		"ja": {`ja/a.yaml: C: plural forms must be ["other"], not ["one" "other"]`},
		"en": nil,
	} {
		problems, err := section.Compare(files, "en", folder)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range problems {
			got = append(got, p.Error())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", folder, got, want)
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
	if err := catalogs()[source].render(t.Context(), &b, parts, []argument{{"a", "<i>"}, {"b", templ.Raw("<b>x</b>")}}); err != nil || b.String() != "&lt;&lt;i&gt;<b>x</b>" {
		t.Errorf("HTML: %q, %v", b.String(), err)
	}
}

// TestReadRefuses: an error in a file of the catalog names the text.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"A: [x]":                              "A: must be a string, or a string for each plural form",
		"A: '{n'":                             "A: {n: must be a name",
		"A: '{n:date}'":                       "A: {n:date: must be a name",
		"A: {one: x, other: y}":               "A: must have an argument {n:count}",
		"A: {other: y, one: x}":               "A: must have the form other at the end",
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

func TestZeroMessage(t *testing.T) {
	t.Parallel()
	if !(Message{}).IsZero() || Literal("a").IsZero() || Number(0).IsZero() {
		t.Error("the zero message is not empty")
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
