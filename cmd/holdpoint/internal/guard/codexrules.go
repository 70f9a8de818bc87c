package guard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/approval/rule"
)

// Codex translates a rules file of Codex. It reads calls of prefix_rule with literal arguments; everything else is left out with a note.
func (im *Importer) Codex(file string, text []byte) error {
	p := &starlark{text: string(text), line: 1}
	for {
		p.skipSpace()
		if p.at >= len(p.text) {
			return nil
		}
		line := p.line
		name := p.readName()
		if name == "" || !p.take('(') {
			return fmt.Errorf("%s:%d: must be calls such as prefix_rule(pattern=[…], decision=\"allow\")", file, line)
		}
		arguments, err := p.readArguments()
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", file, p.line, name, err)
		}
		source := fmt.Sprintf("%s:%d: %s", file, line, name)
		if name != "prefix_rule" {
			effect := rule.Allow
			if decision, given := arguments["decision"]; given && decision != "allow" {
				effect = rule.Park
			}
			im.leaveOutf(source, effect, codexTools, "only prefix_rule can be said")
			continue
		}
		im.importPrefixRule(source, arguments)
	}
}

// codexTools is the tool that Codex's rules are about.
var codexTools = []string{"Bash"}

func (im *Importer) importPrefixRule(source string, arguments map[string]any) {
	decision, _ := arguments["decision"].(string)
	effect, ok := map[string]rule.Effect{"": rule.Allow, "allow": rule.Allow, "prompt": rule.Park, "forbidden": rule.Deny}[decision]
	if _, given := arguments["decision"]; !ok || given && decision == "" {
		im.notef(source, "its commands wait: decision must be allow, prompt or forbidden")
		effect = rule.Park
	}
	pattern, _ := arguments["pattern"].([]any)
	if len(pattern) == 0 {
		im.leaveOutf(source, effect, codexTools, "pattern must be a list of words")
		return
	}
	commands := [][]string{nil}
	for _, element := range pattern {
		var words []string
		switch element := element.(type) {
		case string:
			words = []string{element}
		case []any:
			for _, one := range element {
				word, ok := one.(string)
				if !ok {
					im.leaveOutf(source, effect, codexTools, "pattern must be words, or lists of words")
					return
				}
				words = append(words, word)
			}
		default:
			im.leaveOutf(source, effect, codexTools, "pattern must be words, or lists of words")
			return
		}
		var longer [][]string
		for _, command := range commands {
			for _, word := range words {
				longer = append(longer, append(append([]string{}, command...), word))
			}
		}
		if commands = longer; len(commands) > 100 {
			im.leaveOutf(source, effect, codexTools, "must stand for at most 100 commands")
			return
		}
	}
	for _, command := range commands {
		said := source + " " + strings.Join(command, " ")
		if effect == rule.Allow && strings.Contains(strings.Join(command, ""), "*") {
			im.notef(said, "left out: must have no *") // a literal one
			continue
		}
		im.addCommand(said, effect, codexTools[0], append(command, "*"))
	}
}

// starlark reads the few forms of Starlark that rules need.
type starlark struct {
	text string
	at   int
	line int
}

func (p *starlark) skipSpace() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case '\n':
			p.line++
			p.at++
		case ' ', '\t', '\r':
			p.at++
		case '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

func (p *starlark) take(c byte) bool {
	p.skipSpace()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *starlark) readName() string {
	p.skipSpace()
	begin := p.at
	for p.at < len(p.text) && (p.text[p.at] == '_' || p.text[p.at] >= 'a' && p.text[p.at] <= 'z' || p.text[p.at] >= 'A' && p.text[p.at] <= 'Z') {
		p.at++
	}
	return p.text[begin:p.at]
}

// readArguments reads named arguments up to the closing parenthesis.
func (p *starlark) readArguments() (map[string]any, error) {
	arguments := map[string]any{}
	for !p.take(')') {
		name := p.readName()
		if name == "" || !p.take('=') {
			return nil, errors.New("arguments must be written as name=value")
		}
		if _, ok := arguments[name]; ok {
			return nil, fmt.Errorf("%s: must be given once", name)
		}
		value, err := p.readValue(0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		arguments[name] = value
		if !p.take(',') {
			if p.take(')') {
				return arguments, nil
			}
			return nil, fmt.Errorf("%s: must be one text, or one list", name)
		}
	}
	return arguments, nil
}

func (p *starlark) readValue(depth int) (any, error) {
	p.skipSpace()
	switch {
	case depth > 10 || p.at >= len(p.text):
		return nil, errors.New("must be a text, or a list of texts")
	case p.text[p.at] == '"' || p.text[p.at] == '\'':
		return p.readText()
	case p.take('['):
		list := []any{}
		for !p.take(']') {
			value, err := p.readValue(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
			if !p.take(',') {
				if p.take(']') {
					return list, nil
				}
				return nil, errors.New("must be a list that ends with ]")
			}
		}
		return list, nil
	}
	return nil, errors.New("must be a text, or a list of texts")
}

// readText reads a text in quotes, without the triple ones.
func (p *starlark) readText() (string, error) {
	quote := p.text[p.at]
	for end := p.at + 1; end < len(p.text); end++ {
		switch p.text[end] {
		case '\\':
			end++
		case '\n':
			return "", errors.New("a text must end on its line")
		case quote:
			inner := p.text[p.at+1 : end]
			if inner == "" && end+1 < len(p.text) && p.text[end+1] == quote {
				return "", errors.New("must be a text in single or double quotes, not three")
			}
			p.at = end + 1
			if quote == '\'' {
				inner = strings.ReplaceAll(strings.ReplaceAll(inner, `\'`, `'`), `"`, `\"`)
			}
			text, err := strconv.Unquote(`"` + inner + `"`)
			if err != nil {
				return "", errors.New("a text has an escape that is not known")
			}
			return text, nil
		}
	}
	return "", errors.New("a text must end with its quote")
}
