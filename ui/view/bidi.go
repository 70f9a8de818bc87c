package view

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
)

// writeText writes text from left to right. It isolates words in right-to-left scripts, since they would move the digits and signs after
// them, so that a path or an amount reads differently.
func writeText(b *strings.Builder, text string) {
	for text != "" {
		start, end := findRightToLeft(text)
		b.WriteString(html.EscapeString(text[:start]))
		if start < end {
			b.WriteString(`<bdi dir="rtl">` + html.EscapeString(text[start:end]) + `</bdi>`)
		}
		text = text[end:]
	}
}

// findRightToLeft returns the range of the first words in a right-to-left script that only spaces separate. If there are none, both ends
// are at the end of the text.
func findRightToLeft(text string) (start, end int) {
	start = strings.IndexFunc(text, isRightToLeft)
	if start < 0 {
		return len(text), len(text)
	}
	end = start
	for i, r := range text[start:] {
		if isRightToLeft(r) || end == start+i && unicode.IsMark(r) {
			end = start + i + utf8.RuneLen(r)
		} else if r != ' ' {
			break
		}
	}
	return start, end
}

func isRightToLeft(r rune) bool {
	if r < 0x590 {
		return false
	}
	properties, _ := bidi.LookupRune(r)
	class := properties.Class()
	return class == bidi.R || class == bidi.AL
}
