package agent

import (
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/duration"
)

// Duration is a duration in the text form of Go: "5m", "1m30s".
type Duration = duration.Text

// Spec declares skills, agents, rules and policies, as holdpoint.yaml does. The file's shape, its JSON Schema and its reference come from
// this type (package manifest of the command line).
type Spec struct {
	Skills   []SkillSpec   `json:"skills,omitempty" doc:"Sources of tools."`
	Agents   []AgentSpec   `json:"agents,omitempty" doc:"Identities that call tools."`
	Rules    []rule.Spec   `json:"rules,omitempty" doc:"Rules that allow, park or deny calls."`
	Policies []policy.Spec `json:"policies,omitempty" doc:"Approval policies: who has to approve a call."`
	// Label marks what the spec declares, and Prune deletes what has the label and is not declared any more.
	Label string `json:"label,omitempty" manifest:"-" doc:"Marks the skills, agents, rules and policies of the spec. Each has at most one label: it is an error if one has another."`
	Prune bool   `json:"prune,omitempty" manifest:"-" doc:"Delete the skills, agents, rules and policies that were applied with the label and are not in the spec."`
	// Stored are the paths of secrets that stay as they are, because the spec does not have their values.
	Stored []string `json:"stored,omitempty" manifest:"-" doc:"Paths of secrets that the spec leaves out and that stay as the server has them, such as skills[0].headers.X-Key. It is an error if the server has none, or if it was given for another server or program."`
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
	Skill  string   `json:"skill" manifest:"required,short" doc:"The name of the skill. An entry that is only a name stands for this key alone."`
	Tools  []string `json:"tools,omitzero" otherwise:"all" doc:"The tools that the agent may use, by the names that the server uses."`             // nil: all of them
	Prefix *string  `json:"prefix,omitempty" otherwise:"the skill's name" doc:"What stands before the names of the tools; an empty text is none."` // nil: the skill's name; "": none
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
