package plain

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Quoted shows text from outside between quotation marks, invisible characters
// escaped, so that where it ends is beyond doubt. It keeps at most limit characters.
func Quoted(text string, limit int) string {
	short := clip(text, limit)
	var quoted strings.Builder
	quoted.WriteByte('"')
	for i, r := range short {
		switch _, size := utf8.DecodeRuneInString(short[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&quoted, `\x%02x`, short[i])
		case r == '"', r == '\\':
			quoted.WriteByte('\\')
			quoted.WriteRune(r)
		default:
			writeRune(&quoted, r)
		}
	}
	quoted.WriteByte('"')
	if len(short) < len(text) {
		quoted.WriteString("…")
	}
	return quoted.String()
}

// Visible shows text of several lines from outside as it is, but for characters that cannot be seen. It keeps at most limit
// characters.
func Visible(text string, limit int) string {
	var shown strings.Builder
	for _, r := range clip(strings.ToValidUTF8(text, "\uFFFD"), limit) {
		if r == '\n' || IsVisible(r) {
			shown.WriteRune(r)
		} else {
			fmt.Fprintf(&shown, `\u{%x}`, r)
		}
	}
	return shown.String()
}

// clip keeps the first characters of a text.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for i := range text {
		if limit == 0 {
			return text[:i]
		}
		limit--
	}
	return text
}
