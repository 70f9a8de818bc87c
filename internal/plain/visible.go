package plain

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Quoted returns text from outside in quotation marks, with invisible characters escaped, so that its end is clear. It keeps
// at most limit characters.
func Quoted(text string, limit int) string {
	short := clipText(text, limit)
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

// Visible returns text of several lines from outside with invisible characters escaped. It keeps at most limit characters.
func Visible(text string, limit int) string {
	var shown strings.Builder
	for _, r := range clipText(strings.ToValidUTF8(text, "\uFFFD"), limit) {
		if r == '\n' || IsVisible(r) {
			shown.WriteRune(r)
		} else {
			fmt.Fprintf(&shown, `\u{%x}`, r)
		}
	}
	return shown.String()
}

// clipText keeps the first characters of a text.
func clipText(text string, limit int) string {
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
