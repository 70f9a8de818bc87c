package hostile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Secrets find the values of documents that are hidden until a reader reveals them: texts whose schema declares a property with the name of
// a secret, and texts and numbers that the schema marks as secret, also within such values. A name that only the agent chose hides
// nothing: see [Secrets.NamedByAgent]. Servers choose schemas, so pages count hidden values, show their fingerprints, and do not let a reviewer
// approve those that may not be secrets: see [Secrets.Withheld].
type Secrets struct {
	schema any        // decoded; nil: it hides nothing
	exempt [][]string // paths that hide nothing
}

// SecretsOf returns the secrets of documents with a schema. It marks them by "writeOnly": true or "format": "password", and declares them by
// properties such as "api_token". Values at the exempt paths are shown. A path is a JSON pointer, such as /rows/0/token, in which * stands
// for any name or index; values within an exempt value are hidden only for their own names and marks.
func SecretsOf(schema []byte, exempt ...string) *Secrets {
	if !mayHaveSecrets(string(schema)) {
		return &Secrets{}
	}
	var s Secrets
	if err := json.Unmarshal(schema, &s.schema); err != nil {
		return &Secrets{}
	}
	for _, pointer := range exempt {
		s.exempt = append(s.exempt, parsePointer(pointer))
	}
	return &s
}

func mayHaveSecrets(schema string) bool {
	return strings.Contains(schema, "writeOnly") || strings.Contains(schema, `\u`) || isPrivate(schema)
}

// NamedByAgent returns the paths, as JSON pointers, of texts that have the name of a secret, or are within a value that has, and
// that are shown because the schema does not declare the name.
func (s *Secrets) NamedByAgent(document []byte) []string {
	if s == nil {
		s = &Secrets{}
	}
	f := s.newFinder(document, 0)
	f.listChosen = true
	_ = f.readValue(f.rootPlace()) // those before a syntax error are listed
	return f.chosen
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
	marked   bool // the schema marks the value; otherwise the name that it declares does
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
	return Piece{Kind: Secret, Text: Fingerprint(text), Note: describeSecret(s.marked), Count: utf8.RuneCountInString(text)}
}

// findSecrets returns the secret values of a document, in its order, up to its first syntax error.
func (s *Secrets) findSecrets(document []byte) []secretAt { return s.findSecretsAmong(document, 0) }

// findSecretsAmong is findSecrets for at most so many fields; zero: all.
func (s *Secrets) findSecretsAmong(document []byte, most int) []secretAt {
	if s == nil {
		return nil
	}
	f := s.newFinder(document, most)
	_ = f.readValue(f.rootPlace()) // secrets before a syntax error are hidden
	return f.found
}

func (s *Secrets) newFinder(document []byte, most int) *secretFinder {
	return &secretFinder{decoder: newDecoder(document), root: s.schema, exempt: s.exempt, matches: make(map[string]*regexp.Regexp), most: most}
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
	exempt  [][]string
	path    []string // of the current value

	listChosen bool
	chosen     []string // see Secrets.NamedByAgent
}

func (f *secretFinder) enter(part string) { f.path = append(f.path, part) }

func (f *secretFinder) leave() { f.path = f.path[:len(f.path)-1] }

// maxChosen is the number of paths that [Secrets.NamedByAgent] returns.
const maxChosen = 100

// parsePointer returns the parts of a JSON pointer.
func parsePointer(pointer string) []string {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		parts[i] = pointerUnescapes.Replace(part)
	}
	return parts
}

func joinPointer(parts []string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		_, _ = pointerEscapes.WriteString(&b, part) // never fails
	}
	return b.String()
}

var ( //nolint:gochecknoglobals // tables
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")
)

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
		return readNested(f.decoder, f.countField, func(name string, _ int) error {
			f.enter(name)
			defer f.leave()
			return f.readValue(f.memberPlace(p, name))
		})
	case '[':
		return readNested(f.decoder, f.countField, func(_ string, i int) error {
			f.enter(strconv.Itoa(i))
			defer f.leave()
			return f.readValue(f.elementPlace(p, i))
		})
	default:
	}
	raw, err := f.decoder.ReadValue()
	if err != nil {
		return err
	}
	text, number := raw.Kind() == '"' && len(raw) > len(`""`), raw.Kind() == '0'
	hidden := text && (p.named || p.marked) || number && p.marked
	if f.listChosen && p.chosen && text && !hidden && len(f.chosen) < maxChosen {
		f.chosen = append(f.chosen, joinPointer(f.path))
	}
	if hidden {
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
