package history

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// textMatcher finds a text in argument bytes. The database selects candidates by bytes, independent of its encoding and locale;
// textMatcher decides which ones match.
type textMatcher struct {
	folded  string
	run     string // its longest part that appears in the bytes unchanged, unless it is escaped
	escapes string // bytes that are present if the text may be escaped
}

// newTextMatcher returns nil if the text is empty.
func newTextMatcher(text string) *textMatcher {
	if text == "" {
		return nil
	}
	m := &textMatcher{folded: foldCase(text), escapes: `\u`}
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

// candidateSQL returns an SQL condition that holds for all calls that match, and for some others. The encoding 'escape' writes all bytes
// but ASCII with backslashes. The collation C folds only ASCII letters, like foldCase.
func (m *textMatcher) candidateSQL(q *statement) string {
	escaped := "submitted IS NOT NULL OR position(" + q.arg([]byte(m.escapes)) + "::bytea IN arguments) > 0 OR "
	if m.run == "" { // the text has no ASCII
		return "(" + escaped + `strpos(encode(arguments, 'escape'), '\') > 0)`
	}
	return "(" + escaped + `strpos(lower(encode(arguments, 'escape') COLLATE "C"), ` + q.arg(m.run) + ") > 0)"
}

// matches reports whether a JSON document contains the text, as written or with escapes decoded.
func (m *textMatcher) matches(document []byte) bool {
	if len(document) == 0 {
		return false
	}
	if strings.Contains(foldCase(string(document)), m.folded) {
		return true
	}
	return bytes.IndexByte(document, '\\') >= 0 && strings.Contains(foldCase(unescapeJSON(document)), m.folded)
}

// foldCase converts letters to lower case, one by one. No letter outside ASCII becomes an ASCII letter.
func foldCase(text string) string {
	return strings.Map(func(r rune) rune {
		small := unicode.ToLower(r)
		if r >= utf8.RuneSelf && small < utf8.RuneSelf {
			return r
		}
		return small
	}, text)
}

// unescapeJSON decodes the escapes in a JSON document. Only strings contain backslashes.
func unescapeJSON(document []byte) string {
	var b strings.Builder
	b.Grow(len(document))
	for at := bytes.IndexByte(document, '\\'); at >= 0 && at+1 < len(document); at = bytes.IndexByte(document, '\\') {
		b.Write(document[:at])
		size := 2
		switch c := document[at+1]; c {
		case 'u':
			var r rune
			r, size = readEscape(document[at:])
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

// readEscape decodes a \u escape or a surrogate pair, and returns its length.
func readEscape(text []byte) (rune, int) {
	first, ok := parseCodeUnit(text)
	if !ok {
		return utf8.RuneError, 2
	}
	if utf16.IsSurrogate(first) {
		if second, ok := parseCodeUnit(text[unit:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return r, 2 * unit
			}
		}
	}
	return first, unit
}

func parseCodeUnit(text []byte) (rune, bool) {
	if len(text) < unit || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	value, err := strconv.ParseUint(string(text[2:unit]), 16, 16)
	return rune(value), err == nil
}
