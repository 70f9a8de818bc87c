// Package typed owns the recognition of an argument's value: money, an IBAN, a path, a command and so on, the parts of it that deserve a
// look, and warnings about tricks. Everything that it returns is data without words of a language, and every text in it is a
// part of the value or computed from it. It does not know HTML, history or schemas, and it never changes a value.
//
// It examines the first [MaxScanned] bytes of a text in linear time, and says so in [Value.Partial].
package typed

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxScanned is the number of bytes of a text that are examined for its kind, its spans and its warnings.
const MaxScanned = 128 << 10

// Kind is the recognized kind of a value.
type Kind uint8

// The kinds of values.
const (
	Text Kind = iota
	Number
	Boolean
	Null
	Nested // an object or a list that is nothing more specific
	Money
	IBAN
	Email
	Recipients
	URL
	Path
	Date
	Base64
	JSON // a string that holds an object or a list
	SQL
	Shell
	Diff
	HTML
)

// Value is a recognized value. The pointer that belongs to its kind is set, and no other.
type Value struct {
	Kind     Kind
	Text     string // the decoded string, or the JSON of any other value as it is written
	IsString bool   // the card quotes strings, so that "1000" and 1000 differ
	Like     Kind   // Number, Boolean, Null: the string looks like that JSON type; Text: it does not
	Spans    []Span // cover Text
	Partial  bool   // only the first MaxScanned bytes were examined
	Warnings []Warning

	Money   *MoneyValue
	IBAN    *IBANValue
	Address *Address // of an e-mail
	Domains []Domain // of recipients, the largest first
	Link    *Link    // of a URL
	Path    *PathValue
	Date    *DateValue
	Base64  *Encoded
}

// Recognize recognizes the value of a member with this name. siblings returns other members of the same object, or false; it may be nil.
func Recognize(name string, raw json.RawMessage, siblings func(name string) (json.RawMessage, bool)) Value {
	if siblings == nil {
		siblings = func(string) (json.RawMessage, bool) { return nil, false }
	}
	raw = bytes.TrimSpace(raw)
	m := member{name: splitName(name), key: name, siblings: siblings}
	if len(raw) == 0 {
		return plainValue(Text, "")
	}
	switch raw[0] {
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return plainValue(Text, string(raw))
		}
		return m.recognizeString(text, 0)
	case 't', 'f':
		return plainValue(Boolean, string(raw))
	case 'n':
		return plainValue(Null, string(raw))
	case '{':
		v := plainValue(Nested, string(raw))
		v.Warnings = CompareKeys(raw)
		return v
	case '[':
		return m.recognizeList(raw)
	}
	return m.recognizeNumber(string(raw))
}

// RecognizeText recognizes a text that is not a member of an object.
func RecognizeText(text string) Value {
	return member{siblings: func(string) (json.RawMessage, bool) { return nil, false }}.recognizeString(text, 0)
}

func plainValue(kind Kind, text string) Value {
	return Value{Kind: kind, Text: text, Spans: joinSpans(text, nil)}
}

// member is the place of a value: its name and the other members of its object.
type member struct {
	key      string
	name     []string // its words in lower case
	siblings func(name string) (json.RawMessage, bool)
}

// splitName returns the words of a name in lower case: camelCase, snake_case and kebab-case.
func splitName(name string) []string {
	var words []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			words = append(words, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	lower := false
	for _, r := range name[:min(len(name), 128)] {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r >= utf8.RuneSelf:
			lower = true
		case 'A' <= r && r <= 'Z':
			if lower {
				flush()
			}
			lower = false
		default:
			flush()
			lower = false
			continue
		}
		b.WriteRune(r)
	}
	flush()
	return words
}

// isNamed reports whether a word of the name is in the set.
func (m member) isNamed(set words) bool { return slices.ContainsFunc(m.name, set.hasWord) }

// endsNamed reports whether the last word of the name is in the set.
func (m member) endsNamed(set words) bool {
	return len(m.name) > 0 && set.hasWord(m.name[len(m.name)-1])
}

// siblingText returns the first of these siblings that is a string and not empty, or "".
func (m member) siblingText(names ...string) string {
	for _, name := range names {
		raw, ok := m.siblings(name)
		if !ok || name == m.key || len(raw) > 1024 {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// maxDecoded is the number of encodings within one another that are decoded.
const maxDecoded = 3

// recognizeString recognizes a string within so many encodings.
func (m member) recognizeString(text string, depth int) Value {
	v := Value{Kind: Text, Text: text, IsString: true, Partial: len(text) > MaxScanned}
	seen := cutText(text)
	v.Like = looksLike(seen, v.Partial)
	if v.Like == Number && depth == 0 {
		v.addWarning(NumberAsText, text)
	}
	for _, recognize := range []func(*Value, string, int) bool{
		m.recognizeIBAN, m.recognizeMoney, m.recognizeDate, m.recognizeRecipients, m.recognizeURL, m.recognizeDiff,
		m.recognizeJSON, m.recognizeHTML, m.recognizeSQL, m.recognizeShell, m.recognizePath, m.recognizeBase64,
	} {
		if recognize(&v, seen, depth) {
			break
		}
	}
	v.Spans = joinSpans(text, v.Spans)
	return v
}

// cutText returns the part of a text that is examined, which ends between two characters.
func cutText(text string) string {
	if len(text) <= MaxScanned {
		return text
	}
	end := MaxScanned
	for end > MaxScanned-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// looksLike returns the JSON type that a string could be mistaken for.
func looksLike(text string, partial bool) Kind {
	trimmed := strings.TrimSpace(text)
	switch strings.ToLower(trimmed) {
	case "true", "false":
		return Boolean
	case "null", "nil", "none", "undefined":
		return Null
	}
	if !partial && len(trimmed) < 64 && isNumber(trimmed) {
		return Number
	}
	return Text
}

func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || isDigit(text[0])) && json.Valid([]byte(text))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func (m member) recognizeNumber(text string) Value {
	v := plainValue(Number, text)
	if m.recognizeAmount(&v, text) {
		return v
	}
	m.recognizeEpoch(&v, text)
	return v
}

// recognizeList recognizes a list of recipients.
func (m member) recognizeList(raw json.RawMessage) Value {
	v := plainValue(Nested, string(raw))
	var texts []string
	if json.Unmarshal(raw, &texts) != nil {
		return v
	}
	v.Warnings = CompareKeys(raw)
	if domains, warnings, ok := groupRecipients(texts); ok && len(texts) > 0 {
		v.Kind, v.Domains = Recipients, domains
		v.Warnings = append(v.Warnings, warnings...)
	}
	return v
}
