package plain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Quoted shows text from outside between quotation marks, invisible characters
// escaped, so that where it ends is beyond doubt. It keeps at most limit characters.
func Quoted(text string, limit int) string {
	short := clip(text, limit)
	if len(short) < len(text) {
		return strconv.QuoteToGraphic(short) + "…"
	}
	return strconv.QuoteToGraphic(short)
}

// Visible shows text of several lines from outside as it is, but for characters that cannot be seen. It keeps at most limit
// characters.
func Visible(text string, limit int) string {
	var shown strings.Builder
	for _, r := range clip(strings.ToValidUTF8(text, "\uFFFD"), limit) {
		if r == '\n' || unicode.IsGraphic(r) {
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
