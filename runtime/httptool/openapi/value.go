package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// The limits of a document, besides its bytes.
const (
	maxNesting = 200       // levels of objects and arrays
	maxValues  = 4_000_000 // of one document, with YAML aliases expanded
)

// value is a JSON value whose objects keep the order of their members. Its methods accept nil, a value that is absent.
type value struct {
	kind    jsontext.Kind // 'n', 't', 'f', '"', '0', '{' or '['
	text    string        // a string's content, or a number's notation
	members []member      // of objects; the elements of arrays, without names
}

type member struct {
	name  string
	value value
}

var errValues = errors.New("it has too many values")

// readJSON reads a JSON document. Duplicate names, invalid UTF-8 and text after the first value are errors.
func readJSON(text []byte) (*value, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	budget := maxValues
	v, err := readValue(decoder, 0, &budget)
	if err != nil {
		return nil, plainError(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON document")
	}
	return &v, nil
}

// plainError returns an error without the control characters of a document that its text quotes.
func plainError(err error) error { return errors.New(plain.Line(err.Error(), maxReason)) }

func readValue(decoder *jsontext.Decoder, depth int, budget *int) (value, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return value{}, err
	}
	if *budget--; *budget < 0 {
		return value{}, errValues
	}
	v := value{kind: token.Kind()}
	switch v.kind {
	case '"', '0':
		v.text = token.String()
	case '{', '[':
		if depth >= maxNesting {
			return value{}, fmt.Errorf("it is nested deeper than %d", maxNesting)
		}
		for decoder.PeekKind() != '}' && decoder.PeekKind() != ']' {
			var m member
			if v.kind == '{' {
				name, err := decoder.ReadToken()
				if err != nil {
					return value{}, err
				}
				m.name = name.String()
			}
			var err error
			if m.value, err = readValue(decoder, depth+1, budget); err != nil {
				return value{}, err
			}
			v.members = append(v.members, m)
		}
		v.members = slices.Clip(v.members)
		_, err = decoder.ReadToken()
	default:
	}
	return v, err
}

// is reports whether the value is of a kind.
func (v *value) is(kind jsontext.Kind) bool { return v != nil && v.kind == kind }

// isTrue reports whether the value is the literal true.
func (v *value) isTrue() bool { return v.is('t') }

// get returns a member of an object, nil if there is none.
func (v *value) get(name string) *value {
	if !v.is('{') {
		return nil
	}
	for i := range v.members {
		if v.members[i].name == name {
			return &v.members[i].value
		}
	}
	return nil
}

// str returns the content of a string, "" for other values.
func (v *value) str() string {
	if !v.is('"') {
		return ""
	}
	return v.text
}

// all returns the elements of an array or the members of an object.
func (v *value) all() []member {
	if v == nil {
		return nil
	}
	return v.members
}

// strings returns the elements of an array that are strings.
func (v *value) strings() []string {
	var list []string
	if v.is('[') {
		for i := range v.members {
			if e := &v.members[i].value; e.kind == '"' {
				list = append(list, e.text)
			}
		}
	}
	return list
}

// set adds or replaces a member of an object.
func (v *value) set(name string, to value) {
	if old := v.get(name); old != nil {
		*old = to
		return
	}
	v.members = append(v.members, member{name, to})
}

// drop removes a member of an object.
func (v *value) drop(name string) {
	v.members = slices.DeleteFunc(slices.Clone(v.members), func(m member) bool { return m.name == name })
}

func object(members ...member) value { return value{kind: '{', members: members} }

func array(elements ...value) value {
	v := value{kind: '['}
	for _, e := range elements {
		v.members = append(v.members, member{value: e})
	}
	return v
}

func text(s string) value { return value{kind: '"', text: s} }

func texts(list []string) value {
	v := value{kind: '['}
	for _, s := range list {
		v.members = append(v.members, member{value: text(s)})
	}
	return v
}

func boolean(b bool) value {
	if b {
		return value{kind: 't'}
	}
	return value{kind: 'f'}
}

// appendTo appends the value as JSON.
func (v *value) appendTo(b []byte) []byte {
	switch v.kind {
	case 'n':
		return append(b, "null"...)
	case 't':
		return append(b, "true"...)
	case 'f':
		return append(b, "false"...)
	case '0':
		return append(b, v.text...)
	case '"':
		return appendQuoted(b, v.text)
	default:
	}
	b = append(b, byte(v.kind))
	for i := range v.members {
		if i > 0 {
			b = append(b, ',')
		}
		if v.kind == '{' {
			b = append(appendQuoted(b, v.members[i].name), ':')
		}
		b = v.members[i].value.appendTo(b)
	}
	if v.kind == '{' {
		return append(b, '}')
	}
	return append(b, ']')
}

// appendQuoted appends a JSON string.
func appendQuoted(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD")) // the only error is invalid UTF-8
	return b
}

// equal compares notation and order of members, too.
func (v *value) equal(other *value) bool {
	if v == nil || other == nil {
		return v == other
	}
	return v.kind == other.kind && v.text == other.text &&
		slices.EqualFunc(v.members, other.members, func(a, b member) bool { return a.name == b.name && a.value.equal(&b.value) })
}
