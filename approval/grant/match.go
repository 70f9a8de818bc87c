package grant

import (
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/typed"
)

// Pattern tells which arguments a grant allows. It is safe for concurrent use.
type Pattern struct{ root *node }

// Compile makes the pattern of matchers. Error: they were not checked.
func Compile(matchers []Matcher) (*Pattern, error) {
	root := &node{}
	for i := range matchers {
		names, ok := splitPointer(matchers[i].Argument)
		c, problem := matchers[i].compile()
		if !ok || problem != "" || !root.add(names, c) {
			return nil, errors.New("grant: argument " + matchers[i].Argument + " is not valid")
		}
	}
	return &Pattern{root}, nil
}

// Matches reports whether the arguments of a call are allowed. Arguments that cannot be read, or compared exactly, are not.
func (p *Pattern) Matches(arguments json.RawMessage) bool { return p.root.matches(arguments) }

// node is an object whose members are named by a pattern, or a value with a matcher.
type node struct {
	matcher  *compiled // nil: an object
	children map[string]*node
}

// add adds a matcher. It reports false if the place is taken, or lies in a value that has a matcher.
func (n *node) add(names []string, m *compiled) bool {
	if n.matcher != nil {
		return false
	}
	if len(names) == 0 {
		if len(n.children) > 0 {
			return false
		}
		n.matcher = m
		return true
	}
	if n.children == nil {
		n.children = map[string]*node{}
	}
	child := n.children[names[0]]
	if child == nil {
		child = &node{}
		n.children[names[0]] = child
	} else if len(names) == 1 {
		return false
	}
	return child.add(names[1:], m)
}

// matches reports whether a value has exactly the members that the node names, and allowed values in them.
func (n *node) matches(value json.RawMessage) bool {
	if n.matcher != nil {
		return n.matcher.matches(value)
	}
	found := 0
	for member, err := range rawjson.Members(value) {
		if err != nil {
			return false
		}
		child := n.children[member.Name()]
		if child == nil || !child.matches(json.RawMessage(member.Value)) {
			return false
		}
		found++
	}
	return found == len(n.children)
}

// compiled is a matcher, prepared for comparisons.
type compiled struct {
	kind      Kind
	isCommand bool     // a beginning is one of a command for a shell
	values    []string // canonical for exact and one_of
	min, max  *big.Rat // nil: no bound
}

// compile prepares a matcher. It returns what is wrong with its values, or "".
func (m *Matcher) compile() (_ *compiled, problem string) {
	c := &compiled{kind: m.Kind, isCommand: typed.NamesCommand(m.Argument[strings.LastIndexByte(m.Argument, '/')+1:])}
	for _, value := range m.Values {
		if len(value) > maxValue {
			return nil, "must have values of at most 65536 bytes"
		}
		text, isText := textOf(value)
		var err error
		switch m.Kind {
		case Exact, OneOf:
			if text, isText = canonicalize(value); !isText {
				return nil, "must be JSON values without duplicate names"
			}
		case Domain:
			if text, err = normalizeDomain(text); err != nil || !isText {
				return nil, "must be domains, such as example.com"
			}
		case PathBelow:
			if _, err = condition.IsWithin(text+"/file", text); err != nil || !isText {
				return nil, "must be folders without percent signs, backslashes and names that end with a dot"
			}
		case Prefix:
			if !isText || text == "" || !endsHost(text) {
				return nil, "must be texts that are not empty; a URL must have a slash after its host"
			}
		case Range, Anything:
		}
		c.values = append(c.values, text)
	}
	for _, bound := range []struct {
		text json.Number
		into **big.Rat
	}{{m.Min, &c.min}, {m.Max, &c.max}} {
		if bound.text == "" {
			continue
		}
		var err error
		if *bound.into, err = condition.ParseNumber(string(bound.text)); err != nil || !isNumber(string(bound.text)) {
			return nil, "must have bounds that are exact numbers"
		}
	}
	if c.min != nil && c.max != nil && c.min.Cmp(c.max) > 0 {
		return nil, "must have a min that is not above max"
	}
	return c, ""
}

// isNumber reports whether a text is a JSON number.
func isNumber(text string) bool {
	v := jsontext.Value(text)
	return v.IsValid() && v.Kind() == '0' && strings.TrimSpace(text) == text
}

// matches reports whether a value is allowed. Of a list, each element must be, and an empty list is not, except where whole values are compared.
func (c *compiled) matches(value json.RawMessage) bool {
	switch c.kind {
	case Anything:
		return jsontext.Value(value).IsValid()
	case Exact, OneOf:
		text, ok := canonicalize(value)
		return ok && slices.Contains(c.values, text)
	case Domain, PathBelow, Prefix, Range:
	default:
		return false
	}
	if jsontext.Value(value).Kind() != '[' {
		return c.matchesOne(value)
	}
	elements, ok := readElements(value)
	return ok && len(elements) > 0 && !slices.ContainsFunc(elements, func(e json.RawMessage) bool { return !c.matchesOne(e) })
}

func (c *compiled) matchesOne(value json.RawMessage) bool {
	if c.kind == Range {
		if !isNumber(string(value)) {
			return false
		}
		number, err := condition.ParseNumber(string(value))
		return err == nil && (c.min == nil || number.Cmp(c.min) >= 0) && (c.max == nil || number.Cmp(c.max) <= 0)
	}
	text, ok := textOf(value)
	if !ok {
		return false
	}
	if c.kind == Domain {
		domain, err := condition.FindDomain(text)
		return err == nil && slices.Contains(c.values, domain)
	}
	return slices.ContainsFunc(c.values, func(allowed string) bool {
		if c.kind == PathBelow {
			below, err := condition.IsWithin(text, allowed)
			return err == nil && below
		}
		rest, begins := strings.CutPrefix(text, allowed)
		if c.isCommand && begins && rest != "" && (!strings.HasSuffix(allowed, " ") && rest[0] != ' ' || !typed.IsWords(rest)) {
			return false // such as git log; rm
		}
		return begins && (!strings.ContainsAny(allowed, `/\`) || !climbs(rest))
	})
}

// climbs reports whether the end of a path or a URL may lead out of its beginning.
func climbs(rest string) bool {
	lower := strings.ToLower(rest)
	return strings.Contains(rest, "..") || strings.Contains(lower, "%2e") || strings.ContainsRune(rest, '\\')
}

// readElements returns the elements of a JSON list.
func readElements(list json.RawMessage) ([]json.RawMessage, bool) {
	decoder := jsontext.NewDecoder(strings.NewReader(string(list)))
	if _, err := decoder.ReadToken(); err != nil {
		return nil, false
	}
	var elements []json.RawMessage
	for decoder.PeekKind() != ']' {
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, false
		}
		elements = append(elements, json.RawMessage(slices.Clone(value)))
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, false
	}
	_, err := decoder.ReadToken()
	return elements, errors.Is(err, io.EOF)
}
