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

// PrettyLines draws a pretty-printed document. It is written by hand because white space counts in it.
func PrettyLines(p hostile.Pretty) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<pre class="value json" dir="ltr">`)
		for _, line := range p.Lines {
			writeLine(ctx, &b, line)
		}
		b.WriteString(`</pre>`)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// diffBody draws the lines of a difference. The signs are text so that copying keeps them.
func diffBody(d hostile.Diff) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<pre class="value json diff" dir="ltr" data-testid="diff">`)
		for _, line := range d.Lines {
			switch line.Op {
			case hostile.Added:
				b.WriteString(`<ins><span class="sr">` + html.EscapeString(text.ValueAdded().In(ctx)) + ` </span>+ `)
				writeLineText(ctx, &b, line.Line)
				b.WriteString("</ins>\n")
			case hostile.Removed:
				b.WriteString(`<del><span class="sr">` + html.EscapeString(text.ValueRemoved().In(ctx)) + ` </span>- `)
				writeLineText(ctx, &b, line.Line)
				b.WriteString("</del>\n")
			case hostile.Gap:
				b.WriteString(`<i class="cut">` + html.EscapeString(text.ValueUnchanged(line.Skipped).In(ctx)) + "</i>") // a block: no line end after it
			case hostile.Same:
				b.WriteString("  ")
				writeLine(ctx, &b, line.Line)
			}
		}
		b.WriteString(`</pre>`)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func writeLine(ctx context.Context, b *strings.Builder, l hostile.Line) {
	writeLineText(ctx, b, l)
	b.WriteString("\n")
}

func writeLineText(ctx context.Context, b *strings.Builder, l hostile.Line) {
	b.WriteString(l.Indent())
	if l.Name != nil {
		writeValue(ctx, b, *l.Name, "key")
		b.WriteString(": ")
	}
	if l.Value != nil {
		writeValue(ctx, b, *l.Value, "")
	}
	b.WriteString(l.Open + l.Close)
	if l.Comma {
		b.WriteString(",")
	}
}

func writeValue(ctx context.Context, b *strings.Builder, v hostile.Value, class string) {
	b.WriteString(`<bdi dir="ltr"`)
	if class != "" {
		b.WriteString(` class="` + class + `"`)
	}
	b.WriteString(">")
	for _, p := range v.Head {
		writePiece(ctx, b, p, Inline)
	}
	if v.Cut != nil {
		b.WriteString(`<span class="cut" title="` + html.EscapeString(describeTotal(*v.Cut).In(ctx)) + `">` +
			html.EscapeString(describeCut(*v.Cut).In(ctx)) + `</span>`)
		for _, p := range v.Tail {
			writePiece(ctx, b, p, Inline)
		}
	}
	b.WriteString("</bdi>")
}
