package approval

// Action is what is to be done with a call.
type Action int

// The actions. The zero value lets nothing pass.
const (
	Deny Action = iota
	Park
	Allow
)

// Rule is the reason for a verdict.
type Rule string

// The rules.
const (
	RuleGated             Rule = "gated"              // the skill is not auto-approved
	RuleHighRisk          Rule = "high_risk"          // an operator marked the tool
	RuleDefinitionChanged Rule = "definition_changed" // no operator accepted the change yet
	RuleNewTool           Rule = "new_tool"           // the tool appeared after the first discovery
	RuleAutoApproved      Rule = "auto_approved"
	RuleDisabled          Rule = "tool_disabled"
	RuleToolGone          Rule = "tool_gone"          // the server no longer offers the tool
	RuleRefused           Rule = "definition_refused" // by an operator
)

// ParkingRules returns the rules that park a call. Every approval has one of them.
func ParkingRules() []Rule {
	return []Rule{RuleGated, RuleHighRisk, RuleDefinitionChanged, RuleNewTool}
}

// Question is what a verdict is made from: only facts that operators set or
// that were measured, never a server's own hints.
type Question struct {
	AutoApprove bool
	HighRisk    bool
	Disabled    bool
	Known       bool // the server offers the tool
	Refused     bool // an operator refused its present definition
	Accepted    bool // its present definition was accepted
	EverSeen    bool // some definition of it was accepted before
}

// Verdict is what is to be done, and the rule that says so.
type Verdict struct {
	Action Action
	Rule   Rule
}

// Judge gives the verdict on a call.
func Judge(q Question) Verdict {
	switch {
	case q.Disabled:
		return Verdict{Deny, RuleDisabled}
	case !q.Known:
		return Verdict{Deny, RuleToolGone}
	case q.Refused:
		return Verdict{Deny, RuleRefused}
	case !q.Accepted && q.EverSeen:
		return Verdict{Park, RuleDefinitionChanged}
	case !q.Accepted:
		return Verdict{Park, RuleNewTool}
	case q.HighRisk:
		return Verdict{Park, RuleHighRisk}
	case !q.AutoApprove:
		return Verdict{Park, RuleGated}
	}
	return Verdict{Allow, RuleAutoApproved}
}
