package plain

import "strings"

// Storable returns a text that PostgreSQL can store: it replaces invalid UTF-8 and NUL, and cuts the text after limit bytes.
func Storable(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return strings.ReplaceAll(text, "\x00", "\uFFFD")
}
