// Package argform owns the form by which reviewers edit a call's arguments: from a schema and the stored
// bytes to fields, and from what was sent back to bytes. A value that nobody changed keeps its bytes. What a form
// cannot show truly (nested values, characters that nobody would see) is left to an editor of the JSON text.
package argform

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// ErrNotFlat says that the arguments are not for a form.
var ErrNotFlat = errors.New("the arguments are nested, or hold what a form cannot show")

// Kind says how a field is edited.
type Kind string

// The kinds of fields.
const (
	Text   Kind = "text"
	Long   Kind = "long" // text of several lines
	Number Kind = "number"
	Choice Kind = "choice" // one of Options
)

// Field is one argument. Name, Title and Description are from outside.
type Field struct {
	Name        string
	Kind        Kind
	Title       string
	Description string
	Required    bool
	Present     bool // the arguments have it
	Value       string
	Options     []string

	raw    []byte // as it is stored; nil: it is not
	quoted []byte // the name as it is stored
	text   bool   // a JSON string; else a literal
}

// Form is all arguments of a call.
type Form struct {
	Fields []Field
}

// Problem is what is wrong with a field.
type Problem struct {
	Field    string
	Expected text.Message
}

const (
	maxFields = 40
	maxText   = 20_000 // bytes of a value
	longText  = 60     // characters from which on a text gets a field of several lines
)

