package rule

import (
	"slices"

	"github.com/holdpoint/holdpoint/approval"
)

// Applied is a rule that matched a call, or whose condition could not be evaluated. Calls keep them.
type Applied struct {
	Name     string `json:"name"`
	Revision int64  `json:"revision"`
	Effect   Effect `json:"effect"`
	Mode     Mode   `json:"mode"`
	// Failure says why the condition could not be evaluated. Empty: it holds.
	Failure string `json:"failure,omitempty"`

	// Grants: grants override the rule.
	Grants bool `json:"grants,omitempty"`

	message  string
	highRisk bool
	policy   string
}

// Parks reports whether the rule made the call wait for an approval.
func (a *Applied) Parks() bool { return a.Mode == Enforce && (a.Failure != "" || a.Effect == Park) }

// Enforce returns the rule as if it had been enforced. spec is what it says.
func (a *Applied) Enforce(spec *Spec) Applied {
	enforced := *a
	enforced.Mode, enforced.message, enforced.highRisk, enforced.policy = Enforce, spec.Message, spec.HighRisk, spec.Policy
	return enforced
}

// ListPolicies returns the names of the policies that parked calls have to meet by the rules that were applied, without repetitions.
func ListPolicies(applied []Applied) []string {
	var names []string
	for i := range applied {
		if a := &applied[i]; a.Parks() && a.policy != "" && !slices.Contains(names, a.policy) {
			names = append(names, a.policy)
		}
	}
	return names
}

// Verdict is the verdict on a call with the rules that led to it.
type Verdict struct {
	approval.Verdict
	Applied []Applied // those in shadow mode too
	Message string    // of the rule that denies; empty: none
}

// AllowsGrants reports whether a grant may let a parked call pass: one that waits only because its skill is gated, because rules park it that all
// say so, or, if highRisk is set, because its tool is of high risk.
func (v *Verdict) AllowsGrants(highRisk bool) bool {
	if v.Action != approval.Park || slices.ContainsFunc(v.Applied, func(a Applied) bool { return a.Parks() && (a.Failure != "" || !a.Grants) }) {
		return false
	}
	return v.Rule == approval.RuleGated || v.Rule == approval.RuleParked || v.Rule == approval.RuleHighRisk && highRisk
}

// Combine returns the verdict of operators' settings and of the rules that were applied. Deny beats park beats allow, in any order of the
// rules. A rule that failed parks. An allow overrides only that the skill is gated and, if the rule says so, that the tool is of high
// risk.
func Combine(settings approval.Verdict, applied []Applied) Verdict {
	v := Verdict{Verdict: settings, Applied: applied}
	find := func(matches func(*Applied) bool) *Applied {
		i := slices.IndexFunc(applied, func(a Applied) bool { return a.Mode == Enforce && matches(&a) })
		if i < 0 {
			return nil
		}
		return &applied[i]
	}
	if settings.Action == approval.Deny {
		return v
	}
	if denies := find(func(a *Applied) bool { return a.Effect == Deny && a.Failure == "" }); denies != nil {
		v.Verdict, v.Message = approval.Verdict{Action: approval.Deny, Rule: approval.RuleDenied}, denies.message
		return v
	}
	parks := find(func(a *Applied) bool { return a.Failure != "" })
	rule := approval.RuleFailed
	if parks == nil {
		parks, rule = find((*Applied).Parks), approval.RuleParked
	}
	if parks != nil {
		if settings.Action != approval.Park || settings.Rule == approval.RuleGated {
			v.Verdict = approval.Verdict{Action: approval.Park, Rule: rule}
		}
		return v
	}
	overrides := find(func(a *Applied) bool {
		return a.Effect == Allow && (settings.Rule == approval.RuleGated || settings.Rule == approval.RuleHighRisk && a.highRisk)
	})
	if overrides != nil {
		v.Verdict = approval.Verdict{Action: approval.Allow, Rule: approval.RuleAllowed}
	}
	return v
}
