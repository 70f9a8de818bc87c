// Package policy owns the meaning of approval policies: how operators write them, and whether the votes on a call meet one. It stores
// nothing; package agent owns the table policies, and package approval the votes.
package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/duration"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Spec is a policy as operators write it: who has to approve a call.
type Spec struct {
	Name string `json:"name" manifest:"required" doc:"The name of the policy."`
	// Any are alternatives. One of them has to be met.
	Any []Alternative `json:"any" manifest:"required" doc:"Alternatives. One of them has to be met."`
	// Rejections is the number of people whose rejections end a call. Zero: 1.
	Rejections int `json:"rejections,omitempty" otherwise:"1" doc:"The number of people whose rejections end a call." unit:"people"`
	// ApprovalTimeout is the time for the decision, and ApprovalValidity how long the approved call may be sent after it. Nil: the skill's.
	ApprovalTimeout  *duration.Text `json:"approval_timeout,omitempty" otherwise:"the skill's" doc:"The time for the decision about a call, from 1s to 720h."`
	ApprovalValidity *duration.Text `json:"approval_validity,omitempty" otherwise:"the skill's" doc:"How long an approved call may be sent after the decision, from 1s to 720h."`
	// BreakGlass lets any one reviewer approve alone, with a reason, which another person has to review later.
	BreakGlass bool `json:"break_glass,omitempty" doc:"Whether any one reviewer may approve alone, with a reason, which another person has to review later."`
}

// Alternative is met when all of its lines are met by different people.
type Alternative struct {
	All []Line `json:"all" manifest:"required" doc:"Lines. All of them have to be met, by different people."`
}

// Line asks for approvals of members of one of the teams and of the people named. Without both, any reviewer counts.
type Line struct {
	Count int      `json:"count" manifest:"required" doc:"The number of approvals." unit:"approvals"`
	Teams []string `json:"teams,omitempty" otherwise:"all reviewers, unless people are named" doc:"Teams whose members count."`
	// People are email addresses that the identity provider calls verified, or names of people of Holdpoint itself.
	People []string `json:"people,omitempty" otherwise:"all reviewers, unless teams are named" doc:"People who count: verified e-mail addresses, or names of people of Holdpoint itself."`
}

// Policy is a stored policy. Its revision is greater than that of every change of any policy or rule before it.
type Policy struct {
	Spec
	Revision int64 `json:"revision"`
}

// Limits of policies.
const (
	MaxAlternatives = 10
	MaxLines        = 10 // of an alternative
	MaxCount        = 20 // approvals of an alternative
	MaxNames        = 20 // teams, and people, of a line
	maxName         = 256
	minTimeout      = time.Second
	maxTimeout      = 30 * 24 * time.Hour
)

// Check returns the invalid fields of a policy.
func (s *Spec) Check() []fault.Field {
	var invalid []fault.Field
	check := func(ok bool, field, expected string) {
		if !ok {
			invalid = append(invalid, fault.Field{Name: field, Expected: expected})
		}
	}
	check(plain.IsName(s.Name), "name", plain.NameForm)
	check(len(s.Any) > 0 && len(s.Any) <= MaxAlternatives, "any", fmt.Sprintf("must have 1 to %d alternatives", MaxAlternatives))
	for i, alternative := range s.Any {
		field := fmt.Sprintf("any[%d].all", i)
		check(len(alternative.All) > 0 && len(alternative.All) <= MaxLines, field, fmt.Sprintf("must have 1 to %d lines", MaxLines))
		needed := 0
		for j := range alternative.All {
			line, at := &alternative.All[j], fmt.Sprintf("%s[%d]", field, j)
			check(line.Count >= 1 && line.Count <= MaxCount, at+".count", fmt.Sprintf("must be 1 to %d", MaxCount))
			needed += min(max(0, line.Count), MaxCount+1)
			for _, list := range []struct {
				field string
				names []string
			}{{at + ".teams", line.Teams}, {at + ".people", line.People}} {
				check(len(list.names) <= MaxNames, list.field, fmt.Sprintf("must be at most %d names", MaxNames))
				for k, name := range list.names {
					check(isNameOfSomeone(name), fmt.Sprintf("%s[%d]", list.field, k), fmt.Sprintf("must be 1 to %d bytes without control characters, and without space at its ends", maxName))
				}
			}
			check(len(line.Teams) > 0 || len(line.People) == 0 || line.Count <= len(line.People), at+".count", "must be at most the number of people that the line names")
		}
		check(needed <= MaxCount, field, fmt.Sprintf("must ask for at most %d approvals", MaxCount))
	}
	check(s.Rejections >= 0 && s.Rejections <= MaxCount, "rejections", fmt.Sprintf("must be 1 to %d", MaxCount))
	for _, limit := range []struct {
		field string
		value *duration.Text
	}{{"approval_timeout", s.ApprovalTimeout}, {"approval_validity", s.ApprovalValidity}} {
		check(limit.value == nil || limit.value.Duration() >= minTimeout && limit.value.Duration() <= maxTimeout, limit.field, "must be 1s to 720h")
	}
	return invalid
}

