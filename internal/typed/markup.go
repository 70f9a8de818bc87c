package typed

import (
	"encoding/json"
	"strings"
)

// recognizeJSON recognizes a string that holds an object or a list.
func (m member) recognizeJSON(v *Value, seen string, _ int) bool {
	trimmed := strings.TrimSpace(v.Text)
	if len(trimmed) < 2 || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid([]byte(trimmed)) {
		return false
	}
	v.Kind = JSON
	v.Warnings = append(v.Warnings, CompareKeys(json.RawMessage(trimmed))...)
	r := tokenReader{text: seen}
	for r.at < len(seen) {
		if r.skipSpace() {
			continue
		}
		switch c := seen[r.at]; {
		case c == '"':
			end := r.endOfQuoted('"', '\\')
			class := ClassString
			if rest := strings.TrimLeft(seen[end:min(len(seen), end+16)], " \t\r\n"); strings.HasPrefix(rest, ":") {
				class = ClassName
			}
			r.addToken(class, end)
		case c == '-' || isDigit(c):
			r.addToken(ClassNumber, r.endOfWord(func(c byte) bool { return isDigit(c) || strings.IndexByte("+-.eE", c) >= 0 }))
		case isLetter(c):
			r.addToken(ClassKeyword, r.endOfWord(isLetter))
		default:
			r.addToken(ClassPlain, r.at+1)
		}
	}
	v.Spans = r.spans
	return true
}

// recognizeDiff recognizes unified diffs.
func (m member) recognizeDiff(v *Value, text string, _ int) bool {
	isPatch := strings.HasPrefix(text, "*** Begin Patch\n")
	isDiff := isPatch || strings.HasPrefix(text, "diff --git ") || strings.HasPrefix(text, "@@ -") || strings.HasPrefix(text, "Index: ") && strings.Contains(text, "\n@@ -") ||
		strings.HasPrefix(text, "--- ") && strings.Contains(text, "\n+++ ") || m.isNamed(diffNames) && strings.Contains(text, "\n@@ -")
	if !isDiff {
		return false
	}
	v.Kind = Diff
	inHunk := false
	for line := range strings.Lines(text) {
		class := ClassPlain
		switch {
		case strings.HasPrefix(line, "@@"):
			class, inHunk = ClassHeader, true
		case isPatch && strings.HasPrefix(line, "*** "):
			class = ClassHeader
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "Index: "):
			class, inHunk = ClassHeader, false
		case !inHunk && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ")):
			class = ClassHeader
		case strings.HasPrefix(line, "+"):
			class = ClassAdded
		case strings.HasPrefix(line, "-"):
			class = ClassRemoved
		}
		v.Spans = append(v.Spans, Span{class, line})
	}
	return true
}

// recognizeHTML recognizes a text with tags.
func (m member) recognizeHTML(v *Value, text string, _ int) bool {
	start := strings.ToLower(strings.TrimSpace(text[:min(len(text), 64)]))
	isHTML := strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
	if !isHTML && (strings.Count(text, "<") == 0 || !hasTag(text)) {
		return false
	}
	v.Kind = HTML
	r := tokenReader{text: text}
	for r.at < len(text) {
		open := strings.IndexByte(text[r.at:], '<')
		if open < 0 {
			break
		}
		if open > 0 {
			r.addToken(ClassPlain, r.at+open)
		}
		if strings.HasPrefix(text[r.at:], "<!--") {
			end := strings.Index(text[r.at:], "-->")
			if end < 0 {
				r.addToken(ClassComment, len(text))
				break
			}
			r.addToken(ClassComment, r.at+end+len("-->"))
			continue
		}
		end := endOfTag(text, r.at)
		if end == 0 {
			r.addToken(ClassPlain, r.at+1)
			continue
		}
		tag := text[r.at:end]
		if active := findActive(tag); active != "" {
			v.addWarning(ActiveContent, active)
		}
		r.addToken(ClassTag, end)
	}
	v.Spans = r.spans
	return true
}

// tagNames are the tags by which a text is recognized as HTML.

// hasTag reports whether one of the first tags of a text is a tag of HTML.
func hasTag(text string) bool {
	at := 0
	for range 64 {
		open := strings.IndexByte(text[at:], '<')
		if open < 0 {
			return false
		}
		at += open
		if end := endOfTag(text, at); end > 0 && tagNames.hasWord(tagName(text[at:end])) {
			return true
		}
		at++
	}
	return false
}

// longTag is the number of bytes of the longest tag.
const longTag = 8 << 10

// endOfTag returns the end of the tag that begins at from, or zero if none begins there.
func endOfTag(text string, from int) int {
	if from+2 >= len(text) || !isLetter(text[from+1]) && text[from+1] != '/' && text[from+1] != '!' {
		return 0
	}
	end := strings.IndexByte(text[from:min(len(text), from+longTag)], '>')
	if end < 0 || strings.IndexByte(text[from+1:from+end], '<') >= 0 {
		return 0
	}
	return from + end + 1
}

func tagName(tag string) string {
	name := strings.TrimPrefix(tag[1:], "/")
	end := 0
	for end < len(name) && (isLetter(name[end]) || isDigit(name[end])) {
		end++
	}
	return strings.ToLower(name[:end])
}

// findActive returns the part of a tag that runs code, or "".
func findActive(tag string) string {
	name := tagName(tag)
	if !strings.HasPrefix(tag, "</") && activeTags.hasWord(name) {
		return name
	}
	lower := strings.ToLower(tag)
	if strings.Contains(lower, "javascript:") {
		return "javascript:"
	}
	for rest := lower; ; {
		at := strings.Index(rest, " on")
		if at < 0 {
			return ""
		}
		rest = rest[at+1:]
		end := 0
		for end < len(rest) && isLetter(rest[end]) {
			end++
		}
		if end > 3 && strings.HasPrefix(strings.TrimLeft(rest[end:], " "), "=") {
			return rest[:end]
		}
	}
}
