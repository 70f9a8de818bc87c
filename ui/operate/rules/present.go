package rules

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// describeScope says which calls a rule is about.
func describeScope(spec *rule.Spec) text.Message {
	var parts []text.Message
	for _, list := range []struct {
		names    []string
		describe func(string) text.Message
	}{{spec.Agents, text.RulesAgentsAre}, {spec.Skills, text.RulesSkillsAre}, {spec.Tools, text.RulesToolsAre}} {
		if len(list.names) > 0 {
			parts = append(parts, list.describe(strings.Join(list.names, ", ")))
		}
	}
	if len(parts) == 0 {
		return text.RulesAllCalls()
	}
	return text.Join("; ", parts...)
}

// longCondition is the number of characters of a condition that the list shows.
const longCondition = 200

// joinLines returns a condition on one line, whose end is left out if it is long.
func joinLines(condition string) string {
	lines := strings.Split(condition, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	joined := []rune(strings.Join(lines, " "))
	if len(joined) > longCondition {
		return string(joined[:longCondition]) + "…"
	}
	return string(joined)
}

// presentRule presents a rule by its versions, the newest first.
func presentRule(versions []agent.RuleVersion, names map[uuid.UUID]string, mayEdit bool) Rule {
	newest := &versions[0]
	v := Rule{Name: newest.Name, URL: present.RuleURL(newest.Name), MayEdit: mayEdit}
	if spec := newest.Spec; spec != nil {
		v.Badges = listBadges(spec)
		if spec.When != "" {
			v.When, v.Says = &hostile.Value{Head: hostile.ShowValue(spec.When)}, present.DescribeCondition(spec.When)
		}
		v.Facts = []view.Fact{{Name: text.RulesScope(), Text: describeScope(spec)}}
		if spec.Message != "" {
			v.Facts = append(v.Facts, view.Fact{Name: text.RulesMessage(), Text: text.Literal(spec.Message)})
		}
		if spec.Policy != "" {
			v.Facts = append(v.Facts, view.Fact{Name: text.PoliciesPolicy(), Text: text.Literal(spec.Policy), URL: present.PolicyURL(spec.Policy)})
		}
		v.Facts = append(v.Facts, view.Fact{Name: text.RulesRevision(), Text: text.Literal(formatRevision(newest.Revision))})
	} else {
		v.Deleted, v.Badges = true, []view.Badge{{Word: text.RulesDeleted(), Icon: "cancelled", Level: view.Quiet}}
	}
	for i := range versions {
		var before *rule.Spec
		if i+1 < len(versions) {
			before = versions[i+1].Spec
		}
		v.Versions = append(v.Versions, presentVersion(&versions[i], before, names))
	}
	if mayEdit {
		for i := range v.Versions {
			if versions[i].Spec != nil && i > 0 {
				v.Versions[i].Restore = v.URL + "/edit?version=" + v.Versions[i].Revision
			}
		}
	}
	return v
}

// presentVersion presents a version, with its difference from the one before. Nil: there was no rule.
func presentVersion(version *agent.RuleVersion, before *rule.Spec, names map[uuid.UUID]string) Version {
	v := Version{Revision: formatRevision(version.Revision), At: version.ChangedAt, By: present.PersonName(version.ChangedBy, names)}
	switch {
	case version.Spec == nil:
		v.Event = text.RulesRemovedVersion()
	case before == nil:
		v.Event = text.RulesFirstVersion()
		before = &rule.Spec{}
	}
	if version.Spec != nil {
		if diff, err := hostile.ReadDiff(encodeSpec(before), encodeSpec(version.Spec), hostile.Limits{}); err == nil {
			v.Diff = &diff
		}
	}
	return v
}

// encodeSpec returns the fields of a rule that differ from version to version.
func encodeSpec(spec *rule.Spec) []byte {
	shown := struct {
		Agents   []string    `json:"agents,omitempty"`
		Skills   []string    `json:"skills,omitempty"`
		Tools    []string    `json:"tools,omitempty"`
		When     string      `json:"when,omitempty"`
		Effect   rule.Effect `json:"effect,omitempty"`
		Mode     rule.Mode   `json:"mode,omitempty"`
		Message  string      `json:"message,omitempty"`
		HighRisk bool        `json:"high_risk,omitempty"`
		Grants   bool        `json:"grants,omitempty"`
		Policy   string      `json:"policy,omitempty"`
	}{spec.Agents, spec.Skills, spec.Tools, spec.When, spec.Effect, spec.Mode, spec.Message, spec.HighRisk, spec.Grants, spec.Policy}
	return encodeFields(shown)
}

// encodeFields returns the fields of a version as JSON, for its comparison with another one.
func encodeFields(fields any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(fields) //nolint:errchkjson // it has texts only
	return bytes.TrimSpace(b.Bytes())
}

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }

// maxMisfits bounds the tools that the page of a rule lists because the condition does not fit them.
const maxMisfits = 20

func (v *Rule) addMisfits(warnings []agent.RuleWarning) {
	for i := range warnings {
		if i == maxMisfits {
			v.MoreMisfits = len(warnings) - i
			break
		}
		v.Misfits = append(v.Misfits, Misfit{Tool: text.RulesOneTool(warnings[i].Tool, warnings[i].Skill), Problem: warnings[i].Message})
	}
	if n := len(warnings); n > 0 {
		v.Badges = append(v.Badges, view.Badge{Word: text.RulesMisfits(n), Icon: "high", Level: view.Warn})
	}
}