func isNameOfSomeone(name string) bool {
	return name != "" && len(name) <= maxName && strings.TrimSpace(name) == name && !strings.ContainsFunc(name, unicode.IsControl)
}

// ListTeams returns the teams that a policy names, without repetitions, in its order.
func (s *Spec) ListTeams() []string {
	var teams []string
	for _, line := range ListLines([]Policy{{Spec: *s}}) {
		for _, team := range line.Teams {
			if !slices.Contains(teams, team) {
				teams = append(teams, team)
			}
		}
	}
	return teams
}

// ListLines returns the lines of all alternatives of policies.
func ListLines(policies []Policy) []Line {
	var lines []Line
	for i := range policies {
		for _, alternative := range policies[i].Any {
			lines = append(lines, alternative.All...)
		}
	}
	return lines
}

// IsOpen reports whether any reviewer counts for a line.
func (l *Line) IsOpen() bool { return len(l.Teams) == 0 && len(l.People) == 0 }

// Voter is a person who approved a call.
type Voter struct {
	Person uuid.UUID
	Teams  []string
	Names  []string // by which a line may name the person; see [Line.People]
}

// counts reports whether the person's approval counts for a line.
func (l *Line) counts(v *Voter) bool {
	if l.IsOpen() {
		return true
	}
	return slices.ContainsFunc(l.Teams, func(team string) bool { return slices.Contains(v.Teams, team) }) ||
		slices.ContainsFunc(l.People, func(name string) bool {
			return slices.ContainsFunc(v.Names, func(known string) bool { return plain.LowerASCII(known) == plain.LowerASCII(name) })
		})
}

// Asks reports whether the approval of a person counts for some line of the policy.
func (s *Spec) Asks(v *Voter) bool {
	return slices.ContainsFunc(s.Any, func(a Alternative) bool {
		return slices.ContainsFunc(a.All, func(l Line) bool { return l.counts(v) })
	})
}

// Progress is how far the approvals of a call meet an alternative.
type Progress struct {
	Needed int
	Lines  []LineProgress
}

// LineProgress is how far a line is met. A person who could count for several lines counts for one.
type LineProgress struct {
	Line
	By []uuid.UUID
}

// Missing returns the number of approvals that an alternative still needs.
func (p *Progress) Missing() int {
	missing := p.Needed
	for i := range p.Lines {
		missing -= len(p.Lines[i].By)
	}
	return missing
}

// Measure returns how far the approvals meet each alternative. Voters are different people.
func (s *Spec) Measure(voters []Voter) []Progress {
	progress := make([]Progress, len(s.Any))
	for i := range s.Any {
		progress[i] = s.Any[i].measure(voters)
	}
	return progress
}

// IsMet reports whether the approvals meet an alternative.
func (s *Spec) IsMet(voters []Voter) bool {
	return slices.ContainsFunc(s.Measure(voters), func(p Progress) bool { return p.Missing() == 0 })
}

// measure assigns as many voters as possible to places of the lines, each to one: a maximum matching, by augmenting paths.
func (a *Alternative) measure(voters []Voter) Progress {
	var places []int // the line of each place
	p := Progress{Lines: make([]LineProgress, len(a.All))}
	for i := range a.All {
		p.Lines[i].Line = a.All[i]
		places = append(places, slices.Repeat([]int{i}, a.All[i].Count)...)
	}
	p.Needed = len(places)
	taken := slices.Repeat([]int{-1}, len(places)) // by which voter
	var assign func(voter int, tried []bool) bool
	assign = func(voter int, tried []bool) bool {
		for place, line := range places {
			if tried[place] || !a.All[line].counts(&voters[voter]) {
				continue
			}
			tried[place] = true
			if taken[place] < 0 || assign(taken[place], tried) {
				taken[place] = voter
				return true
			}
		}
		return false
	}
	for voter := range voters {
		assign(voter, make([]bool, len(places)))
	}
	for place, voter := range taken {
		if voter >= 0 {
			line := &p.Lines[places[place]]
			line.By = append(line.By, voters[voter].Person)
		}
	}
	return p
}

