package plain

import (
	"strings"
	"unicode/utf8"
)

// Page is the nth page, from 1 on, of a text that is cut into pages of at most size bytes between characters, and how many there are. A page
// that there is none of is empty. What is not UTF-8 is replaced.
func Page(text string, n, size int) (page string, pages int) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for from := 0; from < len(text) || pages == 0; {
		to := min(from+size, len(text))
		for to < len(text) && to > from && !utf8.RuneStart(text[to]) {
			to--
		}
		if to == from && to < len(text) { // a page holds at least one character
			_, width := utf8.DecodeRuneInString(text[from:])
			to += width
		}
		if pages++; pages == n {
			page = text[from:to]
		}
		from = to
	}
	return page, pages
}
