package grant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/google/uuid"
)

// Grant is a grant that may count at present.
type Grant struct {
	ID uuid.UUID
	Spec
	Limited bool // it has a number of uses
	Planned bool // it belongs to a plan

	pattern *Pattern
}

// Book is the set of grants that may count at present. It never changes. The database decides whether one of them still does.
type Book struct {
	byTool map[toolKey][]Grant
}

type toolKey struct {
	agent, skill uuid.UUID
	tool         string
}

// NewBook makes a book. It leaves out grants whose matchers are not valid, which only another version can have stored.
func NewBook(grants []Grant) *Book {
	b := &Book{byTool: map[toolKey][]Grant{}}
	for _, g := range grants {
		pattern, err := Compile(g.Arguments)
		if err != nil {
			continue
		}
		g.pattern = pattern
		key := toolKey{g.AgentID, g.SkillID, g.Tool}
		b.byTool[key] = append(b.byTool[key], g)
	}
	for _, list := range b.byTool {
		slices.SortStableFunc(list, func(a, b Grant) int {
			return cmp.Or(cmp.Compare(a.rankOf(), b.rankOf()), bytes.Compare(a.ID[:], b.ID[:]))
		})
	}
	return b
}

// rankOf orders grants: first those of plans, whose later calls pass only after this use, then those that no use ends.
func (g *Grant) rankOf() int {
	switch {
	case g.Planned:
		return 0
	case !g.Limited:
		return 1
	}
	return 2
}

// Find returns the ids of the grants that a call matches, in the order in which they should be used.
func (b *Book) Find(of *Spec, arguments json.RawMessage) []uuid.UUID {
	var found []uuid.UUID
	for _, g := range b.byTool[toolKey{of.AgentID, of.SkillID, of.Tool}] {
		if g.PrincipalID == of.PrincipalID && g.Pin == of.Pin && g.pattern.Matches(arguments) {
			found = append(found, g.ID)
		}
	}
	return found
}
