// Package errorline describes failed calls in a few words, so that calls that failed alike can be counted together.
package errorline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	maxLine     = 120     // characters
	maxText     = 2000    // bytes of a text that are read
	maxBytes    = 1 << 20 // of arguments and results that are read
	maxWord     = 32      // bytes of a word; longer ones are names
	minArgument = 2       // bytes of an argument that is removed
	prefix      = 16      // bytes of an argument that are enough to find it when its end was cut off
	ellipsis    = "…"
)

// Failure is a failed call.
type Failure struct {
	Kind       tool.FailureKind
	Message    string
	Result     json.RawMessage // a tool result, or the error object of a JSON-RPC error
	Arguments  json.RawMessage
	HTTPStatus int // zero: none
}

// Describe returns a line of at most 120 characters that is the same for calls that failed alike: without the call's arguments,
// and without names, numbers, addresses and quotations that differ from call to call. The texts that it reads may come
// from a hostile server. It returns "" if the arguments are larger than 1 MiB.
func Describe(f *Failure) string {
	if len(f.Arguments) > maxBytes {
		return ""
	}
	text, keep := f.Message, ""
	if f.HTTPStatus > 0 {
		keep = strconv.Itoa(f.HTTPStatus)
	}
	if len(f.Result) <= maxBytes {
		if f.Kind == tool.ToolError {
			text = cmp.Or(firstText(f.Result), text)
		}
		if f.Kind == tool.JSONRPCError {
			if code, message := parseRPCError(f.Result); code != "" {
				text, keep = "JSON-RPC error "+code+": "+message, code
			}
		}
	}
	return generalize(text, keep, argumentTexts(f.Arguments))
}

// firstText returns the first text of a tool result.
func firstText(result json.RawMessage) string {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	for _, block := range r.Content {
		if block.Type == "text" && strings.TrimSpace(block.Text) != "" {
			return block.Text
		}
	}
	return ""
}

func parseRPCError(result json.RawMessage) (code, message string) {
	var e struct {
		Code    *int64 `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(result, &e) != nil || e.Code == nil {
		return "", ""
	}
	return strconv.FormatInt(*e.Code, 10), e.Message
}

// argumentTexts returns the lines of all strings in the arguments, the longest first.
func argumentTexts(arguments json.RawMessage) []string {
	var all any
	if json.Unmarshal(arguments, &all) != nil {
		return nil
	}
	var list []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			for line := range strings.Lines(v) {
				if line = strings.TrimSpace(line); len(line) >= minArgument {
					list = append(list, line)
				}
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(all)
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return list
}

// generalize returns the first line of a text without the parts that differ from call to call. It keeps the number keep.
func generalize(text, keep string, arguments []string) string {
	text = strings.TrimSpace(text[:min(len(text), maxText)])
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = text[:i]
	}
	for _, argument := range arguments {
		text = removeArgument(text, argument)
	}
	text = plain.Line(removeQuotations(text), maxText)
	if i := strings.IndexAny(text, "{<"); i >= 0 { // a document begins
		text = text[:i] + ellipsis
	}
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = generalizeWord(word, keep)
	}
	words = slices.CompactFunc(words, func(a, b string) bool { return a == ellipsis && b == ellipsis })
	runes := []rune(strings.Join(words, " "))
	if len(runes) > maxLine {
		runes = append(runes[:maxLine-1], []rune(ellipsis)...)
	}
	return string(runes)
}

// removeArgument replaces an argument in a line wherever it is not part of a longer word. If only the beginning of a long argument
// appears, it replaces the rest of the line.
func removeArgument(line, argument string) string {
	var b strings.Builder
	rest := line
	for {
		i := strings.Index(rest, argument)
		if i < 0 {
			break
		}
		end := i + len(argument)
		before, _ := utf8.DecodeLastRuneInString(rest[:i])
		after, _ := utf8.DecodeRuneInString(rest[end:])
		b.WriteString(rest[:i])
		if i > 0 && inWord(before) || end < len(rest) && inWord(after) {
			b.WriteString(argument)
		} else {
			b.WriteString(ellipsis)
		}
		rest = rest[end:]
	}
	line = b.String() + rest
	if len(argument) > prefix {
		if i := strings.Index(line, argument[:prefix]); i >= 0 {
			return line[:i] + ellipsis
		}
	}
	return line
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// removeQuotations replaces quotations. An open quotation reaches to the end of the text.
func removeQuotations(text string) string {
	var b strings.Builder
	before := ' '
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		closing := closingQuote(r)
		if closing == 0 || r == '\'' && inWord(before) { // an apostrophe
			b.WriteString(text[i : i+size])
			before, i = r, i+size
			continue
		}
		b.WriteString(ellipsis)
		length := strings.IndexRune(text[i+size:], closing)
		if length < 0 {
			break
		}
		before, i = closing, i+size+length+utf8.RuneLen(closing)
	}
	return b.String()
}

func closingQuote(r rune) rune {
	switch r {
	case '"', '\'', '`':
		return r
	case '“', '„':
		return '”'
	case '‘':
		return '’'
	case '«':
		return '»'
	}
	return 0
}

// generalizeWord replaces a word that is an address, a path or a name by an ellipsis, and each number in any other word by #.
func generalizeWord(word, keep string) string {
	core := strings.Trim(word, ".,:;!?()[]")
	switch {
	case core == "", core == keep, core == ellipsis:
		return word
	case len(core) > maxWord, strings.ContainsAny(core, `/\@=%`), looksLikeID(core):
		return strings.Replace(word, core, ellipsis, 1)
	case !strings.ContainsFunc(core, unicode.IsDigit):
		return word
	}
	var b strings.Builder
	digit := false
	for _, r := range word {
		was := digit
		if digit = unicode.IsDigit(r); !digit {
			b.WriteRune(r)
		} else if !was {
			b.WriteByte('#')
		}
	}
	return b.String()
}

// looksLikeID reports whether a word has digits and letters in turns, as identifiers do and words do not.
func looksLikeID(word string) bool {
	turns, was := 0, false
	for i, r := range word {
		is := unicode.IsDigit(r)
		if i > 0 && is != was {
			turns++
		}
		was = is
	}
	return len(word) >= 8 && turns >= 2
}
