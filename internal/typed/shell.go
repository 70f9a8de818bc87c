package typed

import (
	"path"
	"slices"
	"strings"
)

func (m member) recognizeShell(v *Value, text string, _ int) bool {
	if !m.mayBeShell(text) {
		return false
	}
	r := readShell(text)
	v.Kind, v.Spans = Shell, r.spans
	v.warnAboutComments(r.tokens, isOption)
	v.warnAboutPipes(r.tokens)
	return true
}

func (m member) mayBeShell(text string) bool {
	if strings.HasPrefix(text, "#!") {
		line, _, _ := strings.Cut(text, "\n")
		return strings.Contains(line, "sh")
	}
	if strings.TrimSpace(text) == "" {
		return false
	}
	if m.endsNamed(commandNames) {
		return true
	}
	first, rest, found := strings.Cut(strings.TrimLeft(text, " \t\n$"), " ")
	return found && programs.hasWord(path.Base(first)) && first == strings.ToLower(first) &&
		(strings.Contains(rest, "|") || strings.Contains(rest, "&&") || strings.Contains(rest, "$(") || strings.Contains(" "+rest, " -") || strings.Contains(rest, ";") || strings.Contains(rest, "/"))
}

func readShell(text string) *tokenReader {
	r := &tokenReader{text: text}
	command := true // the next word is a program
	for r.at < len(text) {
		if r.skipSpace() {
			continue
		}
		before := byte('\n')
		if r.at > 0 {
			before = text[r.at-1]
		}
		switch c := text[r.at]; {
		case c == '#' && (isSpace(before) || before == ';'):
			r.addToken(ClassComment, r.endOfWord(func(c byte) bool { return c != '\n' }))
			command = true
		case c == '\'':
			r.addToken(ClassString, r.endOfQuoted(c, 0))
			command = false
		case c == '"', c == '`':
			r.addToken(ClassString, r.endOfQuoted(c, '\\'))
			command = false
		case c == '$' && r.at+1 < len(text) && (isLetter(text[r.at+1]) || text[r.at+1] == '_' || text[r.at+1] == '{'):
			r.addToken(ClassName, endOfVariable(text, r.at))
			command = false
		case strings.IndexByte("|&;()<>{}$", c) >= 0:
			r.addToken(ClassOperator, r.at+1)
			command = c != '<' && c != '>'
		default:
			end := r.endOfWord(func(c byte) bool { return !isSpace(c) && strings.IndexByte("|&;()<>'\"`$", c) < 0 })
			if end == r.at {
				end++
			}
			word := text[r.at:end]
			class := ClassPlain
			switch {
			case command && !strings.Contains(word, "=") && c != '-' || shellWords.hasWord(word) && command:
				class = ClassKeyword
			case isDigit(c) && isNumber(word):
				class = ClassNumber
			}
			command = command && (c == '-' || strings.Contains(word, "=") || shellWords.hasWord(word) || wrappers.hasWord(word))
			r.addToken(class, end)
		}
		if n := len(r.tokens); n > 0 && r.at < len(text) && text[r.at] == '\n' {
			command = !strings.HasSuffix(r.tokens[n-1].text, `\`)
		}
	}
	return r
}

func endOfVariable(text string, at int) int {
	end := at + 1
	if text[end] == '{' {
		if closing := strings.IndexByte(text[at:min(len(text), at+256)], '}'); closing > 0 {
			return at + closing + 1
		}
		return end
	}
	for end < len(text) && (isLetter(text[end]) || isDigit(text[end]) || text[end] == '_') {
		end++
	}
	return end
}

// isOption reports whether a comment reads like a part of a command.
func isOption(comment string) bool {
	for word := range strings.FieldsSeq(comment) {
		if len(word) > 2 && strings.HasPrefix(word, "--") && isLetter(word[2]) || len(word) == 2 && word[0] == '-' && isLetter(word[1]) || word == "&&" || word == "||" || word == "|" {
			return true
		}
	}
	return false
}

// warnAboutPipes warns about interpreters that run a download or a decoded text.
func (v *Value) warnAboutPipes(tokens []token) { //nolint:gocognit // it reads from top to bottom
	var source, code string // the last downloader or decoder of this pipeline
	sourceCode := DownloadExecuted
	for i, t := range tokens {
		switch {
		case t.class == ClassComment:
		case t.class == ClassOperator:
			switch {
			case t.text == ";", t.text == "&" && (i == 0 || tokens[i-1].text != "|") && (i+1 >= len(tokens) || tokens[i+1].text != "&"):
				source, code = "", ""
			}
		case t.class == ClassKeyword:
			switch name := strings.ToLower(path.Base(t.text)); {
			case downloaders.hasWord(name):
				if source, sourceCode = name, DownloadExecuted; code != "" {
					v.addWarning(sourceCode, source, code)
				}
			case decoders.hasWord(name) && slices.ContainsFunc(tokens[i+1:min(len(tokens), i+6)], func(t token) bool { return decodeOptions.hasWord(t.text) }):
				if source == "" {
					source, sourceCode = name, DecodedExecuted
				}
				if code != "" {
					v.addWarning(sourceCode, source, code)
				}
			case interpreters.hasWord(name):
				if source != "" {
					v.addWarning(sourceCode, source, name)
				}
				code = name
			}
		case t.class == ClassString && code != "": // sh -c "$(curl …)"
			for word := range strings.FieldsFuncSeq(t.text, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`$();|&", r) }) {
				if downloaders.hasWord(word) {
					v.addWarning(DownloadExecuted, word, code)
					break
				}
			}
		}
	}
}
