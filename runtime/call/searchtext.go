package call

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// textMatcher finds a text in argument bytes. The database picks candidates, by bytes alone, so that it does not
// matter in what encoding or locale it works; what matches is decided here.
type textMatcher struct {
	folded  string
	run     string // its longest part that stands in the bytes as it is, unless an escape hides it
	escapes string // what the bytes hold if an escape may hide the text; a part of JSON
}

// newTextMatcher returns nil for no text.
func newTextMatcher(text string) *textMatcher {
	if text == "" {
		return nil
	}
	m := &textMatcher{folded: fold(text), escapes: `\u`}
	if strings.ContainsAny(text, "\"\\/\b\f\n\r\t") {
		m.escapes = `\`
	}
	for part := range strings.FieldsFuncSeq(m.folded, func(r rune) bool { return r >= utf8.RuneSelf || r < ' ' || r == '\\' || r == '"' }) {
		if len(part) > len(m.run) {
			m.run = part
		}
	}
	return m
}

// candidate is a condition of every call that matches, and of some that do not. To encode as 'escape' is to write all
// but ASCII with backslashes; in the collation C only ASCII letters have another case, as in fold.
func (m *textMatcher) candidate(q *statement) string {
	escaped := "submitted IS NOT NULL OR position(" + q.arg([]byte(m.escapes)) + "::bytea IN arguments) > 0 OR "
	if m.run == "" { // all of it is outside ASCII
		return "(" + escaped + `strpos(encode(arguments, 'escape'), '\') > 0)`
	}
	return "(" + escaped + `strpos(lower(encode(arguments, 'escape') COLLATE "C"), ` + q.arg(m.run) + ") > 0)"
}

// matches reports whether the text is in a JSON document, as it is written or as it reads.
func (m *textMatcher) matches(document []byte) bool {
	if len(document) == 0 {
		return false
	}
	if strings.Contains(fold(string(document)), m.folded) {
		return true
	}
	return bytes.IndexByte(document, '\\') >= 0 && strings.Contains(fold(unescape(document)), m.folded)
}

// fold makes letters small, one by one. What is outside ASCII stays there, so that ASCII can be looked for by itself.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		small := unicode.ToLower(r)
		if r >= utf8.RuneSelf && small < utf8.RuneSelf {
			return r
		}
		return small
	}, text)
}

// unescape undoes the escapes of all strings of a JSON document; nothing else in one has a backslash.
func unescape(document []byte) string {
	var b strings.Builder
	b.Grow(len(document))
	for at := bytes.IndexByte(document, '\\'); at >= 0 && at+1 < len(document); at = bytes.IndexByte(document, '\\') {
		b.Write(document[:at])
		size := 2
		switch c := document[at+1]; c {
		case 'u':
			var r rune
			r, size = escaped(document[at:])
			b.WriteRune(r)
		case 'b', 'f', 'n', 'r', 't':
			b.WriteByte("\b\f\n\r\t"[strings.IndexByte("bfnrt", c)])
		default:
			b.WriteByte(c)
		}
		document = document[at+size:]
	}
	b.Write(document)
	return b.String()
}

const unit = len(`\uFFFF`)

// escaped reads a \u escape, or the two of a surrogate pair, and says how long it is.
func escaped(text []byte) (rune, int) {
	first, ok := codeUnit(text)
	if !ok {
		return utf8.RuneError, 2
	}
	if utf16.IsSurrogate(first) {
		if second, ok := codeUnit(text[unit:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return r, 2 * unit
			}
		}
	}
	return first, unit
}

func codeUnit(text []byte) (rune, bool) {
	if len(text) < unit || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	value, err := strconv.ParseUint(string(text[2:unit]), 16, 16)
	return rune(value), err == nil
}
