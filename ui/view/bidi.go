package view

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
)

// written writes text in its order, from left to right. Words that are read from right to left stand in isolation:
// else they would take the digits and signs after them along, so that a path or an amount reads otherwise than it is.
func written(b *strings.Builder, text string) {
	for text != "" {
		start, end := turned(text)
		b.WriteString(html.EscapeString(text[:start]))
		if start < end {
			b.WriteString(`<bdi dir="rtl">` + html.EscapeString(text[start:end]) + `</bdi>`)
		}
		text = text[end:]
	}
}

// turned finds the first words of text that are read from right to left: from their first letter to the last,
// with nothing between them but spaces. Without any, it is at the end.
func turned(text string) (start, end int) {
	start = strings.IndexFunc(text, rightToLeft)
	if start < 0 {
		return len(text), len(text)
	}
	end = start
	for i, r := range text[start:] {
		if rightToLeft(r) || end == start+i && unicode.IsMark(r) {
			end = start + i + utf8.RuneLen(r)
		} else if r != ' ' {
			break
		}
	}
	return start, end
}

func rightToLeft(r rune) bool {
	if r < 0x590 {
		return false
	}
	properties, _ := bidi.LookupRune(r)
	class := properties.Class()
	return class == bidi.R || class == bidi.AL
}
