package view

import (
	"context"
	"html"
	"io"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Flow says how line breaks and remarks are drawn.
type Flow bool

// The two flows: Block draws line breaks and puts the reason beside a suspect word. Inline keeps everything in its line.
const (
	Block  Flow = false
	Inline Flow = true
)

// Pieces draws pieces of text from outside. It is written by hand because no character may come between them.
func Pieces(pieces []hostile.Piece, flow Flow) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var b strings.Builder
		for _, p := range pieces {
			writePiece(ctx, &b, p, flow)
		}
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func writePiece(ctx context.Context, b *strings.Builder, p hostile.Piece, flow Flow) {
	note := html.EscapeString(p.Note.In(ctx))
	switch p.Kind {
	case hostile.Plain:
		writeText(b, p.Text)
	case hostile.Chip:
		class := "chip"
		if p.Harmless() {
			class = "chip dim"
		}
		b.WriteString(`<abbr class="` + class + `" title="` + note + `">` + html.EscapeString(labelChip(ctx, p)) + formatTimes(ctx, p.Count) + `</abbr>`)
	case hostile.Secret:
		b.WriteString(`<span class="cut" title="` + note + `" data-testid="hidden">` + html.EscapeString(describeHidden(p).In(ctx)) + `</span>`)
	case hostile.Break:
		writeBreaks(ctx, b, p.Count, flow)
	case hostile.Repeat:
		b.WriteString(`<span class="cut" data-testid="repeat">` + html.EscapeString(text.ValueRepeat(p.Count).In(ctx)) + "</span>\n")
	case hostile.Anchor:
		b.WriteString(`<span id="` + html.EscapeString(p.Text) + `"></span>`)
	case hostile.Suspect:
		b.WriteString(`<mark title="` + note + `">`)
		writeText(b, p.Text)
		b.WriteString(`</mark>`)
		if flow == Block {
			class := "chip why"
			if p.Harmless() {
				class = "chip dim why"
			}
			b.WriteString(`<span class="` + class + `">` + note + `</span>`)
		}
	}
}

// labelChip returns the label of a chip, in the reader's language if it is a word.
func labelChip(ctx context.Context, p hostile.Piece) string {
	switch p.Text {
	case hostile.LabelSpace:
		return text.CharacterSpace().In(ctx)
	case hostile.LabelEmpty:
		return text.CharacterEmpty().In(ctx)
	}
	return p.Text
}

// writeBreaks draws up to three line breaks, or one with the count.
func writeBreaks(ctx context.Context, b *strings.Builder, n int, flow Flow) {
	mark := `<abbr class="chip nl" title="` + html.EscapeString(text.ValueLineBreak().In(ctx)) + `">\n`
	end := "</abbr>\n"
	if flow == Inline {
		end = "</abbr>"
	}
	if n > 3 {
		b.WriteString(mark + formatTimes(ctx, n) + end)
		return
	}
	b.WriteString(strings.Repeat(mark+end, n))
}

// formatTimes returns a count above 1, such as " ×3".
func formatTimes(ctx context.Context, n int) string {
	if n == 1 {
		return ""
	}
	return " ×" + text.Number(n).In(ctx)
}

// Text draws a text from outside within a line.
func Text(value string) templ.Component {
	return isolatePieces(hostile.Show(value))
}

func isolatePieces(pieces []hostile.Piece) templ.Component {
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

// describeCut says how much a cut leaves out.
func describeCut(c hostile.Cut) text.Message {
	cut := text.ValueCutCharacters(text.ValueCharacters(c.Runes))
	if c.Lines > 0 {
		cut = text.ValueCutLines(text.ValueLines(c.Lines), text.ValueCharacters(c.Runes))
	}
	if c.Opaque {
		return text.ValueEncoded(cut)
	}
	return cut
}

// describeHidden identifies a value that is not shown.
func describeHidden(p hostile.Piece) text.Message {
	return text.ValueHidden(text.ValueCharacters(p.Count), p.Text)
}

// describeTotal identifies the value that was cut.
func describeTotal(c hostile.Cut) text.Message { return text.ValueTotal(c.Bytes, c.SHA256) }

// nameType names the type of a field.
func nameType(t hostile.Type) text.Message {
	switch t {
	case hostile.Text:
		return text.ValueTypeText()
	case hostile.Number:
		return text.ValueTypeNumber()
	case hostile.Bool:
		return text.ValueTypeBool()
	case hostile.Null:
		return text.ValueTypeNull()
	case hostile.EmptyObject:
		return text.ValueTypeEmptyObject()
	case hostile.EmptyArray:
		return text.ValueTypeEmptyArray()
	}
	return text.Literal(string(t))
}

// Spaced writes a status of the API as words.
func Spaced(status string) string { return strings.ReplaceAll(status, "_", " ") }

// LastOf returns the end of an ID, which differs between calls.
func LastOf(id string) string { return id[max(0, len(id)-6):] }

// FirstLine begins the content of a text area. HTML drops the first line break there, which may be part of the value.
const FirstLine = "\n"

// Printable replaces invisible characters, for the title of a window, which cannot have chips.
func Printable(value string) string {
	return strings.Map(func(r rune) rune {
		if !plain.IsVisible(r) {
			return '�'
		}
		return r
	}, value)
}

// TextList draws texts from outside in one line.
func TextList(values []string) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		for i, v := range values {
			if i > 0 {
				if _, err := io.WriteString(w, ", "); err != nil {
					return err
				}
			}
			if err := Text(v).Render(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// Differing draws a known text and marks the characters in which another one differs.
func Differing(known, other string) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		a, b := []rune(known), []rune(other)
		from := 0
		for from < len(a) && from < len(b) && a[from] == b[from] {
			from++
		}
		end := 0
		for end < len(a)-from && end < len(b)-from && a[len(a)-1-end] == b[len(b)-1-end] {
			end++
		}
		for _, part := range []templ.Component{
			Text(string(a[:from])), marked(Text(string(a[from : len(a)-end]))), Text(string(a[len(a)-end:])),
		} {
			if err := part.Render(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
}
