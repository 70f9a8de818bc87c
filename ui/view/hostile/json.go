package hostile

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrUnwieldy says that the document has so many fields, or is nested so deep, that a list of
// all of them, each with its path, would be many times the document. Show it as JSON instead.
var ErrUnwieldy = errors.New("document too large or too nested to be shown by its fields")

// maxFields bounds a list that is to be complete.
const maxFields = 5000

// Type of a field's value, as JSON knows it, in plain words.
type Type string

// The types of fields.
const (
	Text        Type = "text"
	Number      Type = "number"
	Bool        Type = "true or false"
	Null        Type = "null"
	EmptyObject Type = "empty object"
	EmptyArray  Type = "empty list"
)

// Field is one value of a document that holds no others.
type Field struct {
	Path  Value  // rows[0].amount
	Name  string // the last name in the path
	Depth int
	Type  Type
	Value Value

	Secret bool // the value is hidden
}

// Fields are a document's values, in its order.
type Fields struct {
	List   []Field
	More   int // left out
	Folded bool
	Findings
}

// ReadFields reads a document's values. Numbers are as they are written.
func ReadFields(document []byte, l Limits) (Fields, error) {
	r := newFieldReader(document, l)
	r.secrets = l.Secrets.byEnd(document, 0)
	err := r.value(path{})
	return r.fields, err
}

func newFieldReader(document []byte, l Limits) *fieldReader {
	return &fieldReader{decoder: newDecoder(document), limits: l, budget: 1<<16 + 8*len(document), document: document}
}

// errEnough ends the reading of a document of which no more is wanted.
var errEnough = errors.New("enough was read")

func newDecoder(document []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(document),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// path is where a value stands.
type path struct {
	text  string
	name  string
	depth int
}

func (p path) element(i int) path {
	return path{text: p.text + "[" + strconv.Itoa(i) + "]", name: p.name, depth: p.depth + 1}
}

func (p path) member(name string) path {
	text := name
	switch {
	case !isIdentifier(name):
		text = p.text + "[" + quote(name) + "]"
	case p.text != "":
		text = p.text + "." + name
	}
	return path{text: text, name: name, depth: p.depth + 1}
}

// isIdentifier reports whether a name can stand in a path without quotes and
// not be taken for anything else.
func isIdentifier(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}

func quote(text string) string { return `"` + escaped.Replace(text) + `"` }

// escaped writes what would end a string.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`) //nolint:gochecknoglobals // made once: every value of a document is written with it

type fieldReader struct {
	decoder *jsontext.Decoder
	limits  Limits
	budget  int // of path bytes
	fields  Fields
	stop    bool // at the limit, instead of counting what is left out

	document []byte
	secrets  map[int64]secretAt // by their end
}

func (r *fieldReader) value(p path) error {
	switch r.decoder.PeekKind() {
	case '{':
		return r.object(p)
	case '[':
		return r.array(p)
	default:
	}
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case '"':
		return r.add(p, Text, unquote(raw))
	case '0':
		return r.add(p, Number, string(raw))
	case 'n':
		return r.add(p, Null, string(raw))
	default:
		return r.add(p, Bool, string(raw))
	}
}

func (r *fieldReader) object(p path) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	if r.decoder.PeekKind() == '}' {
		_, err := r.decoder.ReadToken()
		return errors.Join(err, r.add(p, EmptyObject, "{}"))
	}
	for r.decoder.PeekKind() != '}' {
		name, err := r.decoder.ReadValue()
		if err != nil {
			return err
		}
		if err := r.value(p.member(unquote(name))); err != nil {
			return err
		}
	}
	_, err := r.decoder.ReadToken()
	return err
}

func (r *fieldReader) array(p path) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	if r.decoder.PeekKind() == ']' {
		_, err := r.decoder.ReadToken()
		return errors.Join(err, r.add(p, EmptyArray, "[]"))
	}
	for i := 0; r.decoder.PeekKind() != ']'; i++ {
		if err := r.value(p.element(i)); err != nil {
			return err
		}
	}
	_, err := r.decoder.ReadToken()
	return err
}

func (r *fieldReader) add(p path, t Type, text string) error {
	if r.limits.Fields > 0 && len(r.fields.List) >= r.limits.Fields {
		r.fields.More++
		r.fields.Folded = true
		if r.stop {
			return errEnough
		}
		return nil
	}
	if r.budget -= len(p.text); r.budget < 0 || len(r.fields.List) >= maxFields {
		return ErrUnwieldy
	}
	f := Field{Path: Fold(p.text, r.pathLimits()), Name: p.name, Depth: p.depth, Type: t}
	if secret, ok := r.secrets[r.decoder.InputOffset()]; ok {
		f.Secret, f.Value.Head = true, []Piece{secret.piece(r.document)}
	} else {
		f.Value = r.shown(t, text)
	}
	if p.text == "" {
		f.Path = Value{}
	}
	r.fields.List = append(r.fields.List, f)
	r.fields.Folded = r.fields.Folded || f.Path.Cut != nil || f.Value.Cut != nil
	r.fields.add(f.Path)
	r.fields.add(f.Value)
	return nil
}

// shortValue is how many bytes a number has that needs no folding.
const shortValue = 64

// shown folds a value. Short ones that are not text cannot hold anything to be found.
func (r *fieldReader) shown(t Type, text string) Value {
	if t != Text && len(text) < shortValue {
		return Value{Head: []Piece{{Kind: Plain, Text: text, Count: 1}}}
	}
	return Fold(text, r.limits)
}

// pathLimits keep a path to a few lines, unless nothing is cut.
func (r *fieldReader) pathLimits() Limits {
	if r.limits.Runes == 0 {
		return Limits{}
	}
	return Limits{Lines: 4, Runes: 240, HeadLines: 3, HeadRunes: 120, TailLines: 2, TailRunes: 80}
}

// unquote is the text of a JSON string. Where it is not valid UTF-8 the text is
// what is between the quotes, as it is written.
func unquote(raw jsontext.Value) string {
	text, err := jsontext.AppendUnquote(nil, []byte(raw))
	if err != nil {
		return string(bytes.Trim(raw, `"`))
	}
	return string(text)
}

// IsJSON reports whether document is one JSON value.
func IsJSON(document []byte) bool {
	decoder := newDecoder(document)
	if err := decoder.SkipValue(); err != nil {
		return false
	}
	_, err := decoder.ReadToken()
	return errors.Is(err, io.EOF)
}
