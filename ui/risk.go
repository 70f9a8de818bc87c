package ui

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
)

// risk says how much attention a call wants. What an operator said counts; what the server
// claims only ever adds to it.
type risk struct {
	badge view.Badge
	twice bool // approving takes a second step
	proof bool // approving takes somebody who proved a short while ago who they are
}

func (u *UI) risk(ctx context.Context, c *call.Call, d tool.Definition) (risk, error) {
	of, err := u.cfg.Agents.RiskOf(ctx, c.SkillID, c.Tool, d)
	if err != nil {
		return risk{}, fmt.Errorf("read risk of call %s: %w", c.ID, err)
	}
	switch of {
	case agent.RiskMarked:
		return risk{twice: true, proof: true, badge: view.Badge{
			Word: "High risk", Icon: "high", Level: view.Danger, Note: "An operator marked this tool.",
		}}, nil
	case agent.RiskDestructive:
		return risk{twice: true, badge: view.Badge{
			Word: "Destructive", Icon: "destructive", Level: view.Warn, Note: "The server says so.",
		}}, nil
	case agent.RiskStandard:
	}
	return risk{badge: view.Badge{Word: "Standard", Icon: "standard", Level: view.Quiet}}, nil
}

func isTrue(hint *bool) bool { return hint != nil && *hint }

// hints are what the server claims of a tool, in words.
func hints(d tool.Definition) []string {
	h := d.Hints()
	var words []string
	for _, hint := range []struct {
		value   *bool
		yes, no string
	}{
		{h.DestructiveHint, "destructive", "not destructive"},
		{h.ReadOnlyHint, "only reads", ""},
		{h.IdempotentHint, "may be repeated without harm", ""},
		{h.OpenWorldHint, "reaches the world outside", "stays within its own world"},
	} {
		switch {
		case isTrue(hint.value):
			words = append(words, hint.yes)
		case hint.value != nil && hint.no != "":
			words = append(words, hint.no)
		}
	}
	return words
}
