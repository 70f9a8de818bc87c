package policy_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/approval/policy"
)

func TestAlternativesAsText(t *testing.T) {
	t.Parallel()
	spec := bank()
	const text = "2 of finance, 1 of compliance\n1 of CFO@example.com"
	if got := policy.FormatAlternatives(spec.Any); got != text {
		t.Errorf("the form is %q", got)
	}
	read, invalid := policy.ParseAlternatives("\n 2 of finance ,1 of  compliance \n\n1 of CFO@example.com\n")
	if len(invalid) > 0 || !reflect.DeepEqual(read, spec.Any) {
		t.Errorf("read %+v, %v", read, invalid)
	}
	read, invalid = policy.ParseAlternatives(`3 reviewers, 1 reviewer, 1 of Team Blue or team ops@night or person ida or "Legal, Tax" or "or"`)
	want := []policy.Alternative{{All: []policy.Line{{Count: 3}, {Count: 1}, {Count: 1, Teams: []string{"Team Blue", "ops@night", "Legal, Tax", "or"}, People: []string{"ida"}}}}}
	if len(invalid) > 0 || !reflect.DeepEqual(read, want) {
		t.Errorf("read %+v, %v", read, invalid)
	}
	for line, problem := range map[string]string{
		"finance":                   `has "finance" where a number`,
		"two of finance":            `has "two" where a number`,
		"2":                         `"of" and a team`,
		"2 finance":                 `"of" and a team`,
		"2 of":                      `must have a team or a person`,
		"2 of finance or":           `must have a team or a person`,
		"2 of finance,":             `nothing before or after a comma`,
		", 1 of a":                  `nothing before or after a comma`,
		`1 of "a`:                   `a quote without an end`,
		`1 of a "b"`:                `put the whole name in quotes`,
		"1 of finance and 1 of ops": `has "and" in a name`,
		"99999 of a":                `where a number`,
		"-1 of a":                   `where a number`,
	} {
		_, invalid := policy.ParseAlternatives("1 of a\n" + line)
		if len(invalid) != 1 || !strings.Contains(invalid[0].Expected, problem) || !strings.Contains(invalid[0].Expected, "line 2 ") {
			t.Errorf("%s: %v, want %q", line, invalid, problem)
		}
	}
}

// FuzzAlternatives writes any names and reads them again.
func FuzzAlternatives(f *testing.F) {
	f.Add(1, "finance", "cfo@example.com")
	f.Add(20, " a  b", `"`)
	f.Add(3, "team x", "person y")
	f.Add(3, "or", "x, \n or")
	f.Add(2, "ops@night", "ida")
	f.Fuzz(func(t *testing.T, count int, team, person string) {
		want := []policy.Alternative{
			{All: []policy.Line{{Count: count, Teams: []string{team, "x"}, People: []string{person}}, {Count: 2}}},
			{All: []policy.Line{{Count: 1, People: []string{person}}}},
		}
		spec := policy.Spec{Name: "x", Any: want}
		if len(spec.Check()) > 0 {
			t.Skip()
		}
		if got, invalid := policy.ParseAlternatives(policy.FormatAlternatives(want)); len(invalid) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%q was read as %+v, %v", policy.FormatAlternatives(want), got, invalid)
		}
	})
}

func TestCountApprovals(t *testing.T) {
	t.Parallel()
	fin1, fin2, comp, cfo := voter("f1", "finance"), voter("f2", "finance"), voter("k", "compliance"), voter("c cfo@example.com")
	first := policy.Policy{Spec: policy.Spec{Any: bank().Any[:1]}}
	one := policy.Policy{Spec: policy.Spec{Any: []policy.Alternative{{All: []policy.Line{line(1, "compliance")}}}}}
	for name, tc := range map[string]struct {
		policies     []policy.Policy
		voters       []policy.Voter
		have, needed int
	}{
		"nobody":                        {[]policy.Policy{first}, nil, 0, 3},
		"one of three":                  {[]policy.Policy{first}, []policy.Voter{fin1}, 1, 3},
		"the first alternative":         {[]policy.Policy{{Spec: bank()}}, nil, 0, 3},
		"the alternative that has more": {[]policy.Policy{{Spec: bank()}}, []policy.Voter{fin1}, 1, 3},
		"met":                           {[]policy.Policy{{Spec: bank()}}, []policy.Voter{cfo}, 1, 1},
		"the policy that lacks most":    {[]policy.Policy{one, first}, []policy.Voter{fin1, fin2}, 2, 3},
		"and the other":                 {[]policy.Policy{first, one}, []policy.Voter{fin1, fin2, comp}, 3, 3},
	} {
		if have, needed := policy.CountApprovals(tc.policies, tc.voters); have != tc.have || needed != tc.needed {
			t.Errorf("%s: %d of %d, want %d of %d", name, have, needed, tc.have, tc.needed)
		}
	}
}
