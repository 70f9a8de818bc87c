package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/fault"
)

// Words of the plain form of alternatives: each is a line, such as "2 of finance, 1 of compliance" or "1 of cfo@example.com".
const (
	wordOf     = "of"
	wordOr     = "or"
	wordAnd    = "and"    // in no name without quotes: it looks like a comma
	wordTeam   = "team"   // before the name of a team that has an @
	wordPerson = "person" // before the name of a person that has none
	oneAnyone  = "reviewer"
	anyone     = "reviewers"
)

// FormatAlternatives returns the plain form of alternatives, one in each line.
func FormatAlternatives(alternatives []Alternative) string {
	lines := make([]string, len(alternatives))
	for i := range alternatives {
		parts := make([]string, len(alternatives[i].All))
		for j := range alternatives[i].All {
			parts[j] = alternatives[i].All[j].String()
		}
		lines[i] = strings.Join(parts, ", ")
	}
	return strings.Join(lines, "\n")
}

// String returns the plain form of a line.
func (l *Line) String() string {
	var names []string
	for _, team := range l.Teams {
		names = append(names, formatName(team, wordTeam, strings.Contains(team, "@")))
	}
	for _, person := range l.People {
		names = append(names, formatName(person, wordPerson, !strings.Contains(person, "@")))
	}
	switch {
	case len(names) > 0:
		return fmt.Sprintf("%d %s %s", l.Count, wordOf, strings.Join(names, " "+wordOr+" "))
	case l.Count == 1:
		return "1 " + oneAnyone
	}
	return fmt.Sprintf("%d %s", l.Count, anyone)
}

// formatName returns a name as [ParseAlternatives] reads it, in quotes if it would be read as something else.
func formatName(name, kind string, marked bool) string {
	words := strings.Fields(name)
	if len(words) == 0 || strings.Join(words, " ") != name || strings.ContainsAny(name, `,"`) || slices.ContainsFunc(words, isReserved) || words[0] == wordTeam || words[0] == wordPerson {
		name = strconv.Quote(name)
	}
	if marked {
		return kind + " " + name
	}
	return name
}

func isReserved(name string) bool { return name == wordOf || name == wordOr || name == wordAnd }

// ParseAlternatives reads the form of [FormatAlternatives]. Names with an @ are people, others are teams. Names with a comma or one of the
// words "of", "or" and "and" are in quotes. It returns the problems of lines as problems of the field "any", and does not check what [Spec.Check] does.
func ParseAlternatives(text string) ([]Alternative, []fault.Field) {
	var list []Alternative
	var invalid []fault.Field
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		alternative, problem := parseAlternative(line)
		if problem != "" {
			invalid = append(invalid, fault.Field{Name: "any", Expected: fmt.Sprintf("must be like \"2 of finance, 1 of compliance\" in each line; line %d %s", i+1, problem)})
		}
		list = append(list, alternative)
	}
	return list, invalid
}

func parseAlternative(line string) (a Alternative, problem string) {
	words, problem := splitWords(line)
	for problem == "" {
		end := slices.Index(words, word{",", false})
		part := words
		if end >= 0 {
			part = words[:end]
		}
		var one Line
		if one, problem = parseLine(part); problem != "" {
			break
		}
		a.All = append(a.All, one)
		if end < 0 {
			break
		}
		words = words[end+1:]
	}
	return a, problem
}

// word is a word of the plain form, or a comma.
type word struct {
	text   string
	quoted bool
}

// splitWords splits a line into words, quoted texts and commas.
func splitWords(line string) (words []word, problem string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		switch line[0] {
		case ',':
			words, line = append(words, word{",", false}), line[1:]
		case '"':
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, "has a quote without an end"
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, "has a name in quotes that cannot be read"
			}
			words, line = append(words, word{text, true}), line[len(quoted):]
		default:
			end := strings.IndexAny(line, ", \t\"")
			if end < 0 {
				end = len(line)
			}
			words, line = append(words, word{line[:end], false}), line[end:]
		}
	}
	return words, ""
}

// parseLine reads a part of an alternative, such as 2 of finance or cfo@example.com.
func parseLine(words []word) (l Line, problem string) {
	if len(words) == 0 {
		return l, "has nothing before or after a comma"
	}
	count, err := strconv.Atoi(words[0].text)
	if err != nil || words[0].quoted || len(words[0].text) > len("999") || count < 0 {
		return l, fmt.Sprintf("has %q where a number of people must be", words[0].text)
	}
	l.Count = count
	rest := words[1:]
	if len(rest) == 1 && (rest[0] == word{oneAnyone, false} || rest[0] == word{anyone, false}) {
		return l, ""
	}
	if len(rest) == 0 || rest[0] != (word{wordOf, false}) {
		return l, fmt.Sprintf("must have \"of\" and a team or person, or \"reviewers\", after the number %d", count)
	}
	for rest = rest[1:]; ; {
		end := slices.Index(rest, word{wordOr, false})
		name := rest
		if end >= 0 {
			name = rest[:end]
		}
		if problem := l.addName(name); problem != "" {
			return l, problem
		}
		if end < 0 {
			return l, ""
		}
		rest = rest[end+1:]
	}
}

// addName adds a team or a person.
func (l *Line) addName(words []word) (problem string) {
	kind := ""
	if len(words) > 1 && !words[0].quoted && (words[0].text == wordTeam || words[0].text == wordPerson) {
		kind, words = words[0].text, words[1:]
	}
	parts := make([]string, len(words))
	for i, one := range words {
		switch parts[i] = one.text; {
		case one.quoted && len(words) > 1:
			return fmt.Sprintf("has %q beside other words; put the whole name in quotes", one.text)
		case !one.quoted && isReserved(one.text):
			return fmt.Sprintf("has %q in a name; put a comma between parts, or the whole name in quotes", one.text)
		}
	}
	name := strings.Join(parts, " ")
	switch {
	case len(words) == 0:
		return "must have a team or a person after \"of\" and \"or\""
	case kind == wordPerson, kind == "" && strings.Contains(name, "@"):
		l.People = append(l.People, name)
	default:
		l.Teams = append(l.Teams, name)
	}
	return ""
}
