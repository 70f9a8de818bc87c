package manifest_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
)

// TestWriteReadsBack: a written text is read back as it was, also one that YAML would take for something else.
func TestWriteReadsBack(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", " ", "a", "a b", "5", "007", "0x10", "1e3", "1_000", ".5", "-", "- a", "a: b", "a #b", "#a", "true", "Yes", "null", "~", "a\tb", "\ta", "a\n", "a\nb", "a\nb\n",
		"a\n\nb\n", "a\nb\n\n", "\na\nb", "a\n  b\nc", "  a\nb", "a \nb", "a\r\nb", "a\nb\tc", "{env: X}", "[a]", "*a", "&a", "!a", "|", ">", "%a", "@a", "`a`", `"`, `'`, `\`, `\n`,
		"\u2028", "a\u2028b\nc", "\u0085", "\ufeff", "a\x1b[0m", "\x7f", "é\nü", "日本", "😀", "a\n# b\n---\n...\nb", "<<", "=", "a,b", "a]", "2026-01-01", "12:30", "key: |\n  text", strings.Repeat("long ", 100),
	}
	for _, text := range texts {
		spec := map[string]any{"agents": []any{map[string]any{
			"name": text, "instructions": text, "skills": []any{map[string]any{"skill": text}, map[string]any{"skill": "s", "tools": []any{text, "x"}, "prefix": ""}},
		}}, "skills": []any{map[string]any{
			"command": []any{text, text, "x"}, "tools": map[string]any{text: map[string]any{"risk": text}},
			"endpoints": []any{map[string]any{"input_schema": map[string]any{"const": text, "x" + text: []any{text, map[string]any{"a": nil}, []any{}}}}},
		}}}
		encoded, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		written, err := manifest.Write(encoded, nil)
		if err != nil {
			t.Fatal(err)
		}
		read, err := manifest.Parse("f.yaml", written, options())
		if err != nil {
			t.Errorf("%q: %v\n%s", text, err, written)
			continue
		}
		if got := decode(t, read.Spec); !reflect.DeepEqual(got, decode(t, encoded)) {
			t.Errorf("%q was read as\n%s\nfrom\n%s", text, read.Spec, written)
		}
	}
}

// TestWriteNumbers: no digit of a number in a schema is lost.
func TestWriteNumbers(t *testing.T) {
	t.Parallel()
	const spec = `{"skills":[{"endpoints":[{"input_schema":{"enum":[1,1.0,-0.5,9007199254740993,1e3,1E+2,2.5e-7,12345678901234567890123]}}]}]}`
	written, err := manifest.Write([]byte(spec), nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := manifest.Parse("f.yaml", written, options())
	if err != nil || string(read.Spec) != spec {
		t.Errorf("%v\n%s\nfrom\n%s", err, read.Spec, written)
	}
}

// TestTornFiles: a part that is no YAML does not hide the errors of the others.
func TestTornFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"skills:\n  - name: [a\n  - nam: b\nagents:\n  - x: 1\n":                       {"f.yaml:3:3: ", "f.yaml:3:5: ", "f.yaml:5:5: "},
		"skills:\n  - name: 'a\n  - nam: b\n":                                          {"f.yaml:2:11: ", "f.yaml:3:5: "},
		"skills:\n- name: a\n  name: b\n- nam: c\n":                                    {"f.yaml:3:", "f.yaml:4:3: "},
		"skills:\n  - name: a\n   url: x\n  - nam: b\n":                                {"f.yaml:", "f.yaml:4:5: "},
		"agents: [{name: a]\nskills:\n  - nam: b\n":                                    {"f.yaml:1:", "f.yaml:3:5: "},
		"agents:\n  - name: a\n    model:\n      name: b\n      name: c\n  - nam: d\n": {"f.yaml:5:", "f.yaml:6:5: "},
	} {
		m, wrong := manifest.ParseFiles([]manifest.File{{Name: "f.yaml", Text: []byte(text)}}, options())
		if len(wrong) != len(want) || !m.Torn {
			t.Errorf("%s\nerrors:\n%v\nwant %v", text, wrong, want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(wrong[i].Error(), want[i]) {
				t.Errorf("%s\nerror %v, want %s", text, wrong[i], want[i])
			}
		}
	}
}
