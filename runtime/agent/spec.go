package agent

import (
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/duration"
)

// Duration is a duration in the text form of Go: "5m", "1m30s".
type Duration = duration.Text

// Spec declares skills, agents, rules and policies, as holdpoint.yaml does.
type Spec struct {
	Skills   []SkillSpec   `json:"skills,omitempty"`
	Agents   []AgentSpec   `json:"agents,omitempty"`
	Rules    []rule.Spec   `json:"rules,omitempty"`
	Policies []policy.Spec `json:"policies,omitempty"`
}

// ToolPatch changes the settings of one tool. A nil field stays as it is.
type ToolPatch struct {
	Risk       *string   `json:"risk,omitempty"` // high, or "" for none
	Idempotent *bool     `json:"idempotent,omitempty"`
	Enabled    *bool     `json:"enabled,omitempty"`
	Select     *string   `json:"select,omitempty"` // "": none
	NotSecret  *[]string `json:"not_secret,omitempty" doc:"JSON pointers of arguments that are shown though the tool's schema declares them as secrets; * is any name or index. An empty list removes all."`
	Grants     *bool     `json:"grants,omitempty" doc:"Whether calls may be allowed by grants although the tool is of high risk, its server claims that it is destructive, or its calls have an approval policy."`
	Policy     *string   `json:"policy,omitempty" doc:"The approval policy of its gated calls, instead of the skill's; empty: the skill's."`
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
	Kind   string        `json:"kind"`   // skill, agent, assignment, rule or policy
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
	KindPolicy     = "policy"

	ActionCreate    = "create"
	ActionUpdate    = "update"
	ActionDelete    = "delete"
	ActionUnchanged = "unchanged"
)
