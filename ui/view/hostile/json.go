package hostile

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/secretfield"
)

// ErrUnwieldy means that a document has too many fields, or is nested too deep, to list each field with its path: the list would be
// many times larger than the document. Show it as JSON instead.
var ErrUnwieldy = errors.New("document has too many fields or is nested too deep to list its fields")

// maxFields limits a complete list.
const maxFields = 5000

// Type is the JSON type of a value, in plain words.
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

// Field is a value of a document that contains no others.
type Field struct {
	Path    Value  // rows[0].amount
	Pointer string // JSON Pointer (RFC 6901)
	Name    string // the last name in the path
	Depth   int
	Place   *Place // nil: the document
	Type    Type
	Value   Value

	Secret bool // the value is hidden
}

// Place is a member of an object or an element of a list.
type Place struct {
	In    *Place // the object or the list; nil: the document
	Name  string // of a member
	Index int    // of an element; -1: it is a member
}

// IsWithin reports whether p is the other place, or within it.
func (p *Place) IsWithin(other *Place) bool {
	for p != nil && p != other {
		p = p.In
	}
	return p == other
}

// Fields are the values of a document, in its order.
type Fields struct {
	List   []Field
	More   int    // left out
	Next   *Place // of the first value that was left out
	Folded bool
	Findings
}

// ReadFields reads the values of a document. Numbers keep their spelling.
func ReadFields(document []byte, l Limits) (Fields, error) {
	r := newFieldReader(document, l)
	r.secrets = secretsByEnd(l.Secrets, document, 0)
	err := r.readValue(path{})
	return r.fields, err
}

func newFieldReader(document []byte, l Limits) *fieldReader {
	return &fieldReader{decoder: newDecoder(document), limits: l, budget: 1<<16 + 8*len(document), document: document}
}

// errEnough ends the reading of a document early.
var errEnough = errors.New("enough was read")

func newDecoder(document []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(document), rawjson.Lenient())
}

// path is the place of a value.
type path struct {
	text    string
	pointer string
	name    string
	depth   int
	place   *Place
}

func (p path) joinIndex(i int) path {
	return path{text: p.text + "[" + strconv.Itoa(i) + "]", pointer: p.pointer + "/" + strconv.Itoa(i), name: p.name, depth: p.depth + 1, place: &Place{In: p.place, Index: i}}
}

func (p path) joinName(name string) path {
	text := name
	switch {
	case !isIdentifier(name):
		text = p.text + "[" + quoteJSON(name) + "]"
	case p.text != "":
		text = p.text + "." + name
	}
	return path{text: text, pointer: string(jsontext.Pointer(p.pointer).AppendToken(name)), name: name, depth: p.depth + 1, place: &Place{In: p.place, Name: name, Index: -1}}
}

// JoinPlaces writes a path below a group, such as lines[0].price. Names that would read as other places are in quotes.
func JoinPlaces(places []*Place) string {
	var b strings.Builder
	for _, p := range places {
		switch {
		case p.Index >= 0:
			b.WriteString("[" + strconv.Itoa(p.Index) + "]")
			continue
		case p.Name == "" || strings.ContainsAny(p.Name, `.[]"`):
			b.WriteString("[" + quoteJSON(p.Name) + "]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.WriteString(p.Name)
	}
	return b.String()
}

// isIdentifier reports whether a name is unambiguous in a path without quotes.
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

func quoteJSON(text string) string { return `"` + jsonEscapes.Replace(text) + `"` }

// jsonEscapes escapes the characters that would end a string.
var jsonEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`) //nolint:gochecknoglobals // made once: every value of a document is written with it

type fieldReader struct {
	decoder *jsontext.Decoder
	limits  Limits
	budget  int // of path bytes
	fields  Fields
	stop    bool // end at the limit, instead of counting the remaining fields

	document []byte
	secrets  map[int64]secretfield.Field // by their end
}

func (r *fieldReader) readValue(p path) error {
	switch r.decoder.PeekKind() {
	case '{':
		return rawjson.ReadNested(r.decoder, func() error { return r.addField(p, EmptyObject, "{}") },
			func(name string, _ int) error { return r.readValue(p.joinName(name)) })
	case '[':
		return rawjson.ReadNested(r.decoder, func() error { return r.addField(p, EmptyArray, "[]") },
			func(_ string, i int) error { return r.readValue(p.joinIndex(i)) })
	default:
	}
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case '"':
		return r.addField(p, Text, rawjson.Unquote(raw))
	case '0':
		return r.addField(p, Number, string(raw))
	case 'n':
		return r.addField(p, Null, string(raw))
	default:
		return r.addField(p, Bool, string(raw))
	}
}

func (r *fieldReader) addField(p path, t Type, text string) error {
	if r.limits.Fields > 0 && len(r.fields.List) >= r.limits.Fields {
		if r.fields.More++; r.fields.More == 1 {
			r.fields.Next = p.place
		}
		r.fields.Folded = true
		if r.stop {
			return errEnough
		}
		return nil
	}
	if r.budget -= len(p.text); r.budget < 0 || len(r.fields.List) >= maxFields {
		return ErrUnwieldy
	}
	f := Field{Path: Fold(p.text, r.pathLimits()), Pointer: p.pointer, Name: p.name, Depth: p.depth, Place: p.place, Type: t}
	if secret, ok := r.secrets[r.decoder.InputOffset()]; ok {
		f.Secret, f.Value.Head = true, []Piece{makeSecretPiece(secret, r.document)}
	} else {
		f.Value = r.foldValue(t, text)
	}
	if p.text == "" {
		f.Path = Value{}
	}
	r.fields.List = append(r.fields.List, f)
	r.fields.Folded = r.fields.Folded || f.Path.Cut != nil || f.Value.Cut != nil
	r.fields.addValue(f.Path)
	r.fields.addValue(f.Value)
	return nil
}

// shortValue is the number of bytes below which a number needs no folding.
const shortValue = 64

// foldValue folds a value. Short values that are no text cannot contain a trick.
func (r *fieldReader) foldValue(t Type, text string) Value {
	if t != Text && len(text) < shortValue {
		return Value{Head: []Piece{{Kind: Plain, Text: text, Count: 1}}}
	}
	l := r.limits
	l.field = len(r.fields.List)
	return Fold(text, l)
}

// pathLimits returns limits that keep a path to a few lines, unless nothing is cut.
func (r *fieldReader) pathLimits() Limits {
	if r.limits.Runes == 0 {
		return Limits{}
	}
	return Limits{Lines: 4, Runes: 240, HeadLines: 3, HeadRunes: 120, TailLines: 2, TailRunes: 80}
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
