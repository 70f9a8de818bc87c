package selection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/selection"
)

func selectOf(t testing.TB, program, text string) (string, error) {
	t.Helper()
	s, err := selection.Parse(program)
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	made, err := s.Run(t.Context(), []byte(text))
	return string(made), err
}

// TestSelectGuardsChangeNothing: within the limits, guards do not change results.
func TestSelectGuardsChangeNothing(t *testing.T) {
	t.Parallel()
	const text = `{"a":[1,2,3],"b":[2],"n":7,"s":"x,y","o":{"p":{"q":1}},"i":1,"t":[[1,2],[3]],"price":9007199254740993}`
	for program, want := range map[string]string{
		".a - .b":                            "[1,3]",
		".n - 2, 10 - .n, .n-.i":             "5\n3\n6",
		".a -= .b | .a":                      "[1,3]",
		".a[] -= 1 | .a":                     "[0,1,2]",
		".n * 3, (.o * {p: {r: 2}} | .p)":    "21\n{\"q\":1,\"r\":2}",
		".n *= 3 | .n":                       "21",
		".o.p.q *= (2, 3) | .o.p.q":          "2\n3",
		".a[.i], .a[0], .[\"n\"], .a[.i:]":   "2\n1\n7\n[2,3]",
		".a[.i] = 9 | .a":                    "[1,9,3]",
		".a[.i] |= . + 1 | .a":               "[1,3,3]",
		"[paths] | length":                   "19",
		"[path(.a[.i])]":                     `[["a",1]]`,
		"del(.a[.i]) | .a":                   "[1,3]",
		".a | contains([1]), index(2)":       "true\n1",
		".s | contains(\"x\"), index(\",\")": "true\n1",
		".b | inside([1,2])":                 "true",
		".s | split(\",\"), sub(\"x\";\"z\"), [match(\"[xy]\";\"g\").string]": "[\"x\",\"y\"]\n\"z,y\"\n[\"x\",\"y\"]",
		".t | transpose": "[[1,3],[2,null]]",
		"setpath([\"o\",\"p\"]; 1).o, getpath([\"a\",1])": "{\"p\":1}\n2",
		"def contains(f): \"mine\"; contains(1)":          `"mine"`,
		".price":                                          "9007199254740993",
		"[.a[] as $x | .b[] as $y | $x - $y]":             "[-1,0,1]",
		"reduce .a[] as $x (0; . * 2 + $x)":               "11",
		"\"\\(.n - 1) of \\(.a[.i])\"":                    `"6 of 2"`,
	} {
		if made, err := selectOf(t, program, text); err != nil || made != want {
			t.Errorf("%s: %s, %v; want %s", program, made, err, want)
		}
	}
}

// TestSelectGuards: a step that would take far more memory than its input is refused.
func TestSelectGuards(t *testing.T) {
	t.Parallel()
	list := "[" + strings.TrimSuffix(strings.Repeat("0,", 5000), ",") + "]"
	text := fmt.Sprintf(`{"a":%s,"b":%s,"n":2000000000,"x":"0123456789","long":%q,"rows":[%s,%s],"at":[2000000000]}`,
		list, list, strings.Repeat(",", 70_000), list, strings.TrimSuffix(strings.Repeat("[],", 5000), ","))
	for program, want := range map[string]string{
		".a - .b":                             "at most 4000 values",
		".a - [1]":                            "at most 4000 values",
		"[1] - .b":                            "at most 4000 values",
		".a -= [1]":                           "at most 4000 values",
		"map(.) | .[0] - .[0]":                "at most 4000 values",
		".a | contains([1])":                  "at most 4000 values",
		".b as $b | [1]|inside($b)":           "at most 4000 values",
		".x * .n":                             "does not repeat texts",
		".n * .x":                             "does not repeat texts",
		".x *= .n":                            "does not repeat texts",
		"def f: .x * .n; [f]":                 "does not repeat texts",
		"{a: [.x | \"\\(. * 9)\"]}":           "does not repeat texts",
		". as $r | .a | index($r.b)":          "at most 100",
		".long as $l | .x | indices($l)":      "at most 100",
		".a[.b]":                              "is no index",
		".a[.n] = 1":                          "an index is below 1048576",
		"[][.n] |= 1":                         "an index is below 1048576",
		". as $r | [] | setpath($r.at; 1)":    "an index is below 1048576",
		". as $r | null | getpath($r.at) = 1": "an index is below 1048576",
		".rows | transpose":                   "transpose makes at most 1048576",
		".long | gsub(\",\"; \";\")":          "at most 16384 bytes",
		".long | [scan(\",\")]":               "at most 16384 bytes",
		".long | split(\",\"; null)":          "at most 16384 bytes",
		"reduce range(40) as $i (1; [., .])":  "more than 1048576 bytes",
		"reduce range(20000) as $i (1; [.])":  "nested deeper than 10000",
	} {
		if made, err := selectOf(t, program, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %.100s, %v; want %q", program, made, err, want)
		}
	}
}

func TestSelectBounds(t *testing.T) {
	t.Parallel()
	if made, err := selectOf(t, `reduce range(40) as $i ("x"; . + .) | length`, "null"); err == nil || !strings.Contains(err.Error(), "handles more than 512 MiB") {
		t.Errorf("a text that doubles each time: %s, %v", made, err)
	}
	if made, err := selectOf(t, `split(",") | length`, `"`+strings.Repeat(",", 70_000)+`"`); err != nil || made != "70001" {
		t.Errorf("a long text is split: %s, %v", made, err)
	}
	if _, err := selectOf(t, ".", `"`+strings.Repeat("x", 1<<20)+`"`); err == nil || !strings.Contains(err.Error(), "the answer is longer than 1048576 bytes") {
		t.Errorf("long input: %v", err)
	}
	s, err := selection.Parse("def f: f; f")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(over, []byte("1")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it ends with its context", err)
	}
}

func TestSelectWithinItsBudget(t *testing.T) {
	t.Parallel()
	if got, err := selectOf(t, `[.[] | "\(.)-" + (. | tostring) + @base64 "\(.)"] | sort | join(",")`, `[1,2]`); err != nil || got != `"1-1MQ==,2-2Mg=="` {
		t.Errorf("%s, %v", got, err)
	}
}
