package operate

import (
	"context"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
)

type ruleHandlers struct {
	*versionHandlers[rule.Spec, RuleVersion]

	calls *call.Service
}

func newRuleHandlers(d *rest.Directory, calls *call.Service) *ruleHandlers {
	return &ruleHandlers{&versionHandlers[rule.Spec, RuleVersion]{d, "rule", d.Agents.RuleHistory, d.Agents.DeleteRule, newRuleVersion}, calls}
}

// Rule is an operators' rule about calls.
type Rule struct {
	Name string `json:"name"`
	RuleSettings
	Revision  int64            `json:"revision" doc:"Greater than that of every change of any rule before it."`
	ChangedAt time.Time        `json:"changed_at"`
	ChangedBy *rest.PersonName `json:"changed_by" doc:"Null: unknown."`
	Warnings  []RuleWarning    `json:"warnings" nullable:"false" doc:"The tools that the condition does not fit any more. The rule parks their calls."`
	Shadow    *RuleShadow      `json:"shadow" doc:"What the rule would have done, beside what people decided; null: the rule is not in shadow mode, or it is one of a list."`
}

// RuleSettings is what a rule says.
type RuleSettings struct {
	Agents   []string    `json:"agents,omitempty" nullable:"false" doc:"Names of agents, in which * stands for any characters. Omitted: all."`
	Skills   []string    `json:"skills,omitempty" nullable:"false" doc:"Likewise, of skills."`
	Tools    []string    `json:"tools,omitempty" nullable:"false" doc:"Likewise, of tools, as their server calls them."`
	When     string      `json:"when" doc:"The condition, in CEL. Empty: it holds for every call."`
	Effect   rule.Effect `json:"effect" enum:"allow,park,deny"`
	Mode     rule.Mode   `json:"mode" enum:"enforce,shadow,off" doc:"shadow: calls record what the rule would have done."`
	Message  *string     `json:"message" doc:"Tells the model why a call was denied; null: a general text."`
	HighRisk bool        `json:"high_risk" doc:"Whether it also allows calls of tools that an operator marked as high risk."`
	Grants   bool        `json:"grants" doc:"Whether grants let calls pass that it parks."`
	Policy   *string     `json:"policy" doc:"The approval policy that parked calls have to meet; null: one reviewer decides."`
}

// RuleWarning names a tool that the condition of a rule does not fit.
type RuleWarning struct {
	Skill   string `json:"skill"`
	Tool    string `json:"tool"`
	Message string `json:"message" doc:"The line and the column of the condition, and what is wrong there."`
}

// RuleVersion is one version of a rule.
type RuleVersion struct {
	Revision  int64            `json:"revision"`
	ChangedAt time.Time        `json:"changed_at"`
	ChangedBy *rest.PersonName `json:"changed_by" doc:"Null: unknown."`
	Rule      *RuleVersionSpec `json:"rule" doc:"Null: the rule was deleted."`
}

// RuleVersionSpec is what a version of a rule says.
type RuleVersionSpec struct {
	_ struct{} `nullable:"true"`
	RuleSettings
}

func newRuleVersion(v agent.RuleVersion, by *rest.PersonName) RuleVersion {
	view := RuleVersion{Revision: v.Revision, ChangedAt: v.ChangedAt.UTC(), ChangedBy: by}
	if v.Spec != nil {
		view.Rule = &RuleVersionSpec{RuleSettings: newRuleSettings(v.Spec)}
	}
	return view
}

func newRuleSettings(spec *rule.Spec) RuleSettings {
	return RuleSettings{
		Agents: spec.Agents, Skills: spec.Skills, Tools: spec.Tools,
		When: spec.When, Effect: spec.Effect, Mode: spec.Mode, Message: rest.OrNull(spec.Message), HighRisk: spec.HighRisk, Policy: rest.OrNull(spec.Policy), Grants: spec.Grants,
	}
}

// ruleView returns a function that presents versions of rules, which are not deleted.
func (h *ruleHandlers) ruleView(ctx context.Context, warnings []agent.RuleWarning, versions ...agent.RuleVersion) (func(agent.RuleVersion) Rule, error) {
	names, err := h.nameChangers(ctx, versions)
	if err != nil {
		return nil, err
	}
	byRule := map[string][]RuleWarning{}
	for _, w := range warnings {
		byRule[w.Rule] = append(byRule[w.Rule], RuleWarning{w.Skill, w.Tool, w.Message})
	}
	return func(v agent.RuleVersion) Rule {
		return Rule{
			Name: v.Name, RuleSettings: newRuleSettings(v.Spec), Revision: v.Revision, ChangedAt: v.ChangedAt.UTC(),
			ChangedBy: names.RefOf(v.ChangedBy), Warnings: rest.OrEmpty(byRule[v.Name]),
		}
	}, nil
}

// oneRule presents a rule with its warnings.
func (h *ruleHandlers) oneRule(ctx context.Context, version agent.RuleVersion) (*rest.Output[Rule], error) {
	found, err := h.Agents.CheckRule(ctx, *version.Spec)
	if err != nil {
		return nil, err
	}
	view, err := h.ruleView(ctx, found.Warnings(version.Name), version)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(version)), nil
}

