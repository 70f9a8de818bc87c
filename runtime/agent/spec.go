package agent

import (
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/approval/rule"
)

// Duration is a time.Duration in the text form of Go: "5m", "1m30s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return &ExpectedError{"a duration such as 90s, 5m or 1h30m"}
	}
	*d = Duration(parsed)
	return nil
}

// ExpectedError reports text that cannot be parsed. It does not contain the text, which may be secret.
type ExpectedError struct{ Expected string }

func (e *ExpectedError) Error() string { return "must be " + e.Expected }

// String formats the duration without zero units: 5m, not 5m0s.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Spec declares skills, agents and rules, as holdpoint.yaml does.
type Spec struct {
	Skills []SkillSpec `json:"skills,omitempty"`
	Agents []AgentSpec `json:"agents,omitempty"`
	Rules  []rule.Spec `json:"rules,omitempty"`
}

// ToolPatch changes the settings of one tool. A nil field stays as it is.
type ToolPatch struct {
	Risk       *string   `json:"risk,omitempty"` // high, or "" for none
	Idempotent *bool     `json:"idempotent,omitempty"`
	Enabled    *bool     `json:"enabled,omitempty"`
	Select     *string   `json:"select,omitempty"` // "": none
	NotSecret  *[]string `json:"not_secret,omitempty" doc:"JSON pointers of arguments that are shown though the tool's schema declares them as secrets; * is any name or index. An empty list removes all."`
	Revision   *int64    `json:"revision,omitempty" doc:"The expected revision of the skill: with another one, nothing is changed (409). Omitted: any."`
}

// AssignmentSpec is one element of an agent's skills.
type AssignmentSpec struct {
	Skill  string   `json:"skill"`
	Tools  []string `json:"tools,omitzero"`   // nil: all of them
	Prefix *string  `json:"prefix,omitempty"` // nil: the skill's name; "": none
}

// Change is a change that was made, or would be made without a dry run.
type Change struct {
	Kind   string        `json:"kind"`   // skill, agent, assignment or rule
	Name   string        `json:"name"`   // of an assignment: agent/skill
	Action string        `json:"action"` // create, update, delete or unchanged
	Fields []FieldChange `json:"fields,omitempty"`
	// Waits is the id of the change that waits for a second operator instead of being made. Empty: it was made.
	Waits string `json:"waits,omitempty" doc:"The id of the change (GET /api/v1/changes/{id}) that waits for a second operator; omitted: it was made."`
}

// FieldChange is one changed field. A secret value is shown as "(secret)".
type FieldChange struct {
	Field string `json:"field"`         // as in holdpoint.yaml; headers.X-Team
	Old   string `json:"old,omitempty"` // empty: not set before
	New   string `json:"new,omitempty"` // empty: removed
}

// The kinds and actions of changes.
const (
	KindSkill      = "skill"
	KindAgent      = "agent"
	KindAssignment = "assignment"
	KindRule       = "rule"

	ActionCreate    = "create"
	ActionUpdate    = "update"
	ActionDelete    = "delete"
	ActionUnchanged = "unchanged"
)
