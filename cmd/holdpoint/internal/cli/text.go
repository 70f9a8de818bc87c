package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Visible makes text from outside safe for a terminal: hidden and control characters are written as <U+202E>, and
// look-alike words have a note after them. Line breaks and tabs stay.
func Visible(s string) string { return escapeText(s, true) }

// escapeCell is [Visible] for text on one line.
func escapeCell(s string) string { return escapeText(s, false) }

// clipCell is [escapeCell] for at most n characters.
func clipCell(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return escapeCell(s)
	}
	return escapeCell(string([]rune(s)[:n-1])) + "…"
}

// escapeText escapes the same characters as the dashboard.
func escapeText(s string, lines bool) string {
	var b strings.Builder
	for _, p := range hostile.Show(s) {
		switch p.Kind {
		case hostile.Plain, hostile.Secret:
			b.WriteString(p.Text)
		case hostile.Suspect:
			b.WriteString(p.Text + "<! " + p.Note.String() + ">")
		case hostile.Break, hostile.Chip:
			b.WriteString(strings.Repeat(escapeChip(p.Text, lines), p.Count))
		case hostile.Repeat, hostile.Anchor: // only in the dashboard's long values
		}
	}
	return b.String()
}

// escapeChip writes a character that a page shows as a chip.
func escapeChip(label string, lines bool) string {
	switch {
	case label == "space":
		return " "
	case label == `\n` && lines:
		return "\n"
	case label == `\t` && lines:
		return "\t"
	case label == `\n`:
		return "<U+000A>"
	case label == `\t`:
		return "<U+0009>"
	case label == `\r`:
		return "<U+000D>"
	case strings.HasPrefix(label, `\x`):
		return "<0x" + label[2:] + ">"
	}
	return "<" + label + ">"
}
