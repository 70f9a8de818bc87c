// Package rawjson reads and writes the members of JSON objects without decoding their values: each value keeps the bytes that it was
// written with.
package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Errors of texts that are not one JSON object.
var (
	ErrNotObject = errors.New("not a JSON object")
	ErrTrailing  = errors.New("more than one JSON value")
)

// Member is a member of an object. Its slices are part of the object's text.
type Member struct {
	Key   jsontext.Value // the name as it is written, in quotes
	Value jsontext.Value
	End   int // where Value ends in the text
}

// Start returns where Value starts in the text.
func (m Member) Start() int { return m.End - len(m.Value) }

// Name returns the name. Invalid UTF-8 and lone surrogates are replaced.
func (m Member) Name() string {
	if inner := m.Key[1 : len(m.Key)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	name, _ := jsontext.AppendUnquote(nil, m.Key) // its error says that something was replaced
	return string(name)
}

// Members yields the members of the object that text is, in order. After an error it yields nothing more: [ErrNotObject], [ErrTrailing]
// if something follows the object, or a syntax error. By default duplicate names and invalid UTF-8 are syntax errors at any depth.
func Members(text []byte, options ...jsontext.Options) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		decoder := jsontext.NewDecoder(bytes.NewBuffer(text), options...)
		next := func() (value jsontext.Value, end int, err error) { // a slice of text, which stays valid when the decoder moves on
			value, err = decoder.ReadValue()
			end = int(decoder.InputOffset())
			return jsontext.Value(text[end-len(value) : end : end]), end, err
		}
		fail := func(err error) { yield(Member{}, fmt.Errorf("read JSON: %w", err)) }
		if decoder.PeekKind() != '{' {
			if _, _, err := next(); err != nil {
				fail(err)
			} else {
				yield(Member{}, ErrNotObject)
			}
			return
		}
		if _, err := decoder.ReadToken(); err != nil {
			fail(err)
			return
		}
		for decoder.PeekKind() != '}' {
			var m Member
			var err error
			if m.Key, _, err = next(); err == nil {
				m.Value, m.End, err = next()
			}
			if err != nil {
				fail(err)
				return
			}
			if !yield(m, nil) {
				return
			}
		}
		if _, err := decoder.ReadToken(); err != nil {
			fail(err)
			return
		}
		if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
			yield(Member{}, ErrTrailing)
		}
	}
}

// Lenient returns the options that accept duplicate names and invalid UTF-8.
func Lenient() jsontext.Options {
	return jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// AppendString appends text as a JSON string. Invalid UTF-8 is replaced.
func AppendString(dst []byte, text string) []byte {
	quoted, _ := jsontext.AppendQuote(dst, text) // its error says that something was replaced
	return quoted
}

// AppendMember appends a member to an object that was begun: '{', and perhaps members.
func AppendMember(object []byte, name string, value []byte) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(AppendString(object, name), ':'), value...)
}

// ReadNested reads the next object or array of a [Lenient] decoder. It calls each with the name and index of every value, which each has to
// read, or empty if there is no value.
func ReadNested(decoder *jsontext.Decoder, empty func() error, each func(name string, i int) error) error {
	token, err := decoder.ReadToken()
	if err != nil {
		return err
	}
	isObject := token.Kind() == '{'
	if isClosing(decoder.PeekKind()) {
		_, err := decoder.ReadToken()
		return errors.Join(err, empty())
	}
	for i := 0; !isClosing(decoder.PeekKind()); i++ {
		name := ""
		if isObject {
			raw, err := decoder.ReadValue()
			if err != nil {
				return err
			}
			name = Unquote(raw)
		}
		if err := each(name, i); err != nil {
			return err
		}
	}
	_, err = decoder.ReadToken()
	return err
}

func isClosing(k jsontext.Kind) bool { return k == '}' || k == ']' }

// Unquote returns the text of a JSON string. If it is not valid UTF-8, the text is the bytes between the quotes.
func Unquote(raw jsontext.Value) string {
	text, err := jsontext.AppendUnquote(nil, []byte(raw))
	if err != nil {
		return string(bytes.Trim(raw, `"`))
	}
	return string(text)
}
