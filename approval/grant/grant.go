// Package grant owns the meaning of grants: standing approvals of calls like one that a person saw. It knows which arguments a grant is
// about and whether a call has them. It stores nothing; package agent owns the table grants, and package call takes the uses.
package grant

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/internal/fault"
)

// Kind says which values of an argument a grant allows.
type Kind string

// The kinds, from the narrowest to the widest.
const (
	Exact     Kind = "exact"      // one value
	OneOf     Kind = "one_of"     // one of several values
	Domain    Kind = "domain"     // an e-mail address or a URL of one of several domains
	PathBelow Kind = "path_below" // a path below one of several folders
	Prefix    Kind = "prefix"     // a text that begins with one of several texts
	Range     Kind = "range"      // a number within bounds
	Anything  Kind = "anything"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Exact, OneOf, Domain, PathBelow, Prefix, Range, Anything} }

// Matcher says which values of one argument a grant allows.
type Matcher struct {
	// Argument is the JSON pointer of an argument, or of a member of an object in one.
	Argument string `json:"argument"`
	Kind     Kind   `json:"kind"`
	// Values are the allowed ones: one for exact, and texts for domain, path_below and prefix. Range and anything have none.
	Values []json.RawMessage `json:"values,omitempty"`
	// Min and Max are the inclusive bounds of a range. At least one is given.
	Min json.Number `json:"min,omitempty"`
	Max json.Number `json:"max,omitempty"`
}

// Limits of grants.
const (
	MaxMatchers = 100     // in a grant
	MaxValues   = 100     // in a matcher
	maxValue    = 1 << 16 // bytes of one value
	maxPointer  = 1000    // bytes
	maxDepth    = 16      // names in a pointer

	// DefaultTime and DefaultMaxTime are how long a grant lasts if its person does not say, and at most if the server's settings do not.
	DefaultTime    = 8 * time.Hour
	DefaultMaxTime = 30 * 24 * time.Hour
	// MinTime is the shortest time of a grant.
	MinTime = time.Minute
	// MaxUses is the highest number of uses.
	MaxUses = 1_000_000
)

// Spec is what a grant is about: calls of one tool with one definition, by one agent, on behalf of one person or of nobody.
type Spec struct {
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: only calls that name no person
	SkillID     uuid.UUID
	Tool        string
	Pin         [sha256.Size]byte
	// Arguments has one matcher for each argument that a call must have. A call with another argument does not match.
	Arguments []Matcher
}

// Check returns the invalid fields of matchers. Only checked matchers may be stored.
func Check(matchers []Matcher) []fault.Field {
	var invalid []fault.Field
	check := func(ok bool, field, expected string) {
		if !ok {
			invalid = append(invalid, fault.Field{Name: field, Expected: expected})
		}
	}
	check(len(matchers) <= MaxMatchers, "arguments", fmt.Sprintf("must be at most %d matchers", MaxMatchers))
	root := &node{}
	for i := range matchers {
		m, at := &matchers[i], fmt.Sprintf("arguments[%d]", i)
		names, ok := splitPointer(m.Argument)
		check(ok, at+".argument", "must be the JSON pointer of an argument")
		if ok {
			check(root.add(names, &compiled{}), at+".argument", "must not be named twice, neither itself nor with a part of it")
		}
		check(slices.Contains(Kinds(), m.Kind), at+".kind", "must be exact, one_of, domain, path_below, prefix, range or anything")
		switch m.Kind {
		case Exact:
			check(len(m.Values) == 1, at+".values", "must be one value")
		case OneOf, Domain, PathBelow, Prefix:
			check(len(m.Values) > 0 && len(m.Values) <= MaxValues, at+".values", fmt.Sprintf("must be 1 to %d values", MaxValues))
		case Range, Anything:
			check(len(m.Values) == 0, at+".values", "must be omitted")
		}
		if m.Kind == Range {
			check(m.Min != "" || m.Max != "", at+".min", "must be a number, or max must be one")
		} else {
			check(m.Min == "" && m.Max == "", at+".min", "must be omitted, and so must max: only a range has bounds")
		}
		if _, problem := m.compile(); problem != "" {
			check(false, at+".values", problem)
		}
	}
	return invalid
}

// IsOpen reports whether an argument can have any value, or any above or below a bound: such grants are wide.
func (m *Matcher) IsOpen() bool {
	return m.Kind == Anything || m.Kind == Range && (m.Min == "" || m.Max == "")
}

// splitPointer returns the names of a JSON pointer.
func splitPointer(pointer string) ([]string, bool) {
	if !strings.HasPrefix(pointer, "/") || len(pointer) > maxPointer || strings.ContainsRune(pointer, 0) {
		return nil, false
	}
	names := strings.Split(pointer[1:], "/")
	if len(names) > maxDepth {
		return nil, false
	}
	for i, name := range names {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(name), "~") {
			return nil, false
		}
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names, true
}

// appendPointer returns the pointer of a member.
func appendPointer(pointer, name string) string {
	return pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// canonicalize returns a text that equal JSON values share. Numbers are equal if they are written alike: 1 and 1.0, or 0 and -0, differ, because
// servers may tell them apart.
func canonicalize(value json.RawMessage) (string, bool) {
	v := jsontext.Value(slices.Clone(value))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return "", false
	}
	return string(v), true
}

// CanonicalForm returns a text that is the same for arguments which an exact grant does not tell apart. Empty: they cannot be compared.
func CanonicalForm(arguments json.RawMessage) string {
	form, _ := canonicalize(arguments)
	return form
}

// textOf returns the text of a JSON string.
func textOf(value json.RawMessage) (string, bool) {
	if jsontext.Value(value).Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, []byte(strings.TrimSpace(string(value))))
	return string(text), err == nil
}

// normalizeDomain returns a domain as [condition.FindDomain] does.
func normalizeDomain(domain string) (string, error) {
	return condition.FindDomain("name@" + strings.TrimPrefix(domain, "@"))
}

// endsHost reports whether a text that begins like a URL goes on after its host. Otherwise https://example.com is also the beginning of
// https://example.com.evil.net.
func endsHost(prefix string) bool {
	_, rest, isURL := strings.Cut(prefix, "://")
	if !isURL {
		return true
	}
	parsed, err := url.Parse(prefix)
	return err == nil && parsed.User == nil && strings.Contains(rest, "/") && !strings.HasPrefix(rest, "/")
}