// listRules has no pages: there are at most [agent.MaxRules].
func (h *ruleHandlers) listRules(ctx context.Context, _ *rest.None) (*rest.ListOutput[Rule], error) {
	rules, err := h.Agents.ListRules(ctx)
	if err != nil {
		return nil, err
	}
	warnings, err := h.Agents.FindRuleWarnings(ctx)
	if err != nil {
		return nil, err
	}
	view, err := h.ruleView(ctx, warnings, rules...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(rules, "", view), nil
}

func (h *ruleHandlers) getRule(ctx context.Context, input *rest.ByName) (*rest.Output[Rule], error) {
	versions, err := h.readPresent(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	one, err := h.oneRule(ctx, versions[0])
	if err != nil {
		return nil, err
	}
	record, err := h.calls.ReadShadow(ctx, versions)
	if err != nil {
		return nil, err
	}
	if record != nil {
		one.Body.Shadow = newRuleShadow(record)
	}
	return one, nil
}

// RuleText is what a request says about a rule.
type RuleText struct {
	Agents   []string    `json:"agents,omitempty" doc:"Names of agents, in which * stands for any characters. Omitted: all. An empty list is refused."`
	Skills   []string    `json:"skills,omitempty" doc:"Likewise, of skills."`
	Tools    []string    `json:"tools,omitempty" doc:"Likewise, of tools, as their server calls them."`
	When     string      `json:"when,omitempty" doc:"The condition, in CEL. Omitted: it holds for every call."`
	Effect   rule.Effect `json:"effect" enum:"allow,park,deny"`
	Mode     rule.Mode   `json:"mode,omitempty" enum:"enforce,shadow,off" doc:"Omitted: enforce."`
	Message  string      `json:"message,omitempty" doc:"Tells the model why a call was denied. Only with the effect deny."`
	HighRisk bool        `json:"high_risk,omitempty" doc:"Also allow calls of tools that an operator marked as high risk. Only with the effect allow."`
	Grants   bool        `json:"grants,omitempty" doc:"Let grants allow calls that it parks. Only with the effect park."`
	Policy   string      `json:"policy,omitempty" doc:"The approval policy that parked calls have to meet. Only with the effect park. Omitted: one reviewer decides."`
}

func (r *RuleText) spec(name string) rule.Spec {
	return rule.Spec{
		Name: name, Agents: r.Agents, Skills: r.Skills, Tools: r.Tools, When: r.When,
		Effect: r.Effect, Mode: r.Mode, Message: r.Message, HighRisk: r.HighRisk, Policy: r.Policy, Grants: r.Grants,
	}
}

type setRuleInput struct {
	rest.ByName
	Body struct {
		RuleText
		Revision *int64 `json:"revision,omitempty" doc:"The rule's revision, or 0 if there must be none: a rule with another revision is not replaced (409). Omitted: any."`
	} `nameHint:"RuleRequest"`
}

func (h *ruleHandlers) setRule(ctx context.Context, input *setRuleInput) (*rest.Output[Rule], error) {
	set, err := h.Agents.SetRule(ctx, rest.CallerOf(ctx).Actor(), input.Body.spec(input.Name), input.Body.Revision)
	if err != nil {
		return nil, invalidNamed(err)
	}
	return h.oneRule(ctx, set)
}

// RuleCheck is the comparison of a condition with the tools that a rule is about.
type RuleCheck struct {
	Problems []RuleProblem `json:"problems" nullable:"false" doc:"Mistakes for arguments of any shape. Then the tools have no problems of their own."`
	Tools    []ToolCheck   `json:"tools" nullable:"false" doc:"The tools in the scope of the rule that their servers have listed."`
}

// ToolCheck is the comparison of a condition with the input schema of a tool.
type ToolCheck struct {
	Skill    string        `json:"skill"`
	Tool     string        `json:"tool"`
	Problems []RuleProblem `json:"problems" nullable:"false"`
}

// RuleProblem is a mistake in a condition.
type RuleProblem struct {
	Line    int    `json:"line" doc:"From 1."`
	Column  int    `json:"column" doc:"In characters, from 1."`
	Message string `json:"message"`
}

type checkRuleInput struct {
	Body struct {
		Agents []string `json:"agents,omitempty" doc:"As in a rule."`
		Skills []string `json:"skills,omitempty" doc:"As in a rule."`
		Tools  []string `json:"tools,omitempty" doc:"As in a rule."`
		When   string   `json:"when" doc:"The condition, in CEL."`
	} `nameHint:"RuleCheckRequest"`
}

func (h *ruleHandlers) checkRule(ctx context.Context, input *checkRuleInput) (*rest.Output[RuleCheck], error) {
	body := &input.Body
	found, err := h.Agents.CheckRule(ctx, rule.Spec{Agents: body.Agents, Skills: body.Skills, Tools: body.Tools, When: body.When})
	if err != nil {
		return nil, rest.InPart("body", err)
	}
	view := RuleCheck{Problems: newRuleProblems(found.Problems), Tools: make([]ToolCheck, len(found.Tools))}
	for i, t := range found.Tools {
		view.Tools[i] = ToolCheck{Skill: t.Skill, Tool: t.Tool, Problems: newRuleProblems(t.Problems)}
	}
	return rest.NewOutput(view), nil
}

func newRuleProblems(problems []condition.Problem) []RuleProblem {
	views := make([]RuleProblem, len(problems))
	for i, p := range problems {
		views[i] = RuleProblem{p.Line, p.Column, p.Message}
	}
	return views
}
