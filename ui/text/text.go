// Package text is the catalog of the dashboard's texts. Each YAML file in the folder of a language is a section; each text of the
// English files becomes a function that returns a [Message] or, if the text has HTML in it, a [templ.Component].
//
// A text is a string, or one string for each plural form of the language ("one", "other", …). It takes arguments in braces:
//
//	{name}         a string, shown as it is
//	{n:count}      an int, which selects the plural form
//	{n:number}     an int
//	{label:text}   a [Message]
//	{tool:html}    a [templ.Component]
//
// A brace itself is written twice. The texts of script.yaml are for scripts, which get them by [Scripts], and have no functions.
// The package knows neither the pages nor the values that they show.
package text

//go:generate go run ./generate

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text/section"
)

// Message is a text in the language of its reader, chosen when it is rendered. The zero value is no text.
type Message struct {
	key     string
	args    []argument
	literal string
	joined  []Message // with literal between them
}

// argument is an argument of a text: a string, int, Message or [templ.Component].
type argument struct {
	name  string
	value any
}

// valueOf returns the value of an argument, or nil.
func valueOf(name string, args []argument) any {
	for _, a := range args {
		if a.name == name {
			return a.value
		}
	}
	return nil
}

// Literal returns a message that reads the same in every language, such as a name.
func Literal(s string) Message { return Message{literal: s} }

// Join returns a message that has several, with a separator between them. Without any, it is the zero value.
func Join(separator string, messages ...Message) Message {
	messages = slices.DeleteFunc(messages, Message.IsZero)
	if len(messages) == 0 {
		return Message{}
	}
	return Message{literal: separator, joined: messages}
}

// Number returns a message that is only a number, such as "12,500".
func Number(n int) Message { return Literal(GroupDigits(n)) }

// IsZero reports whether the message is no text.
func (m Message) IsZero() bool {
	return m.key == "" && m.literal == "" && m.joined == nil
}

// In returns the text in the language of the page that ctx renders.
func (m Message) In(ctx context.Context) string {
	if m.key == "" && m.joined == nil {
		return m.literal
	}
	var b strings.Builder
	for i, one := range m.joined {
		if i > 0 {
			b.WriteString(m.literal)
		}
		b.WriteString(one.In(ctx))
	}
	for _, p := range english().find(m.key, m.args) {
		b.WriteString(format(ctx, p, m.args))
	}
	return b.String()
}

// Render writes the text as HTML, as a [templ.Component].
func (m Message) Render(ctx context.Context, w io.Writer) error {
	_, err := io.WriteString(w, templ.EscapeString(m.In(ctx)))
	return err
}

// newMessage returns the message of a key.
func newMessage(key string, args ...argument) Message { return Message{key: key, args: args} }

// newHTML returns the component of a key: its text, in which some arguments are components.
func newHTML(key string, args ...argument) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		return renderParts(ctx, w, english().find(key, args), args)
	})
}

func renderParts(ctx context.Context, w io.Writer, parts []section.Part, args []argument) error {
	for _, p := range parts {
		component, ok := valueOf(p.Argument, args).(templ.Component)
		if !ok {
			component = Literal(format(ctx, p, args))
		}
		if err := component.Render(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// format returns a part that is no component.
func format(ctx context.Context, p section.Part, args []argument) string {
	switch value := valueOf(p.Argument, args).(type) {
	case Message:
		return value.In(ctx)
	case int:
		return GroupDigits(value)
	case string:
		return value
	}
	return p.Literal
}

// GroupDigits writes 12500 as "12,500".
func GroupDigits(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