// property is what a schema says of one argument.
type property struct {
	Type        any               `json:"type"`
	Enum        []json.RawMessage `json:"enum"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
}

// Read makes the form of arguments, or says [ErrNotFlat].
func Read(schema, document []byte) (Form, error) {
	var about struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if err := json.Unmarshal(schema, &about); err != nil {
		return Form{}, ErrNotFlat
	}
	fields, err := stored(document)
	if err != nil {
		return Form{}, err
	}
	for i := range fields {
		if err := fields[i].complete(about.Properties[fields[i].Name]); err != nil {
			return Form{}, err
		}
	}
	for _, name := range order(schema) {
		if slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			continue
		}
		if f := (Field{Name: name, quoted: quote(name)}); f.complete(about.Properties[name]) == nil {
			fields = append(fields, f)
		} else if slices.Contains(about.Required, name) {
			return Form{}, ErrNotFlat
		}
	}
	if len(fields) == 0 || len(fields) > maxFields {
		return Form{}, ErrNotFlat
	}
	for i := range fields {
		fields[i].Required = slices.Contains(about.Required, fields[i].Name)
	}
	return Form{Fields: fields}, nil
}

// stored are the members of the document.
func stored(document []byte) ([]Field, error) {
	var fields []Field
	for m, err := range rawjson.Members(document) {
		if err != nil {
			return nil, ErrNotFlat
		}
		fields = append(fields, Field{Present: true, Name: m.Name(), quoted: m.Key, raw: json.RawMessage(m.Value)})
	}
	return fields, nil
}

// complete adds what the schema says, and the value as it is shown.
func (f *Field) complete(p property) error {
	f.Title, f.Description = p.Title, p.Description
	kind, _ := p.Type.(string)
	if f.raw != nil {
		kind = map[jsontext.Kind]string{'"': "string", '0': "number", 't': "boolean", 'f': "boolean"}[jsontext.Value(f.raw).Kind()]
	}
	switch kind {
	case "string":
		f.Kind, f.text = Text, true
		if err := f.readText(); err != nil {
			return err
		}
		f.Options = texts(p.Enum)
		if len(f.Options) > 0 && (!f.Present || slices.Contains(f.Options, f.Value)) {
			f.Kind = Choice
		}
	case "number", "integer":
		f.Kind, f.Value = Number, string(f.raw)
	case "boolean":
		f.Kind, f.Value, f.Options = Choice, string(f.raw), []string{"true", "false"}
	default:
		return ErrNotFlat
	}
	return nil
}

func (f *Field) readText() error {
	if f.raw == nil {
		return nil
	}
	value, err := jsontext.AppendUnquote(nil, f.raw)
	if err != nil || len(value) > maxText || bytes.ContainsAny(value, "\r\t") || !faithful(string(value)) {
		return ErrNotFlat
	}
	if f.Value = string(value); strings.Contains(f.Value, "\n") || utf8.RuneCountInString(f.Value) > longText {
		f.Kind = Long
	}
	return nil
}

// faithful reports whether a text in a field looks like what it is.
func faithful(text string) bool {
	for _, p := range hostile.Show(text) {
		if p.Kind == hostile.Chip {
			return false
		}
	}
	return true
}

// texts are the members of an enumeration of strings; nil: it is none.
func texts(enum []json.RawMessage) []string {
	list := make([]string, len(enum))
	for i, raw := range enum {
		if err := json.Unmarshal(raw, &list[i]); err != nil || !faithful(list[i]) {
			return nil
		}
	}
	return list
}

// order are the names of a schema's properties, as it lists them.
func order(schema []byte) []string {
	var top struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &top); err != nil {
		return nil
	}
	fields, err := stored(top.Properties)
	if err != nil {
		return nil
	}
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

func quote(name string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, name) // bytes that are no UTF-8 are replaced
	return quoted
}

// The names of a form's values: that of a field, by its place, and whether it is sent at all.
func valueName(i int) string { return "f" + strconv.Itoa(i) }
func sentName(i int) string  { return "s" + strconv.Itoa(i) }

// ValueName is the name of the form's value for the field at a place.
func (Form) ValueName(i int) string { return valueName(i) }

// SentName is the name of the form's value that says whether an optional field is sent.
func (Form) SentName(i int) string { return sentName(i) }

// With are the fields with what was sent instead of what is stored, to be shown again.
func (f Form) With(values url.Values) Form {
	fields := slices.Clone(f.Fields)
	for i := range fields {
		if values.Has(valueName(i)) {
			fields[i].Value = lines(values.Get(valueName(i)))
		}
		fields[i].Present = fields[i].Required || values.Has(sentName(i))
	}
	return Form{Fields: fields}
}

var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// Bytes are the arguments that were sent with the form.
func (f Form) Bytes(values url.Values) ([]byte, []Problem) {
	var problems []Problem
	document := []byte{'{'}
	for i := range f.Fields {
		field := &f.Fields[i]
		if !field.Required && !values.Has(sentName(i)) {
			continue
		}
		raw, problem := field.encode(lines(values.Get(valueName(i))))
		if !problem.IsZero() {
			problems = append(problems, Problem{Field: field.Name, Expected: problem})
			continue
		}
		if len(document) > 1 {
			document = append(document, ',')
		}
		document = append(append(append(document, field.quoted...), ':'), raw...)
	}
	return append(document, '}'), problems
}

// encode is a value as JSON. One that is what it was keeps its bytes.
func (f *Field) encode(value string) (raw []byte, problem text.Message) {
	if f.raw != nil && value == f.Value {
		return f.raw, text.Message{}
	}
	switch {
	case f.Kind == Choice && !slices.Contains(f.Options, value):
		return nil, text.FormExpectedChoice()
	case f.text:
		if !utf8.ValidString(value) {
			return nil, text.FormExpectedUTF8()
		}
		return quote(value), text.Message{}
	case f.Kind == Number && !number.MatchString(strings.TrimSpace(value)):
		return nil, text.FormExpectedNumber()
	}
	return []byte(strings.TrimSpace(value)), text.Message{}
}

// lines undoes what browsers do to line breaks.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// Source is the document as text to be edited: indented, and with escapes in place of characters that nobody would see.
// Nothing else of it is written differently.
func Source(document []byte) string {
	text := jsontext.Value(bytes.Clone(document))
	if err := text.Indent(jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true)); err != nil {
		return hostile.Escape(string(document))
	}
	return hostile.Escape(string(text))
}
