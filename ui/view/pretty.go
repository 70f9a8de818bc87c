package view

import (
	"context"
	"html"
	"io"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// PrettyLines draws a pretty-printed document. It is written by hand because
// white space counts in it.
func PrettyLines(p hostile.Pretty) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<pre class="value json" dir="ltr">`)
		for _, line := range p.Lines {
			prettyLine(&b, line)
		}
		b.WriteString(`</pre>`)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// diffBody draws the lines of a difference. The signs are text, so that copying keeps them.
func diffBody(d hostile.Diff) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<pre class="value json diff" dir="ltr" data-testid="diff">`)
		for _, line := range d.Lines {
			switch line.Op {
			case hostile.Added:
				b.WriteString(`<ins><span class="sr">added: </span>+ `)
				prettyText(&b, line.Line)
				b.WriteString("</ins>\n")
			case hostile.Removed:
				b.WriteString(`<del><span class="sr">removed: </span>- `)
				prettyText(&b, line.Line)
				b.WriteString("</del>\n")
			case hostile.Gap:
				b.WriteString(`<i class="cut">` + Plural(line.Skipped, "line that is the same", "lines that are the same") + "</i>") // a block: no line end after it
			case hostile.Same:
				b.WriteString("  ")
				prettyLine(&b, line.Line)
			}
		}
		b.WriteString(`</pre>`)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func prettyLine(b *strings.Builder, l hostile.Line) {
	prettyText(b, l)
	b.WriteString("\n")
}

func prettyText(b *strings.Builder, l hostile.Line) {
	b.WriteString(l.Indent())
	if l.Name != nil {
		prettyValue(b, *l.Name, "key")
		b.WriteString(": ")
	}
	if l.Value != nil {
		prettyValue(b, *l.Value, "")
	}
	b.WriteString(l.Open + l.Close)
	if l.Comma {
		b.WriteString(",")
	}
}

func prettyValue(b *strings.Builder, v hostile.Value, class string) {
	b.WriteString(`<bdi dir="ltr"`)
	if class != "" {
		b.WriteString(` class="` + class + `"`)
	}
	b.WriteString(">")
	for _, p := range v.Head {
		piece(b, p, Inline)
	}
	if v.Cut != nil {
		b.WriteString(`<span class="cut" title="` + html.EscapeString(wholeOf(*v.Cut)) + `">` +
			html.EscapeString(leftOut(*v.Cut)) + `</span>`)
		for _, p := range v.Tail {
			piece(b, p, Inline)
		}
	}
	b.WriteString("</bdi>")
}
