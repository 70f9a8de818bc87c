package view

import (
	"context"
	"html"
	"io"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text"
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
	return " ×" + Thousands(n)
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

// Thousands writes a count so that it can be read.
func Thousands(n int) string { return text.GroupDigits(n) }

// Plural is a count of something.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// leftOut says exactly what a cut leaves out.
func leftOut(c hostile.Cut) string {
	text := Plural(c.Runes, "character", "characters") + " not shown"
	if c.Lines > 0 {
		text = "+" + Plural(c.Lines, "line", "lines") + ", " + text
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
	return "hidden (" + Plural(p.Count, "character", "characters") + ", fingerprint " + p.Text + "…)"
}

// wholeOf identifies the value that a cut was made in.
func wholeOf(c hostile.Cut) string {
	return Plural(c.Bytes, "byte", "bytes") + " in all, SHA-256 " + c.SHA256
}

// Spaced writes a status of the API as words.
func Spaced(status string) string { return strings.ReplaceAll(status, "_", " ") }

// LastOf is the end of an id, which tells it from others.
func LastOf(id string) string { return id[max(0, len(id)-6):] }

// FirstLine begins what is in a text area: HTML drops a line break there, which may be the value's own.
const FirstLine = "\n"
