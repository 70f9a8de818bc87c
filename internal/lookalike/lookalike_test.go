package lookalike_test

import (
	"slices"
	"testing"

	"github.com/holdpoint/holdpoint/internal/lookalike"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, other string
		want        bool
	}{
		{"alice", "alice", true},
		{"alice", "Alice", true},
		{"Alice", "AIice", true},       // a capital I
		{"alice", "аlice", true},       // a Cyrillic letter
		{"ALICE", "ALΙCE", true},       // a Greek letter
		{"alice", "ali\u200Bce", true}, // a zero-width space
		{"alice", "al\u115Fice", true},
		{"alice", "alice\u2800", true},
		{"Ann Lee", "AnnLee", true},
		{"alice", "ａｌｉｃｅ", true},
		{"rn", "m", true},
		{"alice", "alicia", false},
		{"Ann", "Anna", false},
		{"\u200B", "\u115F", false}, // both are invisible
	} {
		alike := slices.ContainsFunc(lookalike.Keys(c.name), func(key string) bool { return slices.Contains(lookalike.Keys(c.other), key) })
		if alike != c.want {
			t.Errorf("%q and %q look alike: %t, want %t", c.name, c.other, alike, c.want)
		}
	}
}

func TestDrawing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, other string
		want        bool
	}{
		{"billing", "billlng", true},
		{"billing", "BILLING", true},
		{"docs", "d0cs", true},
		{"amazon", "arnazon", true},
		{"wwf", "vvwf", true},
		{"amazon", "\u0430mazon", true},
		{"docs", "dogs", false},
		{"1001", "1010", false},
	} {
		if alike := lookalike.Drawing(c.name) == lookalike.Drawing(c.other); alike != c.want {
			t.Errorf("%q and %q look alike: %t, want %t", c.name, c.other, alike, c.want)
		}
	}
	if key := lookalike.Drawing("\u200B"); key != "" {
		t.Errorf("what shows nothing has the key %q", key)
	}
}

func TestReadAsASCII(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\u0430\u0440\u0440\u04cf\u0435.com": "apple.com", "b\u00FCcher": "", "пример.рф": "", "ｄocs": "docs", "amazon": "amazon", "ma\u0131n": "main",
	} {
		if got := lookalike.ReadAsASCII(text); got != want {
			t.Errorf("%q reads as %q, want %q", text, got, want)
		}
	}
}
