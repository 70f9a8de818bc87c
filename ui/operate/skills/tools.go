package skills

import (
	"context"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentTools lists the tools that the skill's server offered at its last check. Those that need an operator come first.
func (h *Handler) presentTools(ctx context.Context, s *agent.Skill, v *Skill) error {
	records, err := h.discovery.Records(ctx, s.ID)
	if err != nil {
		return err
	}
	var pins []tool.Pin
	for i := range records {
		pins = append(pins, records[i].Current)
	}
	definitions, err := h.discovery.Definitions(ctx, pins)
	if err != nil {
		return err
	}
	var rest []ToolRow
	for i := range records {
		r := &records[i]
		row := ToolRow{
			Name: r.Name, URL: present.ToolURL(s.ID, r.Name), Badges: toolBadges(r.PinStatus, s.Tools[r.Name]), Changed: r.Changed,
			Description: present.Beginning(definitions[r.Current].Description),
		}
		switch {
		case !r.Known:
			v.Removed++
		case isUnsettled(r.PinStatus):
			v.Unsettled++
			v.Tools = append(v.Tools, row)
		default:
			rest = append(rest, row)
		}
	}
	v.Tools = append(v.Tools, rest...)
	return nil
}

func toolBadges(status tool.PinStatus, settings agent.ToolSettings) []view.Badge {
	var badges []view.Badge
	switch {
	case !status.Known:
		badges = append(badges, view.Badge{Word: text.SkillToolNotOffered(), Icon: "rejected", Level: view.Quiet})
	case status.IsRefused():
		badges = append(badges, view.Badge{Word: text.SkillToolRefusedBadge(), Icon: "rejected", Level: view.Danger})
	case status.IsAccepted():
		badges = append(badges, view.Badge{Word: text.SkillToolAcceptedBadge(), Icon: "good", Level: view.Quiet})
	case status.Accepted.IsZero():
		badges = append(badges, view.Badge{Word: text.SkillToolNew(), Icon: "new", Level: view.Warn})
	default:
		badges = append(badges, view.Badge{Word: text.SkillToolChanged(), Icon: "changed", Level: view.Danger})
	}
	if settings.Risk != "" {
		badges = append(badges, view.Badge{Word: text.SkillToolHighRisk(), Icon: "high", Level: view.Danger})
	}
	if settings.Idempotent {
		badges = append(badges, view.Badge{Word: text.SkillToolIdempotent(), Icon: "changed", Level: view.Quiet})
	}
	if settings.Grants {
		badges = append(badges, view.Badge{Word: text.GrantsToolBadge(), Icon: "good", Level: view.Quiet})
	}
	if settings.Disabled() {
		badges = append(badges, view.Badge{Word: text.SkillToolDisabled(), Icon: "rejected", Level: view.Quiet})
	}
	return badges
}
