package selection

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
)

// compileUnguarded compiles a program without guards and replacements.
func compileUnguarded(t *testing.T, program string) *gojq.Code {
	t.Helper()
	query, err := gojq.Parse(program)
	if err != nil {
		t.Fatal(err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func runProgram(code *gojq.Code, text any) (results []any, failed bool) {
	for made := code.Run(text); ; {
		result, more := made.Next()
		if !more {
			return results, false
		}
		if _, isError := result.(error); isError {
			return results, true
		}
		results = append(results, result)
	}
}

// TestSelectMatchesAsJQDoes: replacements return the results of the library's functions.
func TestSelectMatchesAsJQDoes(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a", "abc", "aXbXc", "xxa", "áéí xé", "a\nb\nc", "foo bar  baz", "ab12cd345", "日本語 テスト", "aaaa", "\U0001f600a\U0001f600"}
	patterns := []string{
		"", "a", "x*", "a*?", "a+", "(?<l>[a-z])(?<d>[0-9])?", "(a)|(b)", "^", "$", "(?m)^", "(?m)$", `\\b`, `\\B`, `\\A.`, `.\\z`, "[é-í]", "(?:a|ab)(?:c|bcd)?",
		"(?<x>a)(?<x>b)?", `\\s+`, ".", "(?s).", "b|", "|b", "()", "(x)?", `\\w+`, "(", "[", "*", "a{2}", "(?<y>X)?b",
	}
	programs := []string{
		`[match("P")]`, `[match("P"; "g")]`, `[match(["P", "gi"])]`, `test("P")`, `test("P"; "i")`, `test(["P", "g"])`, `[capture("P")]`, `[capture("P"; "g")]`, `[capture(["P"])]`,
		`[scan("P")]`, `[scan("P"; "i")]`, `[splits("P")]`, `[splits("P"; "i")]`, `split("P"; null)`, `split("P"; "g")`, `[sub("P"; "<\(.l)>")]`, `[sub("P"; "1", "2")]`,
		`[gsub("P"; "-")]`, `[gsub("P"; "-", "+\(.x)")]`, `[gsub("P"; "-"; "i")]`, `[sub("P"; "-"; "gm")]`, `[gsub("P"; empty)]`, `[gsub("P"; "a", if .x then empty else "b" end)]`,
		`[match("P"; "x")]`, `[match("P"; 1)]`, `[.[:1] | gsub("P"; .l // "?")]`, `[match("P"; null).captures]`,
	}
	for i := range programs {
		programs[i] = "try [" + programs[i] + `] catch "it fails"`
	}
	for _, pattern := range patterns {
		// One program tests each pattern, because compiling takes most of the time.
		program := "[" + strings.ReplaceAll(strings.Join(programs, ", "), "P", pattern) + "]"
		s, err := Parse(program)
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		original := compileUnguarded(t, program)
		for _, text := range texts {
			want, failed := runProgram(original, text)
			if failed {
				t.Fatalf("%q of %q fails without guards", pattern, text)
			}
			input, _ := json.Marshal(text)
			made, err := s.Run(t.Context(), input)
			if err != nil {
				t.Fatalf("%q of %q: %v", pattern, text, err)
			}
			var got, wanted []any
			check, _ := json.Marshal(want[0])
			if err := errors.Join(json.Unmarshal(made, &got), json.Unmarshal(check, &wanted)); err != nil || len(got) != len(programs) {
				t.Fatalf("%q of %q: %d results, %v", pattern, text, len(got), err)
			}
			for i := range programs {
				if !reflect.DeepEqual(got[i], wanted[i]) {
					t.Errorf("%s with %q of %q: %v, want %v", programs[i], pattern, text, got[i], wanted[i])
				}
			}
		}
	}
}

// TestSelectCollectsAsJQDoes does the same for functions that collect.
func TestSelectCollectsAsJQDoes(t *testing.T) {
	t.Parallel()
	input := []any{map[string]any{"a": 2, "b": 1}, map[string]any{"a": 1, "b": 1}, map[string]any{"a": 2, "b": 0}, map[string]any{"b": nil}}
	for _, program := range []string{
		`map(.a)`, `map(.a, .b)`, `map(empty)`, `map_values(.a)`, `{"x": 1, "y": 2} | map(. + 1)`, `add(.[].b)`, `add(empty)`, `map(.a) | add`,
		`sort_by(.a)`, `sort_by(.a, .b)`, `sort_by(-.b)`, `group_by(.a)`, `unique_by(.a)`, `min_by(.a)`, `max_by(.a)`, `[] | min_by(.)`, `[path(map(.a))]`, `map(error)`, `3 | map(.)`,
		`with_entries(.value |= .a)`, `to_entries`, `walk(if type == "number" then . + 1 else . end)`, `[.[] | to_entries | from_entries]`, `INDEX(.a)`,
	} {
		want, failed := runProgram(compileUnguarded(t, program), input)
		s, err := Parse(program)
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		text, _ := json.Marshal(input)
		made, err := s.Run(t.Context(), text)
		if failed || err != nil {
			if failed != (err != nil) {
				t.Errorf("%s: %v, and without guards it fails: %t", program, err, failed)
			}
			continue
		}
		wanted, _ := gojq.Marshal(want[0])
		if string(made) != string(wanted) {
			t.Errorf("%s: %s, want %s", program, made, wanted)
		}
	}
}

// TestSelectStepsEnd: a match ends with its context, and steps that no context can end are refused.
func TestSelectStepsEnd(t *testing.T) {
	t.Parallel()
	for _, program := range []string{
		`test("(x?x?x?x?x?x?x?x?x?x?){100}z$")`, `[match("a*b|x"; "g")]`, `sub("(x{0,300}y){0,3}z$"; "-")`, `[splits("(x?){100}(z|$)y")]`,
	} {
		s, err := Parse(program)
		if err != nil {
			t.Fatal(err)
		}
		s.budget.left.Store(maxHandled)
		s.matching.ctx = &impatient{t.Context(), 3}     //nolint:fatcontext // of another program each time
		made := s.code.Run(strings.Repeat("x", 16_000)) // without its own context
		if result, _ := made.Next(); !isCancelled(result) {
			t.Errorf("%s: %.100v, want that it was cancelled", program, result)
		}
	}
	for program, want := range map[string]string{
		`_match("a"; null; false)`: "names that begin with _", `def _f: 1; _f`: "names that begin with _", `[.[] | {a: _multiply("x"; 9)}]`: "names that begin with _",
		`"\(_add(1; 2))"`: "names that begin with _", `if . then _index(.; 1) else . end`: "names that begin with _", `_holdpoint_match("a"; null; true)`: "names that begin with _",
	} {
		if _, err := Parse(program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", program, err)
		}
	}
	for program, want := range map[string]string{
		`test("((((x{200}){5})` + strings.Repeat("a{1000}", 20) + `)y)")`:   "at most 20000 steps",
		`test("` + strings.Repeat("()", 101) + `")`:                         "100 groups",
		`test("` + strings.Repeat("x", maxPattern/2) + `" + . + .)`:         "at most 8192 bytes",
		`[match("()()()()()()()()()()()()()()()()()()()()"; "g")] | length`: "", // within the limits
		`reduce range(30) as $i (7; . * .)`:                                 "at most 65536 bits",
		`tonumber`:                                                          "at most 1000", `fromjson`: "at most 1000",
	} {
		s, err := Parse(program)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(strings.Repeat("1", 4000))
		if _, err = s.Run(t.Context(), text); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.100s: %v, want %q", program, err, want)
		}
	}
}

func isCancelled(result any) bool {
	err, failed := result.(error)
	return failed && errors.Is(err, context.Canceled)
}

// impatient is a context that is canceled after a number of checks.
type impatient struct {
	context.Context
	checks int
}

func (c *impatient) Err() error {
	if c.checks--; c.checks < 0 {
		return context.Canceled
	}
	return nil
}
