package rule_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/plain"
)

func TestScope(t *testing.T) {
	t.Parallel()
	payment := rule.Subject{Agent: "billing", Skill: "ledger", Tool: "post_payment"}
	for _, tc := range []struct {
		name string
		spec rule.Spec
		want bool
	}{
		{"an empty scope has all calls", rule.Spec{}, true},
		{"names", rule.Spec{Agents: []string{"billing"}, Skills: []string{"ledger"}, Tools: []string{"post_payment"}}, true},
		{"one of several names", rule.Spec{Tools: []string{"refund", "post_payment"}}, true},
		{"another agent", rule.Spec{Agents: []string{"support"}, Skills: []string{"ledger"}}, false},
		{"a beginning", rule.Spec{Tools: []string{"post_*"}}, true},
		{"an end", rule.Spec{Tools: []string{"*_payment"}}, true},
		{"a middle", rule.Spec{Tools: []string{"p*_pay*nt"}}, true},
		{"a name is not a beginning", rule.Spec{Tools: []string{"post"}}, false},
		{"beginning and end may not overlap", rule.Spec{Tools: []string{"post_payment*payment"}}, false},
		{"parts in another order", rule.Spec{Tools: []string{"*payment*post*"}}, false},
		{"other characters mean themselves", rule.Spec{Tools: []string{"post?payment"}}, false},
	} {
		if got := tc.spec.Covers(payment); got != tc.want {
			t.Errorf("%s: covers %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestCheckNamesTheField(t *testing.T) {
	t.Parallel()
	good := rule.Spec{Name: "small", Effect: rule.Allow, When: "true"}
	for field, spoil := range map[string]func(*rule.Spec){
		"":          func(*rule.Spec) {},
		"name":      func(s *rule.Spec) { s.Name = "two words" },
		"effect":    func(s *rule.Spec) { s.Effect = "approve" },
		"mode":      func(s *rule.Spec) { s.Mode = "on" },
		"message":   func(s *rule.Spec) { s.Message = "no" },
		"high_risk": func(s *rule.Spec) { s.Effect, s.HighRisk = rule.Park, true },
		"skills[0]": func(s *rule.Spec) { s.Skills = []string{"led\x00ger"} },
		"tools[1]":  func(s *rule.Spec) { s.Tools = []string{"write", ""} },
		"agents":    func(s *rule.Spec) { s.Agents = slices.Repeat([]string{"a"}, rule.MaxPatterns+1) },
		"when":      func(s *rule.Spec) { s.When = strings.Repeat("true||", 4096) + "true" },
	} {
		spec := good
		spoil(&spec)
		var fields []string
		for _, f := range spec.Normalize().Check() {
			fields = append(fields, f.Name)
		}
		if got := strings.Join(fields, " "); got != field {
			t.Errorf("invalid are %q, want %q", got, field)
		}
	}
}

// An empty list is refused, and so is a rule that allows every call unless it says so.
func TestWideAllowIsExplicit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec rule.Spec
		want string
	}{
		"nothing":         {rule.Spec{Effect: rule.Allow}, "skills"},
		"all skills":      {rule.Spec{Effect: rule.Allow, Skills: []string{"*"}}, ""},
		"a condition":     {rule.Spec{Effect: rule.Allow, When: "args.n < 5"}, ""},
		"a tool":          {rule.Spec{Effect: rule.Allow, Tools: []string{"get_*"}}, ""},
		"a blank":         {rule.Spec{Effect: rule.Allow, When: " \n"}, "skills"},
		"parking all":     {rule.Spec{Effect: rule.Park}, ""},
		"no agents":       {rule.Spec{Effect: rule.Park, Agents: []string{}}, "agents"},
		"no names at all": {rule.Spec{Effect: rule.Deny, Agents: []string{}, Skills: []string{}, Tools: []string{}}, "agents skills tools"},
	} {
		tc.spec.Name = "r"
		var fields []string
		for _, f := range tc.spec.Normalize().Check() {
			fields = append(fields, f.Name)
		}
		if got := strings.Join(fields, " "); got != tc.want {
			t.Errorf("%s: invalid are %q, want %q", name, got, tc.want)
		}
	}
	star := rule.Spec{Skills: []string{"a", "*"}}.Normalize()
	if !slices.Equal(star.Skills, []string{"*"}) || !star.Covers(rule.Subject{Agent: "x", Skill: "y", Tool: "z"}) {
		t.Errorf("all skills: %+v", star)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{"small-payments": true, "2_of.3": true, "..": false, "-x": false, "": false, "ä": false, strings.Repeat("a", plain.MaxName+1): false} {
		spec := rule.Spec{Name: name, Effect: rule.Park, Mode: rule.Enforce}
		if got := len(spec.Check()) == 0; got != valid {
			t.Errorf("%q is valid: %t, want %t", name, got, valid)
		}
	}
}

// TestCombine: deny beats park beats allow, in any order, and an allow overrides only what it may.
func TestCombine(t *testing.T) {
	t.Parallel()
	gated := approval.Verdict{Action: approval.Park, Rule: approval.RuleGated}
	open := approval.Verdict{Action: approval.Allow, Rule: approval.RuleAutoApproved}
	risky := approval.Verdict{Action: approval.Park, Rule: approval.RuleHighRisk}
	changed := approval.Verdict{Action: approval.Park, Rule: approval.RuleDefinitionChanged}
	off := approval.Verdict{Action: approval.Deny, Rule: approval.RuleDisabled}
	rules := map[string]rule.Applied{
		"allow":        {Name: "allow", Effect: rule.Allow, Mode: rule.Enforce},
		"park":         {Name: "park", Effect: rule.Park, Mode: rule.Enforce},
		"deny":         {Name: "deny", Effect: rule.Deny, Mode: rule.Enforce},
		"failed allow": {Name: "failed", Effect: rule.Allow, Mode: rule.Enforce, Failure: "no such key: amount"},
		"failed deny":  {Name: "failed", Effect: rule.Deny, Mode: rule.Enforce, Failure: "no such key: amount"},
		"shadow allow": {Name: "shadow", Effect: rule.Allow, Mode: rule.Shadow},
		"shadow deny":  {Name: "shadow", Effect: rule.Deny, Mode: rule.Shadow},
		"shadow fails": {Name: "shadow", Effect: rule.Park, Mode: rule.Shadow, Failure: "no such key: amount"},
	}
	for _, tc := range []struct {
		settings approval.Verdict
		rules    string
		action   approval.Action
		why      approval.Rule
	}{
		{gated, "", approval.Park, approval.RuleGated},
		{open, "", approval.Allow, approval.RuleAutoApproved},
		{gated, "allow", approval.Allow, approval.RuleAllowed},
		{open, "allow", approval.Allow, approval.RuleAutoApproved},
		{risky, "allow", approval.Park, approval.RuleHighRisk},
		{changed, "allow", approval.Park, approval.RuleDefinitionChanged},
		{off, "allow", approval.Deny, approval.RuleDisabled},
		{open, "park", approval.Park, approval.RuleParked},
		{gated, "park", approval.Park, approval.RuleParked},
		{changed, "park", approval.Park, approval.RuleDefinitionChanged},
		{gated, "allow,park", approval.Park, approval.RuleParked},
		{gated, "allow,park,deny", approval.Deny, approval.RuleDenied},
		{open, "deny", approval.Deny, approval.RuleDenied},
		{off, "deny", approval.Deny, approval.RuleDisabled},
		{gated, "failed allow,allow", approval.Park, approval.RuleFailed},
		{open, "failed allow", approval.Park, approval.RuleFailed},
		{open, "failed deny", approval.Park, approval.RuleFailed},
		{open, "failed deny,deny", approval.Deny, approval.RuleDenied},
		{gated, "park,failed allow", approval.Park, approval.RuleFailed},
		{gated, "shadow allow", approval.Park, approval.RuleGated},
		{open, "shadow deny", approval.Allow, approval.RuleAutoApproved},
		{open, "shadow fails", approval.Allow, approval.RuleAutoApproved},
	} {
		var applied []rule.Applied
		for name := range strings.SplitSeq(tc.rules, ",") {
			if name != "" {
				applied = append(applied, rules[name])
			}
		}
		for range 2 {
			slices.Reverse(applied)
			if v := rule.Combine(tc.settings, applied); v.Action != tc.action || v.Rule != tc.why {
				t.Errorf("%s with rules %q: %v by %s, want %v by %s", tc.settings.Rule, tc.rules, v.Action, v.Rule, tc.action, tc.why)
			}
		}
	}
}

// judgeAll combines all verdicts of settings with each kind of rule, and returns the action of each reason.
func judgeAll() map[approval.Rule]approval.Action {
	actions := map[approval.Rule]approval.Action{}
	for bits := range 1 << reflect.TypeFor[approval.Facts]().NumField() {
		var f approval.Facts
		for i := range reflect.TypeFor[approval.Facts]().NumField() {
			reflect.ValueOf(&f).Elem().Field(i).SetBool(bits>>i&1 == 1)
		}
		settings := approval.Judge(f)
		actions[settings.Rule] = settings.Action
		for _, effect := range rule.Effects() {
			for _, failure := range []string{"", "no such key"} {
				v := rule.Combine(settings, []rule.Applied{{Effect: effect, Mode: rule.Enforce, Failure: failure}})
				actions[v.Rule] = v.Action
			}
		}
	}
	return actions
}

func TestParkingRules(t *testing.T) {
	t.Parallel()
	found := map[approval.Rule]bool{}
	for why, action := range judgeAll() {
		if action == approval.Park {
			found[why] = true
		}
	}
	known := map[approval.Rule]bool{}
	for _, why := range approval.ParkingRules() {
		known[why] = true
	}
	if !maps.Equal(found, known) {
		t.Errorf("calls are parked by %v, ParkingRules returns %v", found, known)
	}
}

// TestDesignHasAllRules compares the tables of verdicts in docs/design.md with Judge and Combine.
func TestDesignHasAllRules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[approval.Rule]approval.Action{}
	actions := map[string]approval.Action{"deny": approval.Deny, "park": approval.Park, "allow": approval.Allow}
	for _, row := range regexp.MustCompile("(?m)^\\|[^|]+\\| (deny|park|allow)[^|]*\\| `([a-z_]+)` \\|$").FindAllStringSubmatch(string(page), -1) {
		described[approval.Rule(row[2])] = actions[row[1]]
	}
	if judged := judgeAll(); !maps.Equal(described, judged) {
		t.Errorf("the tables of verdicts in docs/design.md have the rules %v, Judge and Combine %v", described, judged)
	}
}

// TestProgramsOfReusedRevisions: after a failover that lost commits, the database may give a revision to another rule. Programs are compiled from the
// condition, whatever the revision.
func TestProgramsOfReusedRevisions(t *testing.T) {
	t.Parallel()
	programs := rule.NewPrograms(time.Now)
	t.Cleanup(programs.Close)
	for when, want := range map[string]int{`args.n == 1`: 1, `args.n == 2`: 0} {
		book := rule.NewBook(1, []rule.Rule{{Spec: rule.Spec{Name: "r", When: when, Effect: rule.Allow, Mode: rule.Enforce}, Revision: 1}}, nil, programs)
		applied := book.Prepare(t.Context(), book.Find(rule.Subject{}), rule.Schema{}).Apply(t.Context(), &condition.Input{Arguments: []byte(`{"n":1}`)}, nil)
		if len(applied) != want {
			t.Errorf("%s: %+v, want %d rules that match", when, applied, want)
		}
	}
}
