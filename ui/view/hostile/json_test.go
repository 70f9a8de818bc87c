package hostile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func drawnValue(v hostile.Value) string {
	text := drawn(v.Head)
	if v.Cut != nil {
		text += fmt.Sprintf("…+%d lines, %d characters…", v.Cut.Lines, v.Cut.Runes) + drawn(v.Tail)
	}
	return text
}

func drawnFields(fields hostile.Fields) string {
	var b strings.Builder
	for _, f := range fields.List {
		fmt.Fprintf(&b, "%s (%s) = %s\n", drawnValue(f.Path), f.Type, drawnValue(f.Value))
	}
	return b.String()
}

func drawnPretty(p hostile.Pretty) string {
	var b strings.Builder
	for _, l := range p.Lines {
		b.WriteString(l.Indent())
		if l.Name != nil {
			b.WriteString(drawnValue(*l.Name) + ": ")
		}
		if l.Value != nil {
			b.WriteString(drawnValue(*l.Value))
		}
		b.WriteString(l.Open + l.Close)
		if l.Comma {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	return b.String()
}

const order = `{"to":"a@b.c","amount":9007199254740993,"rate":1e400,"debt":-0,"really":true,"none":null,` +
	`"rows":[{"a.b":"x","":1},[],{}],"say \"hi\"":"\u202e"}`

func TestReadFields(t *testing.T) {
	t.Parallel()
	fields, err := hostile.ReadFields([]byte(order), hostile.Folded())
	if err != nil {
		t.Fatal(err)
	}
	want := `to (text) = a@b.c
amount (number) = 9007199254740993
rate (number) = 1e400
debt (number) = -0
really (true or false) = true
none (null) = null
rows[0]["a.b"] (text) = x
rows[0][""] (number) = 1
rows[1] (empty list) = []
rows[2] (empty object) = {}
["say \"hi\""] (text) = ‹U+202E›
`
	if got := drawnFields(fields); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if fields.Folded || fields.Hidden != 1 {
		t.Errorf("folded %v, hidden %d; want false, 1", fields.Folded, fields.Hidden)
	}
}

func TestReadPretty(t *testing.T) {
	t.Parallel()
	pretty, err := hostile.ReadPretty([]byte(`{"to":"a\"b\\c\nd","n":[1e400,-0,[],{}],"":""}`), hostile.Folded())
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "to": "a\"b\\c‹\n›d",
  "n": [
    1e400,
    -0,
    [],
    {}
  ],
  "": ""
}
`
	if got := drawnPretty(pretty); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestReadSurvivesWhatTheDoorRefuses(t *testing.T) {
	t.Parallel()
	for _, document := range []string{`{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`} {
		if _, err := hostile.ReadFields([]byte(document), hostile.Folded()); err != nil {
			t.Errorf("fields of %q: %v", document, err)
		}
		if _, err := hostile.ReadPretty([]byte(document), hostile.Folded()); err != nil {
			t.Errorf("pretty %q: %v", document, err)
		}
	}
	for _, document := range []string{``, `{`, `{"a":}`, `[1,2`, `"`, `{"a"`} {
		if _, err := hostile.ReadFields([]byte(document), hostile.Folded()); err == nil {
			t.Errorf("fields of %q: no error", document)
		}
		if _, err := hostile.ReadPretty([]byte(document), hostile.Folded()); err == nil {
			t.Errorf("pretty %q: no error", document)
		}
	}
}

func TestFoldCountsExactly(t *testing.T) {
	t.Parallel()
	text := "first" + strings.Repeat("\n", 412) + "rm -rf /"
	v := hostile.Fold(text, hostile.Folded())
	if v.Cut == nil {
		t.Fatal("newline padding is not folded")
	}
	if got := v.Cut.Lines + newlines(v.Head) + newlines(v.Tail); got != 412 {
		t.Errorf("%d line breaks accounted for, want 412", got)
	}
	if !strings.Contains(drawn(v.Tail), "rm -rf /") {
		t.Errorf("tail %q does not show the end", drawn(v.Tail))
	}
	sum := sha256.Sum256([]byte(text))
	if v.Cut.SHA256 != hex.EncodeToString(sum[:]) || v.Cut.Bytes != len(text) {
		t.Errorf("cut %+v, want the digest and length of the whole", v.Cut)
	}
	if whole := hostile.Fold(text, hostile.Limits{}); whole.Cut != nil {
		t.Error("without limits something is cut")
	}
}

func newlines(pieces []hostile.Piece) int {
	n := 0
	for _, p := range pieces {
		if p.Kind == hostile.Break {
			n += p.Count
		}
	}
	return n
}

func TestFoldEncodedData(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("QUJDRA12", 9) + "+/89"
	for _, tt := range []struct {
		name, text string
		opaque     bool
	}{
		{"base64", strings.Repeat(line, 3), true},
		{"wrapped base64", line + "\n" + line + "\n" + line + "\nQQ==", true},
		{"data URL", "data:image/png;base64," + strings.Repeat(line, 3), true},
		{"hexadecimal", strings.Repeat("00ff", 60), true},
		{"short", "QUJDRA12", false},
		{"prose", strings.Repeat("it was a dark night in 1830 ", 7), false},
		{"list of names", strings.Repeat("row1\nline22\n", 18), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := hostile.Fold(tt.text, hostile.Folded())
			if got := v.Cut != nil && v.Cut.Opaque; got != tt.opaque {
				t.Errorf("opaque %v, want %v", got, tt.opaque)
			}
		})
	}
}

func TestHiddenCharactersCountWhereFolded(t *testing.T) {
	t.Parallel()
	v := hostile.Fold(strings.Repeat("word ", 2000)+"\u202e"+strings.Repeat(" more", 2000), hostile.Folded())
	if f := v.Findings(); f.Hidden != 1 {
		t.Errorf("hidden %d, want 1", f.Hidden)
	}
}

func TestFieldsAreBounded(t *testing.T) {
	t.Parallel()
	document := `[` + strings.Repeat(`1,`, 499) + `1]`
	fields, err := hostile.ReadFields([]byte(document), hostile.Folded())
	if err != nil || !fields.Folded || len(fields.List)+fields.More != 500 {
		t.Errorf("%d fields and %d more, folded %v, %v", len(fields.List), fields.More, fields.Folded, err)
	}
	all, err := hostile.ReadFields([]byte(document), hostile.Limits{})
	if err != nil || all.Folded || len(all.List) != 500 {
		t.Errorf("%d fields, folded %v, %v; want all", len(all.List), all.Folded, err)
	}
	deep := strings.Repeat(`{"`+strings.Repeat("k", 200)+`":`, 400) + `[` + strings.Repeat(`1,`, 5000) + `1]` + strings.Repeat(`}`, 400)
	if _, err := hostile.ReadFields([]byte(deep), hostile.Limits{}); !errors.Is(err, hostile.ErrUnwieldy) {
		t.Errorf("deep document: %v, want ErrUnwieldy", err)
	}
	if pretty, err := hostile.ReadPretty([]byte(deep), hostile.Limits{}); err != nil || pretty.Folded {
		t.Errorf("deep document: %v, folded %v", err, pretty.Folded)
	}
}

func TestReadResult(t *testing.T) {
	t.Parallel()
	result, err := hostile.ReadResult([]byte(`{"content":[{"type":"text","text":"saved \u202e"},
		{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"odd","x":1}],"structuredContent":{"n":1e400}}`), hostile.Folded())
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Blocks) != 3 || drawnValue(*result.Blocks[0].Text) != "saved‹space›‹U+202E›" && drawnValue(*result.Blocks[0].Text) != "saved ‹U+202E›" {
		t.Fatalf("blocks %+v", result.Blocks)
	}
	if b := result.Blocks[1]; b.Bytes != 2 || drawnValue(*b.MIME) != "image/png" || len(b.SHA256) != 64 {
		t.Errorf("image %+v", b)
	}
	if result.Blocks[2].Other == nil || result.Structured == nil || !strings.Contains(drawnPretty(*result.Structured), "1e400") {
		t.Errorf("rest %+v", result)
	}
	if result.Hidden != 1 {
		t.Errorf("hidden %d, want 1", result.Hidden)
	}
	if _, err := hostile.ReadResult([]byte(`[1]`), hostile.Folded()); err == nil {
		t.Error("a list was read as a result")
	}
}

func TestDecisive(t *testing.T) {
	t.Parallel()
	document := `{"encoding":"utf-8","content":"hello","path":"/srv/a.txt","password":"hunter2","options":{"deep":{"path":"x"}}}`
	fields := hostile.Decisive([]byte(document), 2, hostile.Brief())
	if len(fields.List) != 2 || fields.List[0].Name != "path" || fields.List[0].Depth != 1 || fields.More != 3 {
		t.Errorf("fields %+v", fields)
	}
	for _, f := range fields.List {
		if f.Name == "password" {
			t.Error("a password is in the list")
		}
	}
}

// A list reads only the beginning of a document, however long it is.
func TestDecisiveReadsNoMoreThanItSays(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"a":[{"b":"\u202e"},[],{}],`, 5000)
	limits := hostile.Brief()
	limits.Secrets = secretfield.New(nil, []byte(`{"properties":{"first":{"writeOnly":true}}}`))
	fields := hostile.Decisive([]byte(`{"path":"p","first":"s",`+many+`"z":1}`), 2, limits)
	if len(fields.List) != 2 || fields.List[0].Name != "path" || fields.More != 101-2 || fields.Hidden != 33 {
		t.Errorf("%d shown, %d more, %d hidden characters: %s", len(fields.List), fields.More, fields.Hidden, drawnFields(fields))
	}
	// The last secret within the limit is hidden too.
	limits.Secrets = secretfield.New(nil, []byte(declared))
	secret := hostile.Decisive([]byte(`{`+strings.Repeat(`"n":1,`, 99)+`"token":"s","token":"t"}`), 100, limits)
	for _, f := range secret.List {
		if f.Name == "token" {
			t.Error("a token is in the list")
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	found, err := hostile.Find([]byte(`{"\u200b":[` + strings.Repeat(`"\u202e",1,`, 3000) + `"p\u0430y"]}`))
	if err != nil || found.Hidden != 3001 || found.Suspect != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := hostile.Find([]byte(`{`)); err == nil {
		t.Error("what is no document was read")
	}
}
