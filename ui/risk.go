package ui

import (
	"context"
	"errors"
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
	skill, _, err := u.cfg.Agents.Skill(ctx, c.SkillID)
	switch {
	case errors.Is(err, agent.ErrNotFound): // deleted: the decision will find that out
	case err != nil:
		return risk{}, fmt.Errorf("read risk of call %s: %w", c.ID, err)
	case skill.Tools[c.Tool].Risk != "":
		return risk{twice: true, proof: true, badge: view.Badge{
			Word: "High risk", Icon: "high", Level: view.Danger, Note: "An operator marked this tool.",
		}}, nil
	}
	if hints := d.Hints(); isTrue(hints.DestructiveHint) {
		return risk{twice: true, badge: view.Badge{
			Word: "Destructive", Icon: "destructive", Level: view.Warn, Note: "The server says so.",
		}}, nil
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
