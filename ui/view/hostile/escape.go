package hostile

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// Escape replaces the invisible characters of a JSON text by JSON escapes, which mean the same within strings. It keeps line breaks.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || isVisible(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
