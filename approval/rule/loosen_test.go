package rule_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/approval/rule"
)

func TestLoosens(t *testing.T) {
	t.Parallel()
	spec := func(effect rule.Effect, change func(*rule.Spec)) *rule.Spec {
		s := rule.Spec{Name: "r", Skills: []string{"ledger"}, When: "args.amount > 1", Effect: effect}
		if change != nil {
			change(&s)
		}
		return &s
	}
	off := func(s *rule.Spec) { s.Mode = rule.Off }
	shadow := func(s *rule.Spec) { s.Mode = rule.Shadow }
	scope := func(s *rule.Spec) { s.Skills = []string{"other"} }
	message := func(s *rule.Spec) { s.Message = "Ask the CFO." }
	high := func(s *rule.Spec) { s.HighRisk = true }
	for name, c := range map[string]struct {
		before, after *rule.Spec
		want          bool
	}{
		"a new allow":              {nil, spec(rule.Allow, nil), true},
		"a new allow in shadow":    {nil, spec(rule.Allow, shadow), false},
		"an allow is enforced":     {spec(rule.Allow, shadow), spec(rule.Allow, nil), true},
		"an allow is deleted":      {spec(rule.Allow, nil), nil, false},
		"an allow is switched off": {spec(rule.Allow, nil), spec(rule.Allow, off), false},
		"an allow becomes a park":  {spec(rule.Allow, nil), spec(rule.Park, scope), false},
		"a new park":               {nil, spec(rule.Park, nil), false},
		"a park becomes an allow":  {spec(rule.Park, nil), spec(rule.Allow, nil), true},
		"a park becomes a deny":    {spec(rule.Park, nil), spec(rule.Deny, nil), false},
		"a park is deleted":        {spec(rule.Park, nil), nil, true},
		"a park is switched off":   {spec(rule.Park, nil), spec(rule.Park, off), true},
		"a park in shadow mode":    {spec(rule.Park, nil), spec(rule.Park, shadow), true},
		"a deny becomes a park":    {spec(rule.Deny, nil), spec(rule.Park, nil), true},
		"a deny is deleted":        {spec(rule.Deny, nil), nil, true},
		"a deny that was off":      {spec(rule.Deny, off), nil, false},
		"another message":          {spec(rule.Deny, nil), spec(rule.Deny, message), false},
		"high risk too":            {spec(rule.Allow, nil), spec(rule.Allow, high), true},
		"no longer high risk":      {spec(rule.Allow, high), spec(rule.Allow, nil), false},
		"nothing":                  {spec(rule.Allow, nil), spec(rule.Allow, nil), false},
	} {
		if got := rule.Loosens(c.before, c.after); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestEveryFieldOfRulesLoosensOrNot fails for a new field of a rule until somebody decides whether a change of it loosens.
func TestEveryFieldOfRulesLoosensOrNot(t *testing.T) {
	t.Parallel()
	changes := map[string]struct {
		change  func(*rule.Spec)
		loosens bool // of a rule that parks
	}{
		"name":      {func(s *rule.Spec) { s.Name = "another" }, false},
		"agents":    {func(s *rule.Spec) { s.Agents = []string{"a"} }, true},
		"skills":    {func(s *rule.Spec) { s.Skills = []string{"a"} }, true},
		"tools":     {func(s *rule.Spec) { s.Tools = []string{"a"} }, true},
		"when":      {func(s *rule.Spec) { s.When = "args.amount > 2" }, true},
		"effect":    {func(s *rule.Spec) { s.Effect = rule.Allow }, true},
		"mode":      {func(s *rule.Spec) { s.Mode = rule.Off }, true},
		"policy":    {func(s *rule.Spec) { s.Policy = "two" }, false}, // any policy asks more than none
		"message":   {func(s *rule.Spec) { s.Message = "x" }, false},
		"high_risk": {func(s *rule.Spec) { s.HighRisk = true }, true},
		"grants":    {func(s *rule.Spec) { s.Grants = true }, true},
	}
	for field := range reflect.TypeFor[rule.Spec]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		c, decided := changes[name]
		if !decided {
			t.Errorf("field %s: say here whether a change of it loosens, and see rule.Loosens", name)
			continue
		}
		before := rule.Spec{Name: "r", Effect: rule.Park, When: "args.amount > 1"}
		after := before
		c.change(&after)
		if got := rule.Loosens(&before, &after); got != c.loosens {
			t.Errorf("field %s: %t", name, got)
		}
	}
}
