package plain_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/plain"
)

func TestPage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "abcd", "abcdefghij", "äöüäöü", "aäöü€😀b", strings.Repeat("😀", 5), "a\xff\xffb"} {
		for size := 1; size < 12; size++ {
			_, pages := plain.Page(text, 1, size)
			var whole strings.Builder
			for n := 1; n <= pages; n++ {
				page, count := plain.Page(text, n, size)
				if count != pages || len(page) > max(size, 4) || page == "" && text != "" {
					t.Errorf("%q by %d: page %d of %d is %q", text, size, n, count, page)
				}
				whole.WriteString(page)
			}
			if want := strings.ToValidUTF8(text, "\uFFFD"); whole.String() != want {
				t.Errorf("%q by %d: all pages are %q", text, size, whole.String())
			}
			if page, _ := plain.Page(text, pages+1, size); page != "" {
				t.Errorf("%q by %d: beyond the end is %q", text, size, page)
			}
		}
	}
}
