package present

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Risk says how carefully a call is reviewed. An operator's setting counts; a server's hint can only raise the risk.
type Risk struct {
	Badge view.Badge
	Twice bool // approving needs a second step
	Proof bool // approving needs a recent sign-in
}

// ReadRisk reads the risk of a call of a tool with this definition.
func ReadRisk(ctx context.Context, agents *agent.Service, c *call.Call, d tool.Definition) (Risk, error) {
	of, err := agents.RiskOf(ctx, c.SkillID, c.Tool, d)
	if err != nil {
		return Risk{}, fmt.Errorf("read risk of call %s: %w", c.ID, err)
	}
	return Risk{Twice: of != agent.RiskStandard, Proof: of == agent.RiskMarked, Badge: RiskBadge(of)}, nil
}

// RiskBadge returns the badge of a risk.
func RiskBadge(of agent.Risk) view.Badge {
	switch of {
	case agent.RiskMarked:
		return view.Badge{Word: text.CallRiskHigh(), Icon: "high", Level: view.Danger, Note: text.CallRiskHighNote()}
	case agent.RiskDestructive:
		return view.Badge{Word: text.CallRiskDestructive(), Icon: "destructive", Level: view.Warn, Note: text.CallRiskDestructiveNote()}
	case agent.RiskStandard:
	}
	return view.Badge{Word: text.CallRiskStandard(), Icon: "standard", Level: view.Quiet}
}
