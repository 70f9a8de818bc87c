package plain_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/internal/plain"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"as it is":       {"plain text, ünïcode", 100, "plain text, ünïcode"},
		"empty":          {"", 1, ""},
		"cut":            {"abcdef", 3, "abc…"},
		"cut in a rune":  {"aé", 2, "a…"},
		"lines":          {"a\nb\tc\x00", 100, `a\nb\tc\x00`},
		"escape":         {"\x1b[31mred", 100, `\x1b[31mred`},
		"other way":      {"a\u202eb", 100, `a\u202eb`},
		"zero width":     {"a\u200bb", 100, `a\u200bb`},
		"not UTF-8":      {"a\xffb", 100, "a\uFFFDb"},
		"quotes stay":    {`'"`, 100, `'"`},
		"exactly enough": {"abc", 3, "abc"},
	} {
		if got := plain.Line(tc.text, tc.limit); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
