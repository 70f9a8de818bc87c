package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Secrets tell which values of documents are shown only to whoever asks for them: texts whose
// name, or that of something around them, says that they are secret, and texts and numbers that
// a schema marks as such. Agents and servers choose names and schemas, so what is hidden is always
// said, counted and told apart by its fingerprint, and what is too much for a secret is withheld: see [Secrets.Withheld].
type Secrets struct {
	schema any // decoded; nil: only names count
}

// SecretsOf reads what a schema marks: "writeOnly": true, or "format": "password".
func SecretsOf(schema []byte) *Secrets {
	if !strings.Contains(string(schema), "writeOnly") && !strings.Contains(string(schema), "password") {
		return &Secrets{}
	}
	var s Secrets
	if err := json.Unmarshal(schema, &s.schema); err != nil {
		return &Secrets{}
	}
	return &s
}

// Count is how many values of a document are secret.
func (s *Secrets) Count(document []byte) int { return len(s.find(document)) }

// Withheld is how many of them are more than one secret is: long, of several lines, or within something that is named
// or marked as secret. Agents and servers could hide there what a call really does, so nobody approves it unseen.
func (s *Secrets) Withheld(document []byte) int {
	n := 0
	for _, one := range s.find(document) {
		if one.below || tooMuch(one.text(document)) {
			n++
		}
	}
	return n
}

// longSecret is how many characters the longest secret has that is not withheld: tokens and keys that people put into
// a call are shorter.
const longSecret = 256

func tooMuch(text string) bool {
	return utf8.RuneCountInString(text) > longSecret || strings.ContainsAny(text, "\n\r\u2028\u2029")
}

// Redacted is the document with a text in place of each secret value, and how many there are. A
// document that cannot be read is given up from there on.
func (s *Secrets) Redacted(document []byte) (text []byte, hidden int) {
	return s.replaced(document, func(one secretAt) string { return one.piece(document).String() })
}

// Masked is the document with the same word in place of each secret value.
func (s *Secrets) Masked(document []byte, word string) []byte {
	text, _ := s.replaced(document, func(secretAt) string { return word })
	return text
}

func (s *Secrets) replaced(document []byte, with func(secretAt) string) (text []byte, hidden int) {
	found := s.find(document)
	at := 0
	for _, one := range found {
		text = append(text, document[at:one.from]...)
		at = one.to
		text = append(text, quote(with(one))...)
	}
	return append(text, document[at:]...), len(found)
}

// String is a secret in words, for where no piece can stand.
func (p Piece) String() string {
	if p.Kind != Secret {
		return p.Text
	}
	word := "characters"
	if p.Count == 1 {
		word = "character"
	}
	return fmt.Sprintf("hidden (%d %s, fingerprint %s…)", p.Count, word, p.Text)
}

// secretAt is where in a document a secret value is.
type secretAt struct {
	from, to int
	marked   bool // by the schema; else by a name
	below    bool // not itself, but something around it
}

func (s secretAt) text(document []byte) string {
	text := string(document[s.from:s.to])
	if strings.HasPrefix(text, `"`) {
		text = unquote(jsontext.Value(text))
	}
	return text
}

// piece stands for the value.
func (s secretAt) piece(document []byte) Piece {
	text := s.text(document)
	why := "its name says that it is secret"
	if s.marked {
		why = "the tool’s schema says that it is secret"
	}
	return Piece{Kind: Secret, Text: Fingerprint(text), Note: why, Count: utf8.RuneCountInString(text)}
}

// find returns the secret values of a document, in its order, as far as it can be read.
func (s *Secrets) find(document []byte) []secretAt { return s.findAmong(document, 0) }

// findAmong is find among at most so many fields; zero: all.
func (s *Secrets) findAmong(document []byte, most int) []secretAt {
	if s == nil {
		return nil
	}
	f := secretFinder{decoder: newDecoder(document), root: s.schema, matches: make(map[string]*regexp.Regexp), most: most}
	_ = f.value(f.start()) // what was found before an error is hidden
	return f.found
}

// byEnd are the secrets of a document, among at most so many fields, by where they end.
func (s *Secrets) byEnd(document []byte, most int) map[int64]secretAt {
	found := s.findAmong(document, most)
	if len(found) == 0 {
		return nil
	}
	ends := make(map[int64]secretAt, len(found))
	for _, one := range found {
		ends[int64(one.to)] = one
	}
	return ends
}

// secretFinder goes through a document and its schema side by side.
type secretFinder struct {
	decoder *jsontext.Decoder
	root    any
	matches map[string]*regexp.Regexp // by pattern; nil: none that can be read
	found   []secretAt
	most    int // fields; zero: any number
	fields  int
}

// field counts one that was read, as a fieldReader does.
func (f *secretFinder) field() error {
	if f.fields++; f.most > 0 && f.fields >= f.most {
		return errEnough
	}
	return nil
}

func (f *secretFinder) value(p place) error {
	switch f.decoder.PeekKind() {
	case '{':
		return f.object(p)
	case '[':
		return f.array(p)
	default:
	}
	raw, err := f.decoder.ReadValue()
	if err != nil {
		return err
	}
	text, number := raw.Kind() == '"' && len(raw) > len(`""`), raw.Kind() == '0'
	if text && (p.named || p.marked) || number && p.marked {
		end := int(f.decoder.InputOffset())
		f.found = append(f.found, secretAt{from: end - len(raw), to: end, marked: p.marked && !p.named, below: p.below})
	}
	return f.field()
}

func (f *secretFinder) object(p place) error {
	if _, err := f.decoder.ReadToken(); err != nil {
		return err
	}
	if f.decoder.PeekKind() == '}' {
		_, err := f.decoder.ReadToken()
		return errors.Join(err, f.field())
	}
	for !closes(f.decoder.PeekKind()) {
		raw, err := f.decoder.ReadValue()
		if err != nil {
			return err
		}
		if err := f.value(f.member(p, unquote(raw))); err != nil {
			return err
		}
	}
	_, err := f.decoder.ReadToken()
	return err
}

func (f *secretFinder) array(p place) error {
	if _, err := f.decoder.ReadToken(); err != nil {
		return err
	}
	if f.decoder.PeekKind() == ']' {
		_, err := f.decoder.ReadToken()
		return errors.Join(err, f.field())
	}
	for i := 0; !closes(f.decoder.PeekKind()); i++ {
		if err := f.value(f.element(p, i)); err != nil {
			return err
		}
	}
	_, err := f.decoder.ReadToken()
	return err
}

// ShowDocument shows a document as it is written, within limits, but for its secrets.
func ShowDocument(document []byte, l Limits) Value {
	text, found := string(document), l.Secrets.find(document)
	v := Fold(text, l)
	if len(found) == 0 {
		return v
	}
	head, tail, _ := split(text, l)
	v.Head = showAround(document, 0, head, found)
	if tail < len(text) {
		v.Tail = showAround(document, tail, len(text), found)
	}
	return v
}

// showAround shows a part of a document. A secret that is only partly in it is shown as one.
func showAround(document []byte, from, to int, found []secretAt) []Piece {
	var pieces []Piece
	for _, one := range found {
		if one.to <= from || one.from >= to {
			continue
		}
		if one.from > from {
			pieces = append(pieces, Show(string(document[from:one.from]))...)
		}
		pieces = append(pieces, one.piece(document))
		from = one.to
	}
	if from < to {
		pieces = append(pieces, Show(string(document[from:to]))...)
	}
	return pieces
}
