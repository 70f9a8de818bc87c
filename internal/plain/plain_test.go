package plain_test

import (
	"strings"
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
		"fillers":        {"a\u115fb\u2800\u3164\uffa0", 100, `a\u115fb\u2800\u3164\uffa0`},
		"not UTF-8":      {"a\xffb", 100, "a\uFFFDb"},
		"quotes stay":    {`'"`, 100, `'"`},
		"exactly enough": {"abc", 3, "abc"},
	} {
		if got := plain.Line(tc.text, tc.limit); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestBlankCharactersAreNotVisible: characters that fonts draw blank are rejected in any notation.
func TestBlankCharactersAreNotVisible(t *testing.T) {
	t.Parallel()
	for _, r := range "\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b\u180e\u2000\u200b\u2028\u202e\u2060\u2800\u3000\u3164" +
		"\ufe0f\ufeff\uffa0\ufffc\U00013441\U00013442\U00016fe4\U0001d159\U0001d173\U000e0041\U000e0100" {
		text := "a" + string(r) + "b"
		for how, shown := range map[string]string{
			"line": plain.Line(text, 100), "quoted": plain.Quoted(text, 100), "visible": plain.Visible(text, 100),
		} {
			if strings.ContainsRune(shown, r) {
				t.Errorf("%U as a %s is raw: %q", r, how, shown)
			}
		}
	}
	for _, r := range "a ~é漢ا😀½€й" {
		if !plain.IsVisible(r) {
			t.Errorf("%U is hidden", r)
		}
	}
	if got := plain.Quoted("say \"hi\" \\ \xff", 100); got != `"say \"hi\" \\ \xff"` {
		t.Errorf("quoted as %s", got)
	}
}
