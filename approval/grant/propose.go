package grant

import (
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/typed"
)

// Proposal is an argument of a call with the matchers that fit its value.
type Proposal struct {
	Argument string // JSON pointer
	Value    json.RawMessage
	// Matchers are the kinds that fit the value, from the narrowest to the widest; the first is exact.
	Matchers []Matcher
}

// proposedDepth is the depth to which objects in arguments are proposed by their members.
const proposedDepth = 3

// Propose returns the arguments of a call with the matchers that fit them.
func Propose(arguments json.RawMessage) ([]Proposal, error) {
	list, err := propose(nil, "", arguments, proposedDepth)
	if err == nil && len(list) > MaxMatchers {
		list, err = propose(nil, "", arguments, 1)
	}
	if err == nil && len(list) > MaxMatchers {
		err = errors.New("the call has too many arguments for a grant")
	}
	return list, err
}

// ProposeExact returns matchers for exactly these arguments. It returns an error if no grant can be about them.
func ProposeExact(arguments json.RawMessage) ([]Matcher, error) {
	proposals, err := Propose(arguments)
	if err != nil {
		return nil, err
	}
	matchers := make([]Matcher, len(proposals))
	for i := range proposals {
		matchers[i] = proposals[i].Matchers[0]
	}
	if invalid := Check(matchers); len(invalid) > 0 {
		return nil, &fault.InvalidError{Fields: invalid}
	}
	return matchers, nil
}

func propose(list []Proposal, pointer string, object json.RawMessage, depth int) ([]Proposal, error) {
	for member, err := range rawjson.Members(object) {
		if err != nil {
			return nil, err
		}
		at, value := appendPointer(pointer, member.Name()), json.RawMessage(slices.Clone(member.Value))
		if len(at) > maxPointer || len(value) > maxValue {
			return nil, errors.New("an argument of the call is too large for a grant")
		}
		if value[0] == '{' && string(value) != "{}" && depth > 1 {
			if list, err = propose(list, at, value, depth-1); err != nil {
				return nil, err
			}
			continue
		}
		list = append(list, Proposal{Argument: at, Value: value, Matchers: proposeMatchers(at, value)})
	}
	return list, nil
}

// proposeMatchers returns the matchers that fit a value. Each of them matches it.
func proposeMatchers(pointer string, value json.RawMessage) []Matcher {
	list := []Matcher{
		{Argument: pointer, Kind: Exact, Values: []json.RawMessage{value}}, {Argument: pointer, Kind: OneOf, Values: []json.RawMessage{value}},
	}
	scalars := []json.RawMessage{value}
	if value[0] == '[' {
		scalars, _ = readElements(value)
	}
	offer := func(kind Kind, read func(text string) string) {
		var texts []json.RawMessage
		for _, scalar := range scalars {
			text, isText := textOf(scalar)
			if !isText {
				return
			}
			quoted := json.RawMessage(rawjson.AppendString(nil, read(text)))
			if !slices.ContainsFunc(texts, func(known json.RawMessage) bool { return string(known) == string(quoted) }) {
				texts = append(texts, quoted)
			}
		}
		m := Matcher{Argument: pointer, Kind: kind, Values: texts}
		if c, problem := m.compile(); problem == "" && len(texts) > 0 && len(texts) <= MaxValues && c.matches(value) {
			list = append(list, m)
		}
	}
	offer(Domain, func(text string) string {
		domain, _ := condition.FindDomain(text)
		return domain
	})
	offer(PathBelow, folderOf)
	if typed.NamesCommand(pointer[strings.LastIndexByte(pointer, '/')+1:]) {
		offer(Prefix, proposeWords)
	} else {
		offer(Prefix, proposePrefix)
	}
	if number := scalars; len(number) > 0 && !slices.ContainsFunc(number, func(n json.RawMessage) bool { return jsontext.Value(n).Kind() != '0' }) {
		m := Matcher{Argument: pointer, Kind: Range, Min: json.Number(number[0]), Max: json.Number(number[0])}
		for _, n := range number[1:] {
			m.widen(json.Number(n))
		}
		if _, problem := m.compile(); problem == "" {
			list = append(list, m)
		}
	}
	return append(list, Matcher{Argument: pointer, Kind: Anything})
}

