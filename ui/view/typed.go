package view

import (
	"context"
	"html"
	"io"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// TypedBlock draws a recognized value with its parts emphasized, and text that looks like another JSON type in quotes. A value that is cut
// or has characters to look at is drawn by [ValueBlock], since these matter more.
func TypedBlock(v typed.Value, shown hostile.Value) templ.Component {
	quoted := v.IsString && v.Like != typed.Text
	if shown.Cut != nil || len(v.Spans) < 2 && !quoted || !isPlain(shown.Head) {
		return ValueBlock(shown)
	}
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		b.WriteString(`<div class="value" dir="ltr">`)
		if quoted {
			b.WriteString(`"`)
		}
		for _, s := range v.Spans {
			element := elementOf(s.Class)
			if element == "" {
				b.WriteString(html.EscapeString(s.Text))
				continue
			}
			b.WriteString("<" + element + ">" + html.EscapeString(s.Text) + "</" + element + ">")
		}
		if quoted {
			b.WriteString(`"`)
		}
		b.WriteString(`</div>`)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func isPlain(pieces []hostile.Piece) bool {
	for _, p := range pieces {
		if p.Kind != hostile.Plain && (p.Kind != hostile.Break || p.Count > 3) {
			return false
		}
	}
	return true
}

// elementOf returns the element that emphasizes a class of text: the decisive part is bold, names and keywords are colored,
// and text without effect is italic.
func elementOf(c typed.Class) string {
	switch c {
	case typed.ClassStrong, typed.ClassUserinfo:
		return "b"
	case typed.ClassKeyword, typed.ClassTag, typed.ClassHeader:
		return "strong"
	case typed.ClassComment:
		return "em"
	case typed.ClassString, typed.ClassName, typed.ClassNumber:
		return "var"
	case typed.ClassAdded:
		return "ins"
	case typed.ClassRemoved:
		return "del"
	case typed.ClassPlain, typed.ClassOperator:
	}
	return ""
}
