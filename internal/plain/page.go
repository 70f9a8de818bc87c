package plain

import (
	"strings"
	"unicode/utf8"
)

// Page cuts a text into pages of at most size bytes, between characters. It returns page n, counted from 1, and the number of
// pages. A page that does not exist is empty. Invalid UTF-8 is replaced.
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
