// Package plain owns how text from outside becomes fit for a message: one line, bounded, with
// nothing in it that a terminal, a log or a page would not show.
package plain

import (
	"strconv"
	"strings"
)

// Line is at most limit bytes of a text, with what is invisible or unprintable written as an escape.
func Line(s string, limit int) string {
	cut := ""
	if len(s) > limit {
		s, cut = strings.ToValidUTF8(s[:limit], ""), "…"
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String() + cut
}
