// Package argform owns the form by which reviewers edit a call's arguments: it makes fields of a schema and the stored bytes, and bytes of
// the submitted values. An unchanged value keeps its bytes. Nested values and invisible characters do not fit a form, and are left to the
// editor of the JSON text.
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

// ErrNotFlat says that the arguments do not fit a form.
var ErrNotFlat = errors.New("the arguments must have no nested values and no invisible characters to fit a form")

// Kind is the kind of a field.
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

	raw    []byte // the stored value; nil: none
	quoted []byte // the stored name
	text   bool   // a JSON string; otherwise a literal
}

// Form has all arguments of a call.
type Form struct {
	Fields []Field
}

// Problem is a problem of a field.
type Problem struct {
	Field    string
	Expected text.Message
}

const (
	maxFields = 40
	maxText   = 20_000 // bytes of a value
	longText  = 60     // characters; a longer text gets a field of several lines
)

// property is the schema of one argument.
type property struct {
	Type        any               `json:"type"`
	Enum        []json.RawMessage `json:"enum"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
}

// Read returns the form of arguments, or [ErrNotFlat].
func Read(schema, document []byte) (Form, error) {
	var about struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if err := json.Unmarshal(schema, &about); err != nil {
		return Form{}, ErrNotFlat
	}
	fields, err := readFields(document)
	if err != nil {
		return Form{}, err
	}
	for i := range fields {
		if err := fields[i].applySchema(about.Properties[fields[i].Name]); err != nil {
			return Form{}, err
		}
	}
	for _, name := range listProperties(schema) {
		if slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			continue
		}
		if f := (Field{Name: name, quoted: quoteText(name)}); f.applySchema(about.Properties[name]) == nil {
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

// readFields returns the members of a document as fields.
func readFields(document []byte) ([]Field, error) {
	var fields []Field
	for m, err := range rawjson.Members(document) {
		if err != nil {
			return nil, ErrNotFlat
		}
		fields = append(fields, Field{Present: true, Name: m.Name(), quoted: m.Key, raw: json.RawMessage(m.Value)})
	}
	return fields, nil
}

// applySchema adds the schema and the value to show.
func (f *Field) applySchema(p property) error {
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
		f.Options = readOptions(p.Enum)
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
	if err != nil || len(value) > maxText || bytes.ContainsAny(value, "\r\t") || !isVisible(string(value)) {
		return ErrNotFlat
	}
	if f.Value = string(value); strings.Contains(f.Value, "\n") || utf8.RuneCountInString(f.Value) > longText {
		f.Kind = Long
	}
	return nil
}

// isVisible reports whether a field shows every character of a text.
func isVisible(text string) bool {
	for _, p := range hostile.Show(text) {
		if p.Kind == hostile.Chip {
			return false
		}
	}
	return true
}

// readOptions returns the values of an enumeration of strings, or nil.
func readOptions(enum []json.RawMessage) []string {
	list := make([]string, len(enum))
	for i, raw := range enum {
		if err := json.Unmarshal(raw, &list[i]); err != nil || !isVisible(list[i]) {
			return nil
		}
	}
	return list
}

// listProperties returns the names of a schema's properties in its order.
func listProperties(schema []byte) []string {
	var top struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &top); err != nil {
		return nil
	}
	fields, err := readFields(top.Properties)
	if err != nil {
		return nil
	}
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

func quoteText(value string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, value) // replaces bytes that are not UTF-8
	return quoted
}

// The names of a form's values for the field at a place: its value, and whether an optional field is sent.
func valueName(i int) string { return "f" + strconv.Itoa(i) }
func sentName(i int) string  { return "s" + strconv.Itoa(i) }

// ValueName returns the name of the form's value for the field at a place.
func (Form) ValueName(i int) string { return valueName(i) }

// SentName returns the name of the form's value that says whether an optional field is sent.
func (Form) SentName(i int) string { return sentName(i) }

// With returns the form with the submitted values in place of the stored ones, to be shown again.
func (f Form) With(values url.Values) Form {
	fields := slices.Clone(f.Fields)
	for i := range fields {
		if values.Has(valueName(i)) {
			fields[i].Value = readLines(values.Get(valueName(i)))
		}
		fields[i].Present = fields[i].Required || values.Has(sentName(i))
	}
	return Form{Fields: fields}
}

var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// Bytes returns the submitted arguments.
func (f Form) Bytes(values url.Values) ([]byte, []Problem) {
	var problems []Problem
	document := []byte{'{'}
	for i := range f.Fields {
		field := &f.Fields[i]
		if !field.Required && !values.Has(sentName(i)) {
			continue
		}
		raw, problem := field.encodeValue(readLines(values.Get(valueName(i))))
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

// encodeValue returns a value as JSON. An unchanged value keeps its bytes.
func (f *Field) encodeValue(value string) (raw []byte, problem text.Message) {
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
		return quoteText(value), text.Message{}
	case f.Kind == Number && !number.MatchString(strings.TrimSpace(value)):
		return nil, text.FormExpectedNumber()
	}
	return []byte(strings.TrimSpace(value)), text.Message{}
}

// readLines undoes the line breaks of browsers.
func readLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// Source returns a document as text to edit: indented, and with escapes in place of invisible characters. Everything else keeps its
// bytes.
func Source(document []byte) string {
	text := jsontext.Value(bytes.Clone(document))
	if err := text.Indent(jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true)); err != nil {
		return hostile.Escape(string(document))
	}
	return hostile.Escape(string(text))
}
