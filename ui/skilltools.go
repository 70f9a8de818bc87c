package ui

import (
	"context"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
)

// descriptionShown bounds the beginning of a description in a list, in bytes.
const descriptionShown = 160

// presentTools fills in the tools that the skill's server offers, as far as it was asked. Those that
// somebody should look at come first.
func (u *UI) presentTools(ctx context.Context, s *agent.Skill, v *view.Skill) error {
	records, err := u.cfg.Discovery.Records(ctx, s.ID)
	if err != nil {
		return err
	}
	var pins []tool.Pin
	for i := range records {
		pins = append(pins, records[i].Current)
	}
	definitions, err := u.cfg.Discovery.Definitions(ctx, pins)
	if err != nil {
		return err
	}
	var rest []view.ToolRow
	for i := range records {
		r := &records[i]
		row := view.ToolRow{
			Name: r.Name, URL: toolURL(s.ID, r.Name), Badges: toolBadges(r.PinStatus, s.Tools[r.Name]), Changed: r.Changed,
			Description: beginning(definitions[r.Current].Description),
		}
		switch {
		case !r.Known:
			v.Removed++
		case unsettled(r.PinStatus):
			v.Unsettled++
			v.Tools = append(v.Tools, row)
		default:
			rest = append(rest, row)
		}
	}
	v.Tools = append(v.Tools, rest...)
	return nil
}

// beginning is the first line of a text, bounded.
func beginning(text string) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > descriptionShown {
		line, more = strings.ToValidUTF8(line[:descriptionShown], ""), true
	}
	if more {
		line += " …"
	}
	return line
}

func toolURL(skillID uuid.UUID, name string) string {
	return skillURL(skillID) + "/tools?" + url.Values{"tool": {name}}.Encode()
}

func toolBadges(status tool.PinStatus, settings agent.ToolSettings) []view.Badge {
	var badges []view.Badge
	switch {
	case !status.Known:
		badges = append(badges, view.Badge{Word: "not offered", Icon: "rejected", Level: view.Quiet})
	case status.IsRefused():
		badges = append(badges, view.Badge{Word: "refused", Icon: "rejected", Level: view.Danger})
	case status.IsAccepted():
		badges = append(badges, view.Badge{Word: "accepted", Icon: "good", Level: view.Quiet})
	case status.Accepted.IsZero():
		badges = append(badges, view.Badge{Word: "new tool", Icon: "new", Level: view.Warn})
	default:
		badges = append(badges, view.Badge{Word: "tool changed", Icon: "changed", Level: view.Danger})
	}
	if settings.Risk != "" {
		badges = append(badges, view.Badge{Word: "High risk", Icon: "high", Level: view.Danger})
	}
	if settings.Idempotent {
		badges = append(badges, view.Badge{Word: "Idempotent", Icon: "changed", Level: view.Quiet})
	}
	if settings.Disabled() {
		badges = append(badges, view.Badge{Word: "Switched off", Icon: "rejected", Level: view.Quiet})
	}
	return badges
}
