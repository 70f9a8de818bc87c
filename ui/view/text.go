package view

import (
	"context"
	"html"
	"io"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Flow says how line breaks and remarks are drawn.
type Flow bool

// The two flows: Block draws line breaks and says beside a suspect word why it is
// one; Inline keeps everything in its line.
const (
	Block  Flow = false
	Inline Flow = true
)

// Pieces draws pieces of text from outside. It is written by hand because no
// character may come between them.
func Pieces(pieces []hostile.Piece, flow Flow) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		for _, p := range pieces {
			piece(&b, p, flow)
		}
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func piece(b *strings.Builder, p hostile.Piece, flow Flow) {
	text, note := html.EscapeString(p.Text), html.EscapeString(p.Note)
	switch p.Kind {
	case hostile.Plain:
		written(b, p.Text)
	case hostile.Chip:
		class := "chip"
		if p.Harmless() {
			class = "chip dim"
		}
		b.WriteString(`<abbr class="` + class + `" title="` + note + `">` + text + times(p.Count) + `</abbr>`)
	case hostile.Secret:
		b.WriteString(`<span class="cut" title="` + note + `" data-testid="hidden">` + html.EscapeString(hiddenValue(p)) + `</span>`)
	case hostile.Break:
		breaks(b, p.Count, flow)
	case hostile.Suspect:
		b.WriteString(`<mark title="` + note + `">`)
		written(b, p.Text)
		b.WriteString(`</mark>`)
		if flow == Block {
			b.WriteString(`<span class="chip why">` + note + `</span>`)
		}
	}
}

// breaks draws up to three line breaks; of more it says how many there are.
func breaks(b *strings.Builder, n int, flow Flow) {
	const mark = `<abbr class="chip nl" title="line break">\n`
	end := "</abbr>\n"
	if flow == Inline {
		end = "</abbr>"
	}
	if n > 3 {
		b.WriteString(mark + times(n) + end)
		return
	}
	b.WriteString(strings.Repeat(mark+end, n))
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return " ×" + thousands(n)
}

// Text draws a text from outside within a line.
func Text(text string) templ.Component {
	return isolated(hostile.Show(text))
}

func isolated(pieces []hostile.Piece) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		if _, err := io.WriteString(w, `<bdi dir="ltr">`); err != nil {
			return err
		}
		if err := Pieces(pieces, Inline).Render(ctx, w); err != nil {
			return err
		}
		_, err := io.WriteString(w, `</bdi>`)
		return err
	})
}

// thousands writes a count so that it can be read.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plural is a count of something.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// Plural is a count of something, for those who present what is shown.
func Plural(n int, one, many string) string { return plural(n, one, many) }

// leftOut says exactly what a cut leaves out.
func leftOut(c hostile.Cut) string {
	text := plural(c.Runes, "character", "characters") + " not shown"
	if c.Lines > 0 {
		text = "+" + plural(c.Lines, "line", "lines") + ", " + text
	} else {
		text = "+" + text
	}
	if c.Opaque {
		text += " (looks like encoded data)"
	}
	return text
}

// hiddenValue says what is known of a value that is not shown.
func hiddenValue(p hostile.Piece) string {
	return "hidden (" + plural(p.Count, "character", "characters") + ", fingerprint " + p.Text + "…)"
}

// wholeOf identifies the value that a cut was made in.
func wholeOf(c hostile.Cut) string {
	return plural(c.Bytes, "byte", "bytes") + " in all, SHA-256 " + c.SHA256
}

// spaced writes a status of the API as words.
func spaced(status string) string { return strings.ReplaceAll(status, "_", " ") }

// lastOf is the end of an id, which tells it from others.
func lastOf(id string) string { return id[max(0, len(id)-6):] }
