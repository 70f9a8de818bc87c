package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible shows text from outside on a terminal: what cannot be seen, or does
// something to what is around it, is written as <U+202E>. Line breaks and tabs stay.
func Visible(s string) string {
	return escape(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

// cell is Visible for a place on one line.
func cell(s string) string { return escape(s, func(rune) bool { return false }) }

// clipped is cell for at most n characters.
func clipped(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return cell(s)
	}
	return cell(string([]rune(s)[:n-1])) + "…"
}

func escape(s string, stays func(rune) bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && isInvalid(s[i:]):
			fmt.Fprintf(&b, "<0x%02X>", s[i])
		case stays(r), !hidden(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

func isInvalid(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size == 1
}

// hidden reports whether a character is not plainly there to be seen: controls, bidi and
// format characters, separators other than the space, fillers, private ones
// and those that only change others.
func hidden(r rune) bool {
	if r == ' ' {
		return false
	}
	return !unicode.IsGraphic(r) || unicode.In(r, unicode.Zs, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800'
}
