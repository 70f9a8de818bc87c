package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestTeams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	const declared = `{
		"skills": [{"name": "files", "transport": "http", "url": "http://127.0.0.1:1/mcp", "team": "storage", "escalate_to": "night shift"}],
		"agents": [{"name": "billing", "escalate_to": "leads", "skills": [{"skill": "files"}]}]
	}`
	changes := w.registry.ApplyJSON(declared)
	if got := formatFields(changes[0]); !slices.Contains(got, "team:  -> storage") || !slices.Contains(got, "escalate_to:  -> night shift") {
		t.Errorf("fields of the skill: %q", got)
	}
	for _, change := range w.registry.ApplyJSON(declared) {
		if change.Action != agent.ActionUnchanged {
			t.Errorf("again: %+v", change)
		}
	}
	skill, err := w.SkillByName(ctx, "files")
	check(t, err)
	remembered, _, err := w.Skill(ctx, skill.ID)
	check(t, err)
	for _, s := range []*agent.Skill{skill, remembered} {
		if s.Team != "storage" || s.EscalateTo != "night shift" {
			t.Errorf("skill of team %q, escalated to %q", s.Team, s.EscalateTo)
		}
	}
	billing := w.registry.Agent("billing")
	byID, err := w.AgentByID(ctx, billing.ID)
	check(t, err)
	for _, a := range []*agent.Agent{billing, byID} {
		if a.Team != "" || a.EscalateTo != "leads" {
			t.Errorf("agent of team %q, escalated to %q", a.Team, a.EscalateTo)
		}
	}
	changed, err := w.UpdateSkill(ctx, operator, skill.ID, agent.SkillPatch{Team: new(""), EscalateTo: new("leads")})
	if err != nil || changed.Team != "" || changed.EscalateTo != "leads" || changed.Revision != skill.Revision+1 {
		t.Errorf("changed to %+v, %v", changed, err)
	}
	other, err := w.UpdateAgent(ctx, operator, billing.ID, agent.AgentPatch{Team: new("Büro"), Instructions: new("x")})
	if err != nil || other.Team != "Büro" || other.EscalateTo != "leads" {
		t.Errorf("changed to %+v, %v", other, err)
	}
	// A change of another setting keeps the teams.
	if kept, err := w.UpdateSkill(ctx, operator, skill.ID, agent.SkillPatch{AutoApprove: new(true)}); err != nil || kept.EscalateTo != "leads" {
		t.Errorf("kept %+v, %v", kept, err)
	}
}

func TestInvalidTeams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct{ team, escalateTo, field string }{
		"the same team":     {"ops", "ops", "escalate_to"},
		"too long":          {strings.Repeat("a", 129), "", "team"},
		"a line break":      {"", "ops\nadmins", "escalate_to"},
		"a hidden letter":   {"ops\u202e", "", "team"},
		"a space at an end": {"ops ", "", "team"},
		"no text":           {"\xff", "", "team"},
	} {
		_, ofSkill := w.CreateSkill(t.Context(), operator, agent.SkillSpec{
			Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp", Team: c.team, EscalateTo: c.escalateTo,
		})
		_, ofAgent := w.CreateAgent(t.Context(), operator, agent.AgentSpec{Name: "billing", Team: c.team, EscalateTo: c.escalateTo})
		for what, err := range map[string]error{"skill": ofSkill, "agent": ofAgent} {
			invalid, ok := errors.AsType[*fault.InvalidError](err)
			if !ok || len(invalid.Fields) != 1 || invalid.Fields[0].Name != c.field {
				t.Errorf("%s of a %s: %v", name, what, err)
			}
		}
	}
	if _, err := w.UpdateAgent(t.Context(), operator, uuid.New(), agent.AgentPatch{Team: new("ops")}); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("an unknown agent: %v", err)
	}
}
