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
