package hostile_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// written returns a diff as text: a sign, then the line.
func written(t *testing.T, before, after string, l hostile.Limits) (string, hostile.Diff) {
	t.Helper()
	d, err := hostile.ReadDiff([]byte(before), []byte(after), l)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, line := range d.Lines {
		if line.Op == hostile.Gap {
			b.WriteString("@" + strconv.Itoa(line.Skipped) + "\n")
			continue
		}
		b.WriteString(map[hostile.DiffOp]string{hostile.Same: " ", hostile.Added: "+", hostile.Removed: "-"}[line.Op])
		for _, v := range []*hostile.Value{line.Line.Name, line.Line.Value} {
			if v != nil {
				b.WriteString(shownText(v.Head))
			}
		}
		b.WriteString(line.Line.Open + line.Line.Close + "\n")
	}
	return b.String(), d
}

func shownText(pieces []hostile.Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, before, after, want string }{
		{"the same", `{"a":1}`, `{ "a" : 1 }`, ""},
		{"a value", `{"to":"a","n":1}`, `{"to":"b","n":1}`, " {\n-\"to\"\"a\"\n+\"to\"\"b\"\n \"n\"1\n }\n"},
		{"a member at the end adds no noise", `{"a":1}`, `{"a":1,"b":2}`, " {\n \"a\"1\n+\"b\"2\n }\n"},
		{"a number that floats cannot tell apart", `[9007199254740993]`, `[9007199254740992]`, " [\n-9007199254740993\n+9007199254740992\n ]\n"},
		{"what nobody sees", `["a"]`, "[\"a\u200b\"]", " [\n-\"a\"\n+\"aU+200B\"\n ]\n"},
		{"text line by line", `{"d":"one\ntwo\nthree"}`, `{"d":"one\n2\nthree"}`, " {\n \"d\"\"\n one\\n\n-two\\n\n+2\\n\n three\n \"\n }\n"},
		{"far apart", `[1,2,3,4,5,6,7,8,9]`, `[0,2,3,4,5,6,7,8,0]`, " [\n-1\n+0\n 2\n 3\n 4\n@1\n 6\n 7\n 8\n-9\n+0\n ]\n"},
		{"from nothing", `{}`, `{"a":1}`, "-{}\n+{\n+\"a\"1\n+}\n"},
		{"the same word as name and value", `{"a":"b"}`, `{"b":"a"}`, " {\n-\"a\"\"b\"\n+\"b\"\"a\"\n }\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, _ := written(t, tt.before, tt.after, hostile.Folded()); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

// Two long values that differ only in their folded part count as different, and the diff is marked as incomplete.
func TestDiffSeesWhatIsFolded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 2000)
	_, d := written(t, `["`+long+`A`+long+`"]`, `["`+long+`B`+long+`"]`, hostile.Folded())
	if d.Added != 1 || d.Removed != 1 || !d.Folded {
		t.Errorf("added %d, removed %d, folded %v", d.Added, d.Removed, d.Folded)
	}
}

func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	many := func(word string) string { return `["` + strings.Repeat(word+`","`, 3000) + `"]` }
	_, d := written(t, many("a"), many("b"), hostile.Folded())
	if len(d.Lines) > hostile.Folded().JSONLines || d.More == 0 || !d.Folded || d.Added != 3000 {
		t.Errorf("%d lines, %d more, folded %v, %d added", len(d.Lines), d.More, d.Folded, d.Added)
	}
	if _, err := hostile.ReadDiff([]byte(`{`), []byte(`{}`), hostile.Folded()); err == nil {
		t.Error("what is no document was compared")
	}
}

// Documents with very many lines are not compared, because agents control their number.
func TestDiffOfVeryManyLines(t *testing.T) {
	t.Parallel()
	array := func(n int, one string) string { return "[" + strings.Repeat(one+",", n) + "0]" }
	for _, tt := range []struct {
		name, before, after string
		unwieldy            bool
	}{
		{"an array", array(30_000, "1"), array(3, "2"), true},
		{"the other", array(3, "1"), array(30_000, "2"), true},
		{"one text", `["` + strings.Repeat(`a\n`, 30_000) + `"]`, `["b"]`, true},
		{"nested", array(30_000, "[]"), "[]", true},
		{"the same", array(30_000, "1"), array(30_000, "1"), false},
		{"not so many", array(5000, "1"), array(5000, "2"), false},
		{"one long line", `["` + strings.Repeat("a", 300_000) + `"]`, `["b"]`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := hostile.ReadDiff([]byte(tt.before), []byte(tt.after), hostile.Folded())
			if d.Unwieldy != tt.unwieldy || errors.Is(err, hostile.ErrUnwieldy) != tt.unwieldy || tt.unwieldy && (d.Equal() || len(d.Lines) > 0) {
				t.Errorf("unwieldy %v, %v, %d lines", d.Unwieldy, err, len(d.Lines))
			}
		})
	}
}
