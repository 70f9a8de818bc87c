// Package plain owns the cleaning of text from outside for messages: it limits its length, and escapes characters that a
// terminal, a log or a page would not show.
package plain

import (
	"strconv"
	"strings"
)

// Line returns at most limit bytes of a text, with invisible characters escaped.
func Line(s string, limit int) string {
	cut := ""
	if len(s) > limit {
		s, cut = strings.ToValidUTF8(s[:limit], ""), "…"
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	var b strings.Builder
	for _, r := range s {
		writeRune(&b, r)
	}
	return b.String() + cut
}

// writeRune writes a character, or its escape if it cannot be seen.
func writeRune(b *strings.Builder, r rune) {
	if IsVisible(r) {
		b.WriteRune(r)
		return
	}
	b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
}
