package call

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
	maxErrorLine  = 120     // characters
	maxErrorText  = 2000    // bytes of a text that are looked at
	maxErrorBytes = 1 << 20 // of a result that is read for its text, and of arguments that are taken out of it
	maxErrorWord  = 32      // bytes of a word; longer ones are no words
	minLeaf       = 2       // bytes of an argument that is taken out
	longLeaf      = 16      // bytes by which an argument is known that does not stand there as a whole
	leftOut       = "…"
)

// errorLine says in a few words what is wrong with a call that failed, so that calls that failed alike have the same: without
// its arguments, and without names, numbers, addresses and quotations that differ from call to call. What it is made
// of may be a hostile server's.
func errorLine(c *Call, o *outcome) string {
	if o.status != Failed || len(c.Arguments) > maxErrorBytes {
		return ""
	}
	text, keep := o.message, ""
	if c.Measures != nil && c.Measures.HTTPStatus > 0 {
		keep = strconv.Itoa(c.Measures.HTTPStatus)
	}
	if len(o.result) <= maxErrorBytes {
		if o.failure == tool.ToolError {
			text = cmp.Or(firstText(o.result), text)
		}
		if o.failure == tool.JSONRPCError {
			if code, said := rpcError(o.result); code != "" {
				text, keep = "JSON-RPC error "+code+": "+said, code
			}
		}
	}
	return generalize(text, keep, leaves(c.Arguments))
}

// firstText is the first text of a tool result.
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

func rpcError(result json.RawMessage) (code, message string) {
	var e struct {
		Code    *int64 `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(result, &e) != nil || e.Code == nil {
		return "", ""
	}
	return strconv.FormatInt(*e.Code, 10), e.Message
}

// leaves are the texts and numbers in arguments, line by line, the longest first.
func leaves(arguments json.RawMessage) []string {
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
				if line = strings.TrimSpace(line); len(line) >= minLeaf {
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

// generalize is the first line of a text without what differs from call to call. The number keep stays.
func generalize(text, keep string, leaves []string) string {
	text = strings.TrimSpace(text[:min(len(text), maxErrorText)])
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = text[:i]
	}
	for _, leaf := range leaves {
		text = takeOut(text, leaf)
	}
	text = plain.Line(unquote(text), maxErrorText)
	if i := strings.IndexAny(text, "{<"); i >= 0 { // a document begins
		text = text[:i] + leftOut
	}
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = generalWord(word, keep)
	}
	words = slices.CompactFunc(words, func(a, b string) bool { return a == leftOut && b == leftOut })
	runes := []rune(strings.Join(words, " "))
	if len(runes) > maxErrorLine {
		runes = append(runes[:maxErrorLine-1], []rune(leftOut)...)
	}
	return string(runes)
}

// takeOut leaves an argument out of a line where it stands by itself, and the rest of the line where it is one's beginning.
func takeOut(line, leaf string) string {
	var b strings.Builder
	rest := line
	for {
		i := strings.Index(rest, leaf)
		if i < 0 {
			break
		}
		end := i + len(leaf)
		before, _ := utf8.DecodeLastRuneInString(rest[:i])
		after, _ := utf8.DecodeRuneInString(rest[end:])
		b.WriteString(rest[:i])
		if i > 0 && inWord(before) || end < len(rest) && inWord(after) {
			b.WriteString(leaf)
		} else {
			b.WriteString(leftOut)
		}
		rest = rest[end:]
	}
	line = b.String() + rest
	if len(leaf) > longLeaf {
		if i := strings.Index(line, leaf[:longLeaf]); i >= 0 {
			return line[:i] + leftOut
		}
	}
	return line
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// unquote leaves out what stands in quotation marks; one that is not closed takes the rest with it.
func unquote(text string) string {
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
		b.WriteString(leftOut)
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

// generalWord is a word as it stands in all errors of a kind: addresses, paths and names are left out, and numbers are #.
func generalWord(word, keep string) string {
	core := strings.Trim(word, ".,:;!?()[]")
	switch {
	case core == "", core == keep, core == leftOut:
		return word
	case len(core) > maxErrorWord, strings.ContainsAny(core, `/\@=%`), looksLikeID(core):
		return strings.Replace(word, core, leftOut, 1)
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
