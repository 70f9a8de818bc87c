package identity

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/pattern"
)

// Limit restricts the calls that a reviewer may decide. A call must be in one of the teams, of one of the skills and of one of the agents; an
// empty list restricts nothing.
type Limit struct {
	Teams  []string `json:"teams,omitempty"`
	Skills []string `json:"skills,omitempty"` // names, in which * stands for any characters
	Agents []string `json:"agents,omitempty"` // likewise
}

// Scope is what a call is about, for the limits of reviewers.
type Scope struct {
	Teams []string // that the call was given to
	Skill string
	Agent string
}

// Covers reports whether a limit includes a call. Nil includes all calls.
func (l *Limit) Covers(s Scope) bool {
	return l == nil || pattern.MatchesAny(l.Skills, s.Skill) && pattern.MatchesAny(l.Agents, s.Agent) &&
		(len(l.Teams) == 0 || slices.ContainsFunc(s.Teams, func(team string) bool { return slices.Contains(l.Teams, team) }))
}

// String lists what a limit includes, or "" for nil.
func (l *Limit) String() string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, of := range []struct {
		kind  string
		names []string
	}{{"teams", l.Teams}, {"skills", l.Skills}, {"agents", l.Agents}} {
		if len(of.names) > 0 {
			parts = append(parts, of.kind+": "+strings.Join(of.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// Contains reports whether a limit includes all that another one includes, as far as their lists show it.
func (l *Limit) Contains(other *Limit) bool {
	if l == nil || other == nil {
		return l == nil
	}
	contains := func(list, other []string) bool {
		return len(list) == 0 || len(other) > 0 && !addsAny(other, list)
	}
	return contains(l.Teams, other.Teams) && contains(l.Skills, other.Skills) && contains(l.Agents, other.Agents)
}

// LimitError says that a reviewer may not decide a call because of the limit of the role.
type LimitError struct{ Limit Limit }

func (e *LimitError) Error() string {
	return "the call is outside the limit of your role as a reviewer (" + e.Limit.String() + "): another reviewer has to decide it"
}

// maxPattern bounds a name in a limit, in bytes.
const maxPattern = 256

// normalize sorts the lists, and returns nil for a limit that restricts nothing.
func (l *Limit) normalize() *Limit {
	if l == nil {
		return nil
	}
	normal := &Limit{}
	for _, of := range []struct{ to, from *[]string }{{&normal.Teams, &l.Teams}, {&normal.Skills, &l.Skills}, {&normal.Agents, &l.Agents}} {
		if len(*of.from) > 0 && (of.to == &normal.Teams || !slices.Contains(*of.from, AnyAgent)) {
			*of.to = unionSorted(*of.from)
		}
	}
	if normal.String() == "" {
		return nil
	}
	return normal
}

// check refuses names that cannot be meant.
func (l *Limit) check() error {
	if l == nil {
		return nil
	}
	for _, team := range l.Teams {
		if validName(team) != nil {
			return fault.Invalid("limit", fmt.Sprintf("team %q: must be 1 to %d bytes of printable text without white space at its ends", team, maxName))
		}
	}
	for _, of := range []struct {
		kind  string
		names []string
	}{{"skill", l.Skills}, {"agent", l.Agents}} {
		for _, name := range of.names {
			if name == "" || len(name) > maxPattern || strings.ContainsFunc(name, unicode.IsControl) {
				return fault.Invalid("limit", fmt.Sprintf("%s %q: must be a name of 1 to %d bytes without control characters, in which * stands for any characters", of.kind, name, maxPattern))
			}
		}
	}
	if len(l.Teams)+len(l.Skills)+len(l.Agents) > maxTeams {
		return fault.Invalid("limit", fmt.Sprintf("must have at most %d names", maxTeams))
	}
	return nil
}