// CountRejections returns the number of people whose rejections end a call that all of these policies are about.
func CountRejections(policies []Policy) int {
	needed := MaxCount
	for i := range policies {
		needed = min(needed, max(1, policies[i].Rejections))
	}
	if len(policies) == 0 {
		return 1
	}
	return needed
}

// AreMet reports whether the approvals meet all of these policies.
func AreMet(policies []Policy, voters []Voter) bool {
	return !slices.ContainsFunc(policies, func(p Policy) bool { return !p.IsMet(voters) })
}

// ListUnmetLines returns the lines, of all alternatives of those policies that the approvals do not meet, which need more approvals.
func ListUnmetLines(policies []Policy, voters []Voter) []Line {
	var lines []Line
	for i := range policies {
		progress := policies[i].Measure(voters)
		if slices.ContainsFunc(progress, func(p Progress) bool { return p.Missing() == 0 }) {
			continue
		}
		for j := range progress {
			for _, line := range progress[j].Lines {
				if line.Count > len(line.By) {
					lines = append(lines, line.Line)
				}
			}
		}
	}
	return lines
}

// Shortage is a line of a policy that too few people can meet.
type Shortage struct {
	Policy string
	Line   Line
	Able   int // people who can approve for it, each for one line only
}

// FindShortages returns why these people cannot meet policies: of each that they cannot meet, the lines of the alternative that lacks the fewest
// people.
func FindShortages(policies []Policy, able []Voter) []Shortage {
	var found []Shortage
	for i := range policies {
		nearest := slices.MinFunc(policies[i].Measure(able), func(a, b Progress) int { return cmp.Compare(a.Missing(), b.Missing()) })
		for _, line := range nearest.Lines {
			if line.Count > len(line.By) {
				found = append(found, Shortage{policies[i].Name, line.Line, len(line.By)})
			}
		}
	}
	return found
}

// Ask reports whether the approval of a person counts for one of these policies.
func Ask(policies []Policy, v *Voter) bool {
	return slices.ContainsFunc(policies, func(p Policy) bool { return p.Asks(v) })
}

// Clocks returns the time for the decision about a call, and how long the approved call may be sent (zero: as long), by its policies and by
// the settings of its skill. Of several policies, the longest time for the decision counts, and the shortest time after it.
func Clocks(policies []Policy, timeout, validity time.Duration) (time.Duration, time.Duration) {
	var longest, shortest time.Duration
	for i := range policies {
		if limit := policies[i].ApprovalTimeout; limit != nil {
			longest = max(longest, limit.Duration())
		}
		if limit := policies[i].ApprovalValidity; limit != nil && (shortest == 0 || limit.Duration() < shortest) {
			shortest = limit.Duration()
		}
	}
	return cmp.Or(longest, timeout), cmp.Or(shortest, validity)
}

// CountApprovals returns the number of approvals that count and that are needed, by the alternative that has the most, or else the first one. Of
// several policies, the one that lacks the most counts, or else the greatest.
func CountApprovals(policies []Policy, voters []Voter) (have, needed int) {
	for i := range policies {
		var furthest Progress
		for at, p := range policies[i].Measure(voters) {
			if at == 0 || furthest.Missing() > 0 && (p.Missing() == 0 || p.Needed-p.Missing() > furthest.Needed-furthest.Missing()) {
				furthest = p
			}
		}
		if lacks := cmp.Or(cmp.Compare(furthest.Missing(), needed-have), cmp.Compare(furthest.Needed, needed)); i == 0 || lacks > 0 {
			have, needed = furthest.Needed-furthest.Missing(), furthest.Needed
		}
	}
	return have, needed
}

// AllowBreakGlass reports whether one reviewer may approve a call alone that has all of these policies.
func AllowBreakGlass(policies []Policy) bool {
	return len(policies) > 0 && !slices.ContainsFunc(policies, func(p Policy) bool { return !p.BreakGlass })
}