// widen makes a range contain a number.
func (m *Matcher) widen(number json.Number) {
	n, err := condition.ParseNumber(string(number))
	least, errMin := condition.ParseNumber(string(m.Min))
	most, errMax := condition.ParseNumber(string(m.Max))
	switch {
	case errors.Join(err, errMin, errMax) != nil:
		m.Min, m.Max = "", "" // it is not offered
	case n.Cmp(least) < 0:
		m.Min = number
	case n.Cmp(most) > 0:
		m.Max = number
	}
}

// folderOf returns the folder of a path, or "" if the text is none.
func folderOf(text string) string {
	if !strings.Contains(text, "/") {
		return ""
	}
	if folder := path.Dir(text); folder != "/" && folder != "." {
		return folder
	}
	return ""
}

// proposePrefix returns the beginning of a text up to its last slash, or its first word.
func proposePrefix(text string) string {
	if at := strings.LastIndex(text, "/"); at > 0 {
		return text[:at+1]
	}
	if at := strings.IndexByte(text, ' '); at > 0 {
		return text[:at+1]
	}
	return text
}

// proposeWords returns the first two words of a command, such as git log.
func proposeWords(text string) string {
	at := strings.IndexByte(text, ' ')
	if at < 0 {
		return text
	}
	if next := strings.IndexByte(text[at+1:], ' '); next >= 0 {
		return text[:at+1+next]
	}
	return text
}

// longestShown is the number of characters of a value in a sentence.
const longestShown = 60

// Describe says in English which values a matcher allows.
func (m *Matcher) Describe() string {
	name := strings.ReplaceAll(strings.TrimPrefix(m.Argument, "/"), "/", ".")
	values := make([]string, len(m.Values))
	for i, value := range m.Values {
		shown := []rune(string(value))
		if len(shown) > longestShown {
			shown = append(shown[:longestShown], '…')
		}
		values[i] = string(shown)
	}
	list := strings.Join(values, " or ")
	switch m.Kind {
	case Exact:
		return name + " is " + list
	case OneOf:
		return name + " is " + list
	case Domain:
		return name + " has the domain " + list
	case PathBelow:
		return name + " is below " + list
	case Prefix:
		return name + " begins with " + list
	case Range:
		switch {
		case m.Min == "":
			return name + " is at most " + string(m.Max)
		case m.Max == "":
			return name + " is at least " + string(m.Min)
		}
		return name + " is from " + string(m.Min) + " to " + string(m.Max)
	case Anything:
	}
	return name + " is anything"
}

// Describe says in English which arguments matchers allow.
func Describe(matchers []Matcher) string {
	if len(matchers) == 0 {
		return "no arguments"
	}
	parts := make([]string, len(matchers))
	for i := range matchers {
		parts[i] = matchers[i].Describe()
	}
	return strings.Join(parts, ", ")
}

// Read makes the matcher that a person chose for the argument: a kind, and values as text, one a line. A range is written as 0..100, with one
// bound or both. Empty text: the values that are proposed for the kind. [Check] finds what is wrong with it.
func (p *Proposal) Read(kind Kind, values string) Matcher {
	m := Matcher{Argument: p.Argument, Kind: kind}
	if values = strings.TrimSpace(values); values == "" || kind == Exact || kind == Anything {
		for _, proposed := range p.Matchers {
			if proposed.Kind == kind {
				return proposed
			}
		}
		return m
	}
	if kind == Range {
		least, most, _ := strings.Cut(values, "..")
		m.Min, m.Max = json.Number(strings.TrimSpace(least)), json.Number(strings.TrimSpace(most))
		return m
	}
	for line := range strings.Lines(values) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		value := json.RawMessage(rawjson.AppendString(nil, line))
		if kind == OneOf && p.Value[0] != '"' {
			value = json.RawMessage(line)
		}
		m.Values = append(m.Values, value)
	}
	return m
}

// Format writes the values of a matcher as text that [Proposal.Read] reads. It reports false if none means the same.
func (m *Matcher) Format(p *Proposal) (values string, ok bool) {
	lines := make([]string, len(m.Values))
	for i, value := range m.Values {
		lines[i] = string(value)
		if text, isText := textOf(value); isText && (m.Kind != OneOf || p.Value[0] == '"') {
			lines[i] = text
		}
	}
	if values = strings.Join(lines, "\n"); m.Kind == Range {
		values = string(m.Min) + ".." + string(m.Max)
	}
	read := p.Read(m.Kind, values)
	return values, read.Min == m.Min && read.Max == m.Max && slices.EqualFunc(read.Values, m.Values, func(a, b json.RawMessage) bool {
		x, okX := canonicalize(a)
		y, okY := canonicalize(b)
		return okX && okY && x == y
	})
}
