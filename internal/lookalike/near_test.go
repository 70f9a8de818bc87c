package lookalike_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/internal/lookalike"
)

func TestIsNear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, known string
		want         bool
	}{
		{"arnazon.com", "amazon.com", true},
		{"billlng@acme.com", "billing@acme.com", true},
		{"billіng@acme.com", "billing@acme.com", true}, // a Cyrillic letter
		{"acme.com", "acme.com", false},
		{"INV-1002", "INV-1001", false},
		{"21", "12", false},
		{"/data/b.csv", "/data/a.csv", false},
		{"Acme.com", "acme.com", false},
		{"", "a", false},
		{"d0cs", "docs", true},
		{"acc-1OO1", "acc-1001", true},
		{"ama\u200bzon", "amazon", true},
		{"amazing", "amazon", false},
		{"\u200b", "amazon", false},
	} {
		if got := lookalike.IsNear(c.value, c.known); got != c.want {
			t.Errorf("%q is near %q: %t, want %t", c.value, c.known, got, c.want)
		}
	}
}

func TestIsSwapped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, known string
		want         bool
	}{
		{"DE89370400440532013495", "DE89370400440532013459", true},
		{"DE89370400440532013459", "DE89370400440532013459", false},
		{"DE89370400440532013594", "DE89370400440532013459", false},
		{"21", "12", false},
	} {
		if got := lookalike.IsSwapped(c.value, c.known); got != c.want {
			t.Errorf("%q is %q with two characters swapped: %t, want %t", c.value, c.known, got, c.want)
		}
	}
}
