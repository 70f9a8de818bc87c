package approval

import (
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
)

// Audience is who is asked about a call. Without teams, people and names, all reviewers are.
type Audience struct {
	Teams    []string
	People   []uuid.UUID
	Names    []string // of people, as policies name them; see [policy.Line.People]
	Whole    bool     // all members of the teams, also if some of them are on call
	Everyone bool     // all reviewers, besides the teams
}

// FirstAudience returns who is asked about a new approval: its team, and all whom its policies ask. Policies that need several approvals ask all
// members of their teams.
func (a *Approval) FirstAudience() Audience {
	asked := newAudience(policy.ListLines(a.Policies))
	if a.Team != "" && !slices.Contains(asked.Teams, a.Team) {
		asked.Teams = append([]string{a.Team}, asked.Teams...)
	}
	_, needed := policy.CountApprovals(a.Policies, nil)
	asked.Whole = needed > 1
	asked.Everyone = asked.Everyone && a.Team == ""
	return asked
}

// SkippedAudience returns who is told that one person approved alone: all whom the lines ask that these approvals had not met.
func (a *Approval) SkippedAudience(voters []policy.Voter) Audience {
	asked := newAudience(policy.ListUnmetLines(a.Policies, voters))
	asked.Whole = true
	return asked
}

func newAudience(lines []policy.Line) Audience {
	var asked Audience
	for i := range lines {
		asked.Everyone = asked.Everyone || lines[i].IsOpen()
		asked.Teams, asked.Names = append(asked.Teams, lines[i].Teams...), append(asked.Names, lines[i].People...)
	}
	asked.Teams, asked.Names = removeRepeats(asked.Teams), removeRepeats(asked.Names)
	return asked
}

// removeRepeats keeps the first of equal names.
func removeRepeats(names []string) []string {
	var kept []string
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}
