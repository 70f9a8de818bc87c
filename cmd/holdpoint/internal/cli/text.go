package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Visible shows text from outside on a terminal: what cannot be seen, or does something to what is around it, is
// written as <U+202E>, and a word that may not be what it looks like has a note after it. Line breaks and tabs stay.
func Visible(s string) string { return escape(s, true) }

// cell is Visible for a place on one line.
func cell(s string) string { return escape(s, false) }

// clipped is cell for at most n characters.
func clipped(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return cell(s)
	}
	return cell(string([]rune(s)[:n-1])) + "…"
}

// escape shows what the dashboard shows, in characters.
func escape(s string, lines bool) string {
	var b strings.Builder
	for _, p := range hostile.Show(s) {
		switch p.Kind {
		case hostile.Plain, hostile.Secret:
			b.WriteString(p.Text)
		case hostile.Suspect:
			b.WriteString(p.Text + "<! " + p.Note + ">")
		case hostile.Break, hostile.Chip:
			b.WriteString(strings.Repeat(escapeChip(p.Text, lines), p.Count))
		}
	}
	return b.String()
}

// escapeChip is one character that a page shows as a chip.
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
