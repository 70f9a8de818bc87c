package approval

// Action is how the gate treats a call.
type Action int

// The actions. The zero value denies.
const (
	Deny Action = iota
	Park
	Allow
)

func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Park:
		return "park"
	case Deny:
	}
	return "deny"
}

// Rule is the reason of a verdict.
type Rule string

// The rules.
const (
	RuleGated             Rule = "gated"              // the skill is not auto-approved
	RuleHighRisk          Rule = "high_risk"          // an operator marked the tool as such
	RuleDefinitionChanged Rule = "definition_changed" // no operator has accepted the change yet
	RuleNewTool           Rule = "new_tool"           // the tool appeared after the first discovery
	RuleAutoApproved      Rule = "auto_approved"
	RuleDisabled          Rule = "tool_disabled"
	RuleToolGone          Rule = "tool_gone"          // the server no longer offers the tool
	RuleRefused           Rule = "definition_refused" // an operator refused the tool's present definition

	// Operators' rules; see package rule.
	RuleParked  Rule = "rule_parked"  // a rule parks the call
	RuleFailed  Rule = "rule_failed"  // the condition of a rule could not be evaluated
	RuleDenied  Rule = "rule_denied"  // a rule denies the call
	RuleAllowed Rule = "rule_allowed" // a rule allows the call
)

// ParkingRules returns the rules that park a call. Every approval has one of them.
func ParkingRules() []Rule {
	return []Rule{RuleGated, RuleHighRisk, RuleDefinitionChanged, RuleNewTool, RuleParked, RuleFailed}
}

// Facts are the input of a verdict. Operators set them or Holdpoint measures them; a server's own hints never count.
type Facts struct {
	AutoApprove bool
	HighRisk    bool
	Disabled    bool
	Known       bool // the server offers the tool now
	Refused     bool // an operator refused the tool's present definition
	Accepted    bool // the tool's present definition was accepted
	EverSeen    bool // some definition of the tool was accepted before
}

// Verdict is an action and its reason.
type Verdict struct {
	Action Action
	Rule   Rule
}

// Judge returns the verdict on a call by operators' settings. The first rule that applies decides: rules that deny, then rules that park.
// Operators' own rules may change it; see package rule.
func Judge(f Facts) Verdict {
	switch {
	case f.Disabled:
		return Verdict{Deny, RuleDisabled}
	case !f.Known:
		return Verdict{Deny, RuleToolGone}
	case f.Refused:
		return Verdict{Deny, RuleRefused}
	case !f.Accepted && f.EverSeen:
		return Verdict{Park, RuleDefinitionChanged}
	case !f.Accepted:
		return Verdict{Park, RuleNewTool}
	case f.HighRisk:
		return Verdict{Park, RuleHighRisk}
	case !f.AutoApprove:
		return Verdict{Park, RuleGated}
	}
	return Verdict{Allow, RuleAutoApproved}
}
