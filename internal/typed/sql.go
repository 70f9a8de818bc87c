package typed

import (
	"slices"
	"strings"
)

func (m member) recognizeSQL(v *Value, text string, _ int) bool {
	if !m.mayBeSQL(text) {
		return false
	}
	r := readSQL(text)
	code := slices.DeleteFunc(slices.Clone(r.tokens), func(t token) bool { return t.class == ClassComment })
	if len(code) == 0 || code[0].class != ClassKeyword || !statementWords.hasWordFold(code[0].text) {
		return false
	}
	named, clause := m.isNamed(queryNames), false
	for _, t := range code[1:] {
		clause = clause || t.class == ClassKeyword && clauseWords.hasWordFold(t.text)
	}
	upper := strings.ToUpper(code[0].text) == code[0].text
	if !clause && !m.isNamed(sqlName) || !named && !upper && !strings.ContainsAny(text, ";*=") {
		return false
	}
	v.Kind, v.Spans = SQL, r.spans
	v.warnAboutComments(r.tokens, isClause)
	for statement := range slices.Values(splitStatements(code)) {
		v.warnAboutStatement(statement)
	}
	return true
}

// mayBeSQL looks at the first word of a text, behind comments.
func (m member) mayBeSQL(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n(")
	if strings.HasPrefix(text, "--") || strings.HasPrefix(text, "/*") || strings.HasPrefix(text, "#") {
		return m.isNamed(queryNames) || strings.HasPrefix(text, "--")
	}
	end := 0
	for end < len(text) && isLetter(text[end]) {
		end++
	}
	return end > 0 && end < len(text) && end < 12 && statementWords.hasWordFold(text[:end])
}

func readSQL(text string) *tokenReader {
	r := &tokenReader{text: text}
	for r.at < len(text) {
		if r.skipSpace() {
			continue
		}
		rest := text[r.at:]
		switch c := text[r.at]; {
		case strings.HasPrefix(rest, "--"), c == '#' && !strings.HasPrefix(rest, "#>") && !strings.HasPrefix(rest, "#-"):
			r.addToken(ClassComment, r.endOfWord(func(c byte) bool { return c != '\n' }))
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				r.addToken(ClassComment, len(text))
			} else {
				r.addToken(ClassComment, r.at+end+4)
			}
		case c == '\'', c == '"', c == '`':
			r.addToken(ClassString, r.endOfQuoted(c, 0))
		case c == '$':
			r.takeDollarQuoted()
		case isDigit(c):
			r.addToken(ClassNumber, r.endOfWord(func(c byte) bool { return isDigit(c) || isLetter(c) || c == '.' }))
		case isLetter(c) || c == '_' || c >= 0x80:
			end := r.endOfWord(func(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '.' || c >= 0x80 })
			class := ClassPlain
			if sqlKeywords.hasWordFold(text[r.at:end]) {
				class = ClassKeyword
			}
			r.addToken(class, end)
		default:
			r.addToken(ClassOperator, r.at+1)
		}
	}
	return r
}

// takeDollarQuoted reads $tag$…$tag$ or a parameter.
func (r *tokenReader) takeDollarQuoted() {
	rest := r.text[r.at:]
	end := 1
	for end < len(rest) && end < 64 && (isLetter(rest[end]) || isDigit(rest[end]) || rest[end] == '_') {
		end++
	}
	if end == len(rest) || rest[end] != '$' {
		r.addToken(ClassName, r.at+end)
		return
	}
	tag := rest[:end+1]
	if closing := strings.Index(rest[len(tag):], tag); closing >= 0 {
		r.addToken(ClassString, r.at+closing+2*len(tag))
		return
	}
	r.addToken(ClassString, len(r.text))
}

// splitStatements splits tokens at semicolons.
func splitStatements(tokens []token) [][]token {
	var list [][]token
	from := 0
	for i, t := range tokens {
		if t.class == ClassOperator && t.text == ";" {
			list = append(list, tokens[from:i])
			from = i + 1
		}
	}
	return append(list, tokens[from:])
}

func (v *Value) warnAboutStatement(tokens []token) {
	if len(tokens) < 2 {
		return
	}
	first := strings.ToLower(tokens[0].text)
	conditional := false
	for i, t := range tokens {
		word := strings.ToLower(t.text)
		if t.class != ClassKeyword || word != "where" && word != "or" {
			continue
		}
		conditional = conditional || word == "where"
		if condition := readAlwaysTrue(tokens[i+1:]); condition != "" {
			v.addWarning(AlwaysTrue, condition)
		}
	}
	second := strings.ToLower(tokens[1].text)
	if !conditional && (first == "delete" && second == "from" || first == "update" && slices.ContainsFunc(tokens, func(t token) bool { return strings.EqualFold(t.text, "set") })) {
		v.addWarning(NoCondition, strings.ToUpper(first))
	}
}

// readAlwaysTrue returns the condition at the start of tokens if it is true for all rows: 1=1, 'a'='a', TRUE.
func readAlwaysTrue(tokens []token) string {
	if len(tokens) > 0 && (strings.EqualFold(tokens[0].text, "true") || tokens[0].text == "1") && (len(tokens) == 1 || tokens[1].class == ClassKeyword && !strings.EqualFold(tokens[1].text, "and")) {
		return tokens[0].text
	}
	if len(tokens) < 3 || tokens[1].text != "=" || tokens[0].text != tokens[2].text || tokens[0].class == ClassOperator || tokens[0].class == ClassName {
		return ""
	}
	if len(tokens) > 3 && (strings.EqualFold(tokens[3].text, "and") || tokens[3].class == ClassOperator && tokens[3].text != ")") {
		return ""
	}
	return tokens[0].text + "=" + tokens[2].text
}

// warnAboutComments warns about comments that look like a part of the code before or after them.
func (v *Value) warnAboutComments(tokens []token, looksEffective func(comment string) bool) {
	for i, t := range tokens {
		if t.class != ClassComment {
			continue
		}
		if strings.HasPrefix(t.text, "/*!") {
			v.addWarning(ExecutableComment, t.text)
			continue
		}
		beside := i > 0 && (!t.line || tokens[i-1].class != ClassComment && !strings.HasSuffix(tokens[i-1].text, ";"))
		if beside && looksEffective(trimComment(t.text)) {
			v.addWarning(HiddenText, t.text)
		}
	}
}

func trimComment(comment string) string {
	return strings.TrimSpace(strings.TrimRight(strings.TrimLeft(comment, "-#/*"), "*/"))
}

// isClause reports whether a comment reads like a clause of SQL.
func isClause(comment string) bool {
	tokens := readSQL(comment[:min(len(comment), 2048)]).tokens
	for i, t := range tokens {
		if t.class != ClassKeyword {
			continue
		}
		rest := tokens[i+1:]
		rest = rest[:min(len(rest), 8)]
		switch strings.ToLower(t.text) {
		case "where", "and", "or", "on", "having", "set":
			if slices.ContainsFunc(rest, func(t token) bool {
				return strings.ContainsAny(t.text, "=<>") && t.class == ClassOperator || t.class == ClassKeyword && testWords.hasWordFold(t.text)
			}) {
				return true
			}
		case "limit", "offset":
			if len(rest) > 0 && rest[0].class == ClassNumber {
				return true
			}
		case "rollback", "commit":
			return len(tokens) <= 2
		}
	}
	return false
}
