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
// The other languages have the same texts with the same arguments, in their own plural forms; TestLanguagesAreComplete checks this.
// A brace itself is written twice. The texts of script.yaml are for scripts, which get them by [Scripts], and those of fault.yaml are
// found by [Fault]; they have no functions.
// The package knows neither the pages nor the values that they show.
package text

//go:generate go run ./generate

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"
)

// Message is a text in the language of its reader, chosen when it is rendered. The zero value is no text.
type Message struct {
	key     string
	args    []argument
	literal string
	code    bool      // pages show the literal as code
	joined  []Message // with literal between them
	value   any       // an int, a decimal, or a time whose layout is the text of key
}

// decimal is a decimal number, such as "-1284.50".
type decimal string

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

// Code returns a message that reads the same in every language. Pages show it as code.
func Code(s string) Message { return Message{literal: s, code: true} }

// Join returns a message that has several, with a separator between them. Without any, it is the zero value.
func Join(separator string, messages ...Message) Message {
	messages = slices.DeleteFunc(messages, Message.IsZero)
	if len(messages) == 0 {
		return Message{}
	}
	return Message{literal: separator, joined: messages}
}

// Number returns a message that is only a number, such as "12,500".
func Number(n int) Message { return Message{value: n} }

// Decimal returns a message that is only a number with digits after the point, such as "1.5".
func Decimal(x float64, digits int) Message {
	return Exact(strconv.FormatFloat(x, 'f', digits, 64))
}

// Exact returns a message that is only a decimal number, such as "-1284.50". Its digits stay as they are.
func Exact(number string) Message { return Message{value: decimal(number)} }

// Time returns a message that is a time in its own zone. layout is one of the section "format".
func Time(t time.Time, layout Message) Message { return Message{key: layout.key, value: t} }

// IsZero reports whether the message is no text.
func (m Message) IsZero() bool {
	return m.key == "" && m.literal == "" && m.joined == nil && m.value == nil
}

// In returns the text in the language of the page that ctx renders.
func (m Message) In(ctx context.Context) string { return catalogOf(ctx).write(m) }

// String returns the text in English, for terminals.
func (m Message) String() string { return m.In(context.Background()) }

// Render writes the text as HTML, as a [templ.Component].
func (m Message) Render(ctx context.Context, w io.Writer) error {
	if m.value != nil || m.key == "" && m.joined == nil {
		escaped := templ.EscapeString(m.In(ctx))
		if m.code {
			escaped = "<code>" + escaped + "</code>"
		}
		_, err := io.WriteString(w, escaped)
		return err
	}
	for i, one := range m.joined {
		if i > 0 {
			if err := Literal(m.literal).Render(ctx, w); err != nil {
				return err
			}
		}
		if err := one.Render(ctx, w); err != nil {
			return err
		}
	}
	c := catalogOf(ctx)
	return c.render(ctx, w, c.find(m.key, m.args), m.args)
}

// newMessage returns the message of a key.
func newMessage(key string, args ...argument) Message { return Message{key: key, args: args} }

// newHTML returns the component of a key: its text, in which some arguments are components.
func newHTML(key string, args ...argument) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		c := catalogOf(ctx)
		return c.render(ctx, w, c.find(key, args), args)
	})
}
