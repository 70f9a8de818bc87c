package agent

import (
	"context"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// loosening is a setting of a skill that can let calls pass with less.
type loosening struct {
	loosens func(before, after *SkillSettings) bool
	tighten func(s *SkillSettings) // sets the default, which loosens nothing
}

// loosenings are the settings of skills that can loosen, by their names in holdpoint.yaml. The others do not change what is approved, or by
// whom.
func loosenings() map[string]loosening {
	tight := DefaultSkillSettings()
	edits := []string{EditsAlone, EditsByRisk, EditsSecond}
	return map[string]loosening{
		"auto_approve": {
			func(before, after *SkillSettings) bool { return after.AutoApprove && !before.AutoApprove },
			func(s *SkillSettings) { s.AutoApprove = tight.AutoApprove },
		},
		"trust_new_tools": {
			func(before, after *SkillSettings) bool { return after.TrustNewTools && !before.TrustNewTools },
			func(s *SkillSettings) { s.TrustNewTools = tight.TrustNewTools },
		},
		"resources": {
			func(before, after *SkillSettings) bool {
				return after.Resources == ResourcesPass && before.Resources != ResourcesPass
			},
			func(s *SkillSettings) { s.Resources = tight.Resources },
		},
		"edits": {
			func(before, after *SkillSettings) bool {
				return slices.Index(edits, after.Edits) < slices.Index(edits, before.Edits)
			},
			func(s *SkillSettings) { s.Edits = tight.Edits },
		},
		"questions": {
			func(before, after *SkillSettings) bool {
				return after.Questions == QuestionsClient && before.Questions != QuestionsClient
			},
			func(s *SkillSettings) { s.Questions = tight.Questions },
		},
		"policy": {
			func(before, after *SkillSettings) bool { return before.Policy != "" && after.Policy != before.Policy },
			func(*SkillSettings) {}, // any policy tightens a new skill
		},
		"tools": {
			func(before, after *SkillSettings) bool {
				for name, was := range before.Tools {
					if after.Tools[name].loosens(was) {
						return true
					}
				}
				for name, now := range after.Tools {
					if now.loosens(before.Tools[name]) {
						return true
					}
				}
				return false
			},
			func(s *SkillSettings) { // other settings of tools can only tighten a new skill
				tools := make(map[string]ToolSettings, len(s.Tools))
				for name, settings := range s.Tools {
					settings.Grants = false
					tools[name] = settings
				}
				s.Tools = normalizeTools(tools)
			},
		},
	}
}

// loosens reports whether the settings of a tool loosen those that it had.
func (s ToolSettings) loosens(was ToolSettings) bool {
	return was.Risk == RiskHigh && s.Risk != RiskHigh || was.Disabled() && !s.Disabled() || was.Policy != "" && s.Policy != was.Policy || s.Grants && !was.Grants
}

// tightenSkill returns the state of a new skill without what loosens, and whether that differs.
func tightenSkill(s *skillState) (tight *skillState, loosened bool) {
	tightened, defaults := *s, DefaultSkillSettings()
	for _, l := range loosenings() {
		if l.loosens(&defaults, &s.SkillSettings) {
			l.tighten(&tightened.SkillSettings)
			loosened = true
		}
	}
	return &tightened, loosened
}

// choosesTarget reports whether a field of a skill chooses the server, the program or the requests that calls reach. Credentials do not.
func choosesTarget(field string) bool {
	if variable, ok := strings.CutPrefix(field, "env."); ok {
		return tool.ChoosesCode(variable)
	}
	switch field {
	case "transport", "host", "url", "base_url", "command", "run_as", "paths.read", "paths.write", "spec", "document", "endpoints":
		return true
	}
	return false
}

// loosensSkill reports whether a change of a skill loosens. Another target does if calls of the skill pass without an approval: the approval
// of two people was for the one before.
func (e *edit) loosensSkill(ctx context.Context, name string, before, after *skillState, changes []FieldChange) (bool, error) {
	for _, l := range loosenings() {
		if l.loosens(&before.SkillSettings, &after.SkillSettings) {
			return true, nil
		}
	}
	if !slices.ContainsFunc(changes, func(c FieldChange) bool { return choosesTarget(c.Field) }) {
		return false, nil
	}
	return e.passesWithout(ctx, before.AutoApprove, func(spec *rule.Spec) bool { return spec.CoversSkill(name) })
}

// passesWithout reports whether calls may pass without an approval, by a skill's setting or by a rule.
func (e *edit) passesWithout(ctx context.Context, autoApprove bool, covers func(*rule.Spec) bool) (bool, error) {
	if autoApprove {
		return true, nil
	}
	rules, err := e.readRules(ctx)
	if err != nil {
		return false, err
	}
	for _, version := range rules.present {
		if version.Spec.Mode == rule.Enforce && version.Spec.Effect == rule.Allow && covers(version.Spec) {
			return true, nil
		}
	}
	return false, nil
}
