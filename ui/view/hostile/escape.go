package hostile

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// Escape writes the characters of a JSON text that nobody would see as JSON's own escapes, which stand for the same within
// strings. It leaves white space between values alone.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || visible(r):
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
