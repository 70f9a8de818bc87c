// Package secretfield finds the secrets in documents such as a call's arguments: texts whose schema declares a property with the name of a
// secret, and texts and numbers that the schema marks as secret, also within such values. A name that only the agent chose hides nothing,
// because an agent could hide the purpose of a call there: see [Rules.NamedByAgent]. The package does not say how secrets are shown or stored.
package secretfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Rules say which values of documents are secrets. Nil rules find none.
type Rules struct {
	schemas []any      // decoded
	exempt  [][]string // paths of values that are no secrets
}

// New returns the rules of documents to which all of these schemas apply. They mark secrets by "writeOnly": true or "format": "password",
// and declare them by properties such as "api_token". Values at the exempt paths are no secrets. A path is a JSON pointer, such as
// /rows/0/token, in which * stands for any name or index. Values within an exempt value are secrets only for their own names and marks.
func New(exempt []string, schemas ...[]byte) *Rules {
	r := &Rules{}
	for _, text := range schemas {
		var schema any
		if mayHaveSecrets(string(text)) && json.Unmarshal(text, &schema) == nil {
			r.schemas = append(r.schemas, schema)
		}
	}
	for _, pointer := range exempt {
		r.exempt = append(r.exempt, parsePointer(pointer))
	}
	return r
}

func mayHaveSecrets(schema string) bool {
	return strings.Contains(schema, "writeOnly") || strings.Contains(schema, `\u`) || isPrivate(schema)
}

// Field is a secret value of a document.
type Field struct {
	From, To int    // its bytes
	Pointer  string // JSON Pointer (RFC 6901)
	Marked   bool   // the schema marks the value; otherwise the name that it declares does
	Below    bool   // a value around it is named or marked
}

// Text returns the decoded value.
func (f Field) Text(document []byte) string {
	raw := jsontext.Value(document[f.From:f.To])
	if raw.Kind() == '"' {
		return rawjson.Unquote(raw)
	}
	return string(raw)
}

// Find returns the secrets of a document, in its order, up to its first syntax error.
func (r *Rules) Find(document []byte) []Field { return r.FindAmong(document, 0) }

// FindAmong is [Rules.Find] for at most so many values of the document; zero: all.
func (r *Rules) FindAmong(document []byte, most int) []Field {
	if r == nil || len(r.schemas) == 0 {
		return nil
	}
	f := r.newFinder(document)
	f.most = most
	_ = f.readValue(f.rootPlace()) // secrets before a syntax error count
	return f.found
}

// Count returns the number of secrets in a document.
func (r *Rules) Count(document []byte) int { return len(r.Find(document)) }

// Replace returns the document with the text of with in place of each secret.
func (r *Rules) Replace(document []byte, with func(Field) string) []byte {
	var text []byte
	at := 0
	for _, one := range r.Find(document) {
		text = append(text, document[at:one.From]...)
		at = one.To
		text = rawjson.AppendString(text, with(one))
	}
	return append(text, document[at:]...)
}

// NamedByAgent returns the paths, as JSON pointers, of texts that have the name of a secret, or are within a value that has, and that
// are no secrets because no schema declares the name.
func (r *Rules) NamedByAgent(document []byte) []string {
	if r == nil {
		r = &Rules{}
	}
	f := r.newFinder(document)
	f.listChosen = true
	_ = f.readValue(f.rootPlace()) // those before a syntax error are listed
	return f.chosen
}

// maxChosen is the number of paths that [Rules.NamedByAgent] returns.
const maxChosen = 100

func (r *Rules) newFinder(document []byte) *finder {
	return &finder{
		decoder: jsontext.NewDecoder(bytes.NewReader(document), rawjson.Lenient()), schemas: r.schemas, exempt: r.exempt,
		matches: make(map[string]*regexp.Regexp),
	}
}

// finder reads a document and its schemas side by side.
type finder struct {
	decoder *jsontext.Decoder
	schemas []any
	matches map[string]*regexp.Regexp // by pattern; nil: Go cannot compile it
	found   []Field
	most    int // values; zero: any number
	values  int
	exempt  [][]string
	path    []string // of the current value

	listChosen bool
	chosen     []string // see Rules.NamedByAgent
}

func (f *finder) readValue(p place) error {
	switch f.decoder.PeekKind() {
	case '{':
		return rawjson.ReadNested(f.decoder, f.countValue, func(name string, _ int) error {
			return f.readBelow(name, func() place { return f.memberPlace(p, name) })
		})
	case '[':
		return rawjson.ReadNested(f.decoder, f.countValue, func(_ string, i int) error {
			return f.readBelow(strconv.Itoa(i), func() place { return f.elementPlace(p, i) })
		})
	default:
	}
	raw, err := f.decoder.ReadValue()
	if err != nil {
		return err
	}
	text, number := raw.Kind() == '"' && len(raw) > len(`""`), raw.Kind() == '0'
	switch {
	case text && (p.named || p.marked) || number && p.marked:
		end := int(f.decoder.InputOffset())
		f.found = append(f.found, Field{From: end - len(raw), To: end, Pointer: joinPointer(f.path), Marked: p.marked && !p.named, Below: p.below})
	case f.listChosen && p.chosen && text && len(f.chosen) < maxChosen:
		f.chosen = append(f.chosen, joinPointer(f.path))
	}
	return f.countValue()
}

// readBelow reads the next value, which is a member or an element of the current one.
func (f *finder) readBelow(part string, placeOf func() place) error {
	f.path = append(f.path, part)
	err := f.readValue(placeOf())
	f.path = f.path[:len(f.path)-1]
	return err
}

// countValue counts a value that contains no others.
func (f *finder) countValue() error {
	if f.values++; f.most > 0 && f.values >= f.most {
		return errEnough
	}
	return nil
}

// errEnough ends the reading of a document early.
var errEnough = errors.New("enough was read")

// parsePointer returns the parts of a JSON pointer.
func parsePointer(pointer string) []string {
	return slices.Collect(jsontext.Pointer(pointer).Tokens())
}

func joinPointer(parts []string) string {
	var p jsontext.Pointer
	for _, part := range parts {
		p = p.AppendToken(part)
	}
	return string(p)
}

// secretNames returns parts of the names of secrets.
func secretNames() []string {
	return []string{"password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential", "private_key"}
}

func isPrivate(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	return slices.ContainsFunc(secretNames(), func(part string) bool { return strings.Contains(name, part) })
}
