package hostile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Secrets find the values of documents that are hidden until a reader reveals them: texts with the name of a secret, texts within a value
// with such a name, and texts and numbers that a schema marks as secret. Agents and servers choose names and schemas, so pages count
// hidden values, show their fingerprints, and do not let a reviewer approve those that may not be secrets: see [Secrets.Withheld].
type Secrets struct {
	schema any // decoded; nil: only names count
}

// SecretsOf returns the secrets of documents with a schema, which marks them by "writeOnly": true or "format": "password".
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

// Count returns the number of secret values in a document.
func (s *Secrets) Count(document []byte) int { return len(s.findSecrets(document)) }

// Withheld returns the number of secret values that may not be secrets: those that are long, have several lines, or are within a value that
// is named or marked as secret. Agents and servers could hide the purpose of a call there, so a reviewer has to reveal them first.
func (s *Secrets) Withheld(document []byte) int {
	n := 0
	for _, one := range s.findSecrets(document) {
		if one.below || isTooLong(one.readText(document)) {
			n++
		}
	}
	return n
}

// longSecret is the number of characters of the longest secret that is not withheld. Tokens and keys in calls are shorter.
const longSecret = 256

func isTooLong(text string) bool {
	return utf8.RuneCountInString(text) > longSecret || strings.ContainsAny(text, "\n\r\u2028\u2029")
}

// Redacted returns the document with a description in place of each secret value, and the number of these values. It hides nothing after
// the first syntax error of a document.
func (s *Secrets) Redacted(document []byte) (text []byte, hidden int) {
	return s.replaceSecrets(document, func(one secretAt) string { return one.makePiece(document).String() })
}

// Masked returns the document with the same word in place of each secret value.
func (s *Secrets) Masked(document []byte, word string) []byte {
	text, _ := s.replaceSecrets(document, func(secretAt) string { return word })
	return text
}

func (s *Secrets) replaceSecrets(document []byte, with func(secretAt) string) (text []byte, hidden int) {
	found := s.findSecrets(document)
	at := 0
	for _, one := range found {
		text = append(text, document[at:one.from]...)
		at = one.to
		text = append(text, quoteJSON(with(one))...)
	}
	return append(text, document[at:]...), len(found)
}

// String returns the piece as plain text.
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

// secretAt is the position of a secret value in a document.
type secretAt struct {
	from, to int
	marked   bool // the schema marks the value; otherwise its name does
	below    bool // a value around it is named or marked
}

func (s secretAt) readText(document []byte) string {
	text := string(document[s.from:s.to])
	if strings.HasPrefix(text, `"`) {
		text = unquoteJSON(jsontext.Value(text))
	}
	return text
}

// makePiece returns the piece that replaces the value.
func (s secretAt) makePiece(document []byte) Piece {
	text := s.readText(document)
	why := "its name says that it is secret"
	if s.marked {
		why = "the tool’s schema says that it is secret"
	}
	return Piece{Kind: Secret, Text: Fingerprint(text), Note: why, Count: utf8.RuneCountInString(text)}
}

// findSecrets returns the secret values of a document, in its order, up to its first syntax error.
func (s *Secrets) findSecrets(document []byte) []secretAt { return s.findSecretsAmong(document, 0) }

// findSecretsAmong is findSecrets for at most so many fields; zero: all.
func (s *Secrets) findSecretsAmong(document []byte, most int) []secretAt {
	if s == nil {
		return nil
	}
	f := secretFinder{decoder: newDecoder(document), root: s.schema, matches: make(map[string]*regexp.Regexp), most: most}
	_ = f.readValue(f.rootPlace()) // secrets before a syntax error are hidden
	return f.found
}

// secretsByEnd returns the secrets among at most so many fields of a document, by the position of their end.
func (s *Secrets) secretsByEnd(document []byte, most int) map[int64]secretAt {
	found := s.findSecretsAmong(document, most)
	if len(found) == 0 {
		return nil
	}
	ends := make(map[int64]secretAt, len(found))
	for _, one := range found {
		ends[int64(one.to)] = one
	}
	return ends
}

// secretFinder reads a document and its schema side by side.
type secretFinder struct {
	decoder *jsontext.Decoder
	root    any
	matches map[string]*regexp.Regexp // by pattern; nil: Go cannot compile it
	found   []secretAt
	most    int // fields; zero: any number
	fields  int
}

// countField counts a field, as a fieldReader does.
func (f *secretFinder) countField() error {
	if f.fields++; f.most > 0 && f.fields >= f.most {
		return errEnough
	}
	return nil
}

func (f *secretFinder) readValue(p place) error {
	switch f.decoder.PeekKind() {
	case '{':
		return readNested(f.decoder, f.countField, func(name string, _ int) error { return f.readValue(f.memberPlace(p, name)) })
	case '[':
		return readNested(f.decoder, f.countField, func(_ string, i int) error { return f.readValue(f.elementPlace(p, i)) })
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
	return f.countField()
}

// ShowDocument shows a document as it is written, within limits and without its secrets.
func ShowDocument(document []byte, l Limits) Value {
	text, found := string(document), l.Secrets.findSecrets(document)
	v := Fold(text, l)
	if len(found) == 0 {
		return v
	}
	head, tail, _ := splitHeadTail(text, l)
	v.Head = showPart(document, 0, head, found)
	if tail < len(text) {
		v.Tail = showPart(document, tail, len(text), found)
	}
	return v
}

// showPart shows a part of a document. A secret that is partly in it becomes a piece.
func showPart(document []byte, from, to int, found []secretAt) []Piece {
	var pieces []Piece
	for _, one := range found {
		if one.to <= from || one.from >= to {
			continue
		}
		if one.from > from {
			pieces = append(pieces, Show(string(document[from:one.from]))...)
		}
		pieces = append(pieces, one.makePiece(document))
		from = one.to
	}
	if from < to {
		pieces = append(pieces, Show(string(document[from:to]))...)
	}
	return pieces
}
