// Package rule owns the meaning of operators' rules: how they are written, which calls each is about, and the verdict that they give
// together. It evaluates a rule's condition (package condition) and stores nothing; package agent owns the table rules.
package rule

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/pattern"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Effect is what a rule does with the calls that it matches.
type Effect string

// The effects, from the weakest to the strongest: of several rules that match a call, the strongest decides.
const (
	Allow Effect = "allow" // the call needs no approval
	Park  Effect = "park"  // the call needs an approval
	Deny  Effect = "deny"  // the call is refused
)

// Effects returns all effects.
func Effects() []Effect { return []Effect{Allow, Park, Deny} }

// Mode says whether a rule counts.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // calls record what the rule would have done
	Off     Mode = "off"
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Enforce, Shadow, Off} }

// Spec is a rule as operators write it.
type Spec struct {
	Name string `json:"name" manifest:"required" doc:"The name of the rule."`
	// Agents, Skills and Tools are names, in which * stands for any characters. A call must match one of each list; nil matches all. Tools have
	// the names that their server uses.
	Agents []string `json:"agents,omitempty" otherwise:"all" doc:"The agents whose calls the rule is about; * stands for any characters."`
	Skills []string `json:"skills,omitempty" otherwise:"all" doc:"The skills whose calls the rule is about; * stands for any characters."`
	Tools  []string `json:"tools,omitempty" otherwise:"all" doc:"The tools whose calls the rule is about, by the names that their server uses; * stands for any characters."`
	// When is the condition, in CEL; see package condition. Empty: it holds for every call.
	When   string `json:"when,omitempty" otherwise:"it holds for every call" doc:"The condition in CEL."`
	Effect Effect `json:"effect" manifest:"required" values:"allow|park|deny" doc:"What happens to the calls that match: allow, they need no approval; park, they need one; deny, they are refused."`
	Mode   Mode   `json:"mode,omitempty" values:"enforce|shadow|off" otherwise:"enforce" doc:"enforce: the rule counts; shadow: calls only record that it matched; off."` // empty: enforce
	// Message tells the model why a call was denied. Only with effect deny.
	Message string `json:"message,omitempty" doc:"What the model reads about a denied call. Only with effect deny."`
	// HighRisk lets an allow rule also allow calls of tools that an operator marked as high risk.
	HighRisk bool `json:"high_risk,omitempty" doc:"Whether an allow rule also allows calls of tools of high risk."`
	// Grants lets grants override a park rule.
	Grants bool `json:"grants,omitempty" doc:"Whether grants override a park rule."`
	// Policy is the approval policy that parked calls have to meet. Only with effect park.
	Policy string `json:"policy,omitempty" otherwise:"none" doc:"The approval policy of the calls. Only with effect park."`
}

// Rule is a stored rule. Its revision is greater than that of every change of any rule before it.
type Rule struct {
	Spec
	Revision int64
}

// all is the name that matches every name.
const all = "*"

// Limits of rules.
const (
	MaxMessage  = 500 // characters
	MaxPatterns = 100 // names in each list
	maxPattern  = 256 // bytes
)

// Normalize returns the spec with defaults filled in. A list that names everything has nothing else.
func (s Spec) Normalize() Spec {
	if s.Mode == "" {
		s.Mode = Enforce
	}
	s.When = strings.TrimSpace(s.When)
	for _, list := range []*[]string{&s.Agents, &s.Skills, &s.Tools} {
		if slices.Contains(*list, all) {
			*list = []string{all}
		}
	}
	return s
}

// Check returns the invalid fields of a normalized spec. It parses the condition, but does not compare it with the tools that it is about; see
// [condition.Compile].
func (s Spec) Check() []fault.Field {
	var invalid []fault.Field
	check := func(ok bool, field, expected string) {
		if !ok {
			invalid = append(invalid, fault.Field{Name: field, Expected: expected})
		}
	}
	check(plain.IsName(s.Name), "name", plain.NameForm)
	for _, list := range []struct {
		field string
		names []string
	}{{"agents", s.Agents}, {"skills", s.Skills}, {"tools", s.Tools}} {
		check(list.names == nil || len(list.names) > 0, list.field, `must be omitted, or ["*"] for all: an empty list matches nothing`)
		check(len(list.names) <= MaxPatterns, list.field, fmt.Sprintf("must be at most %d names", MaxPatterns))
		for i, name := range list.names {
			check(name != "" && len(name) <= maxPattern && !hasControl(name), fmt.Sprintf("%s[%d]", list.field, i), fmt.Sprintf("must be a name of 1 to %d bytes without control characters, in which * stands for any characters", maxPattern))
		}
	}
	check(slices.Contains(Effects(), s.Effect), "effect", "must be allow, park or deny")
	check(slices.Contains(Modes(), s.Mode), "mode", "must be enforce, shadow or off")
	check(s.Message == "" || s.Effect == Deny, "message", "must be omitted: only a rule with effect deny has a message")
	check(len([]rune(s.Message)) <= MaxMessage, "message", fmt.Sprintf("must be at most %d characters", MaxMessage))
	check(!strings.ContainsRune(s.Message, 0), "message", "must be text without NUL")
	check(!s.HighRisk || s.Effect == Allow, "high_risk", "must be omitted: only a rule with effect allow has it")
	check(!s.Grants || s.Effect == Park, "grants", "must be omitted: only a rule with effect park has it")
	isScoped := s.Agents != nil || s.Skills != nil || s.Tools != nil || s.When != ""
	check(s.Effect != Allow || isScoped, "skills", `must name skills: a rule with effect allow that has neither names nor a condition allows every call. Write ["*"] if that is meant`)
	check(s.Policy == "" || s.Effect == Park, "policy", "must be omitted: only a rule with effect park has a policy")
	check(s.Policy == "" || plain.IsName(s.Policy), "policy", "must be the name of a policy")
	check(len(s.When) <= condition.MaxSource, "when", fmt.Sprintf("must be at most %d bytes", condition.MaxSource))
	check(!strings.ContainsRune(s.When, 0), "when", "must be text without NUL")
	return invalid
}

// JudgesAs reports whether two rules match the same calls and have the same effect on them. Their modes and messages may differ.
func (s Spec) JudgesAs(other *Spec) bool {
	return slices.Equal(s.Agents, other.Agents) && slices.Equal(s.Skills, other.Skills) && slices.Equal(s.Tools, other.Tools) &&
		s.When == other.When && s.Effect == other.Effect && s.HighRisk == other.HighRisk && s.Policy == other.Policy && s.Grants == other.Grants
}

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// Subject is what a call is about, for the scope of a rule.
type Subject struct{ Agent, Skill, Tool string }

// Covers reports whether the rule is about calls of the subject. The condition may still not hold for one of them.
func (s Spec) Covers(of Subject) bool {
	return pattern.MatchesAny(s.Agents, of.Agent) && pattern.MatchesAny(s.Skills, of.Skill) && pattern.MatchesAny(s.Tools, of.Tool)
}

// CoversSkill is [Spec.Covers] for the calls of any agent and tool.
func (s Spec) CoversSkill(skill string) bool { return pattern.MatchesAny(s.Skills, skill) }

// CoversAgent is [Spec.Covers] for the calls of any skill and tool.
func (s Spec) CoversAgent(agent string) bool { return pattern.MatchesAny(s.Agents, agent) }

// CoversTool is [Spec.Covers] for the calls of any agent.
func (s Spec) CoversTool(skill, tool string) bool {
	return pattern.MatchesAny(s.Skills, skill) && pattern.MatchesAny(s.Tools, tool)
}
