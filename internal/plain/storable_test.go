package plain_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/internal/plain"
)

func TestStorable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "plain": "plain", "123456": "123456", "1234567": "123456…",
		"12345ä": "12345…", // no half character
		"a\x00b": "a\uFFFDb", "a\xffb": "a\uFFFDb",
	} {
		if got := plain.Storable(text, 6); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
