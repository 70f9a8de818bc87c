package policy_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/duration"
)

func line(count int, teams ...string) policy.Line { return policy.Line{Count: count, Teams: teams} }

func voter(names string, teams ...string) policy.Voter {
	return policy.Voter{Person: uuid.NewSHA1(uuid.NameSpaceURL, []byte(names)), Teams: teams, Names: strings.Fields(names)}
}

// bank is two of finance and one of compliance, or the CFO alone.
func bank() policy.Spec {
	return policy.Spec{Name: "bank", Any: []policy.Alternative{
		{All: []policy.Line{line(2, "finance"), line(1, "compliance")}},
		{All: []policy.Line{{Count: 1, People: []string{"CFO@example.com"}}}},
	}}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	fin1, fin2, both, other, cfo := voter("f1", "finance"), voter("f2", "finance"), voter("b", "compliance", "finance"), voter("o", "sales"), voter("c cfo@example.com")
	comp := voter("k", "compliance")
	for _, tc := range []struct {
		name    string
		voters  []policy.Voter
		met     bool
		missing []int
	}{
		{"nobody", nil, false, []int{3, 1}},
		{"others", []policy.Voter{other}, false, []int{3, 1}},
		{"two of finance", []policy.Voter{fin1, fin2}, false, []int{1, 1}},
		{"a person of both teams counts once", []policy.Voter{fin1, both}, false, []int{1, 1}},
		{"the person of both teams takes the place that is left", []policy.Voter{both, fin1, fin2}, true, []int{0, 1}},
		{"in any order", []policy.Voter{fin1, fin2, both}, true, []int{0, 1}},
		{"moved to the other place", []policy.Voter{both, comp, fin1}, true, []int{0, 1}},
		{"the other alternative", []policy.Voter{cfo}, true, []int{3, 0}},
	} {
		spec := bank()
		var missing []int
		for _, p := range spec.Measure(tc.voters) {
			missing = append(missing, p.Missing())
		}
		if met := spec.IsMet(tc.voters); met != tc.met || !slices.Equal(missing, tc.missing) {
			t.Errorf("%s: met %v, missing %v; want %v, %v", tc.name, met, missing, tc.met, tc.missing)
		}
	}
	for _, tc := range []struct {
		who  policy.Voter
		asks bool
	}{{fin1, true}, {other, false}, {cfo, true}, {voter("cfo@example.com.evil"), false}, {voter("cfo@exampſe.com"), false}} {
		spec := bank()
		if got := spec.Asks(&tc.who); got != tc.asks {
			t.Errorf("the policy asks %v: %v", tc.who, got)
		}
	}
	anyone := policy.Spec{Any: []policy.Alternative{{All: []policy.Line{{Count: 2}}}}}
	if anyone.IsMet([]policy.Voter{other}) || !anyone.IsMet([]policy.Voter{other, fin1}) {
		t.Error("a line without names counts any two people")
	}
}

// TestMeasureIsAMaximum compares the assignment with trying all of them.
func TestMeasureIsAMaximum(t *testing.T) {
	t.Parallel()
	teams := []string{"a", "b", "c"}
	for seed := range 2000 {
		n, voters := seed, []policy.Voter{}
		next := func(of int) int { n = (n*1103515245 + 12345) & 0x7fffffff; return n >> 8 % of % of }
		for i := range next(5) + 1 {
			var in []string
			for _, team := range teams {
				if next(2) == 0 {
					in = append(in, team)
				}
			}
			voters = append(voters, voter(strconv.Itoa(i), in...))
		}
		var lines []policy.Line
		for range next(3) + 1 {
			lines = append(lines, line(next(2)+1, teams[next(3)]))
		}
		spec := policy.Spec{Any: []policy.Alternative{{All: lines}}}
		p := spec.Measure(voters)[0]
		if got, want := p.Needed-p.Missing(), tryAll(lines, voters); got != want {
			t.Fatalf("seed %d: %d places are taken, %d could be: %v by %v", seed, got, want, lines, voters)
		}
	}
}

// tryAll returns the greatest number of places of lines that different voters can take.
func tryAll(lines []policy.Line, voters []policy.Voter) int {
	if len(voters) == 0 {
		return 0
	}
	most := tryAll(lines, voters[1:])
	for i := range lines {
		if lines[i].Count > 0 && slices.Contains(voters[0].Teams, lines[i].Teams[0]) {
			rest := slices.Clone(lines)
			rest[i].Count--
			most = max(most, 1+tryAll(rest, voters[1:]))
		}
	}
	return most
}

func TestCheck(t *testing.T) {
	t.Parallel()
	second := duration.Text(time.Millisecond)
	for name, tc := range map[string]struct {
		change func(*policy.Spec)
		field  string
	}{
		"valid":                  {func(*policy.Spec) {}, ""},
		"no name":                {func(s *policy.Spec) { s.Name = "" }, "name"},
		"no alternative":         {func(s *policy.Spec) { s.Any = nil }, "any"},
		"no line":                {func(s *policy.Spec) { s.Any[0].All = nil }, "any[0].all"},
		"nobody":                 {func(s *policy.Spec) { s.Any[0].All[1].Count = 0 }, "any[0].all[1].count"},
		"more than the line has": {func(s *policy.Spec) { s.Any[1].All[0].Count = 2 }, "any[1].all[0].count"},
		"too many":               {func(s *policy.Spec) { s.Any[0].All[0].Count, s.Any[0].All[1].Count = 15, 15 }, "any[0].all"},
		"a space":                {func(s *policy.Spec) { s.Any[0].All[0].Teams[0] = " finance" }, "any[0].all[0].teams[0]"},
		"a negative number":      {func(s *policy.Spec) { s.Rejections = -1 }, "rejections"},
		"too short":              {func(s *policy.Spec) { s.ApprovalTimeout = &second }, "approval_timeout"},
		"too short after it":     {func(s *policy.Spec) { s.ApprovalValidity = &second }, "approval_validity"},
	} {
		spec := bank()
		tc.change(&spec)
		var fields []string
		for _, f := range spec.Check() {
			fields = append(fields, f.Name)
		}
		if got := strings.Join(fields, " "); got != tc.field {
			t.Errorf("%s: invalid %q, want %q", name, got, tc.field)
		}
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	text := func(d time.Duration) *duration.Text { return (*duration.Text)(&d) }
	long := policy.Policy{Spec: policy.Spec{ApprovalTimeout: text(time.Hour), ApprovalValidity: text(time.Minute)}}
	short := policy.Policy{Spec: policy.Spec{ApprovalTimeout: text(time.Minute), ApprovalValidity: text(time.Second)}}
	for _, tc := range []struct {
		policies          []policy.Policy
		timeout, validity time.Duration
	}{
		{nil, 5 * time.Minute, 0},
		{[]policy.Policy{{}}, 5 * time.Minute, 0},
		{[]policy.Policy{long}, time.Hour, time.Minute},
		{[]policy.Policy{short, long, {}}, time.Hour, time.Second},
	} {
		if timeout, validity := policy.Clocks(tc.policies, 5*time.Minute, 0); timeout != tc.timeout || validity != tc.validity {
			t.Errorf("%v: %v and %v, want %v and %v", tc.policies, timeout, validity, tc.timeout, tc.validity)
		}
	}
}
