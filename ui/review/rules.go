package review

import (
	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
)

// AppliedRule is an operators' rule that matched a call, or that could not be evaluated.
type AppliedRule struct {
	Name    string
	URL     string
	Form    func(rule templ.Component) templ.Component // such as text.RulesParks
	Says    text.Message                               // its condition in words; zero: it has none
	Failure string                                     // why it could not be evaluated; it quotes no values of the call
}

// presentRules presents the rules that a call was judged by. conditions are theirs, by their names.
func presentRules(applied []rule.Applied, conditions map[string]string) []AppliedRule {
	list := make([]AppliedRule, len(applied))
	for i := range applied {
		a := &applied[i]
		list[i] = AppliedRule{Name: a.Name, URL: present.RuleURL(a.Name), Form: ruleForm(a), Failure: a.Failure}
		if when := conditions[a.Name]; when != "" {
			list[i].Says = present.DescribeCondition(when)
		}
	}
	return list
}

// ruleForm returns the text that says what a rule did, or would have done.
func ruleForm(a *rule.Applied) func(rule templ.Component) templ.Component {
	forms := map[rule.Effect]func(rule templ.Component) templ.Component{rule.Allow: text.RulesAllows, rule.Park: text.RulesParks, rule.Deny: text.RulesDenies}
	failed := text.RulesFails
	if a.Mode != rule.Enforce {
		forms = map[rule.Effect]func(rule templ.Component) templ.Component{rule.Allow: text.RulesWouldAllow, rule.Park: text.RulesWouldPark, rule.Deny: text.RulesWouldDeny}
		failed = text.RulesWouldFail
	}
	if a.Failure != "" {
		return failed
	}
	return forms[a.Effect]
}
