package approval_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
)

func TestAudience(t *testing.T) {
	t.Parallel()
	line := func(count int, teams []string, people ...string) policy.Line {
		return policy.Line{Count: count, Teams: teams, People: people}
	}
	finance, board := []string{"finance"}, []string{"board", "finance"}
	of := func(lines ...policy.Line) []policy.Policy {
		return []policy.Policy{{Spec: policy.Spec{Any: []policy.Alternative{{All: lines}}}}}
	}
	voter := policy.Voter{Person: uuid.New(), Teams: finance}
	for name, tc := range map[string]struct {
		team           string
		policies       []policy.Policy
		first, skipped string
	}{
		"no policy":          {"", nil, "[] [] false false", "[] [] true false"},
		"a team":             {"ops", nil, "[ops] [] false false", "[] [] true false"},
		"one approval":       {"", of(line(1, finance)), "[finance] [] false false", "[] [] true false"},
		"several, each once": {"ops", of(line(2, finance, "ida"), line(1, board, "ida")), "[ops finance board] [ida] true false", "[finance board] [ida] true false"},
		"any reviewer":       {"", of(line(1, finance), line(2, nil)), "[finance] [] true true", "[] [] true true"},
		"any, and a team":    {"finance", of(line(2, nil)), "[finance] [] true false", "[] [] true true"},
	} {
		a := approval.Approval{Team: tc.team, Policies: tc.policies}
		if got := describe(a.FirstAudience()); got != tc.first {
			t.Errorf("%s: first asked are %s, want %s", name, got, tc.first)
		}
		if got := describe(a.SkippedAudience([]policy.Voter{voter})); got != tc.skipped {
			t.Errorf("%s: skipped are %s, want %s", name, got, tc.skipped)
		}
	}
}

func describe(a approval.Audience) string {
	return fmt.Sprint(a.Teams, a.Names, a.Whole, a.Everyone)
}
