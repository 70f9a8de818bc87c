package agent

import (
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Duration is a time.Duration that JSON and YAML write as Go does: "5m", "1m30s".
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

// ExpectedError is that a text cannot be read. It says what was expected, and nothing of the text, which may be secret.
type ExpectedError struct{ Expected string }

func (e *ExpectedError) Error() string { return "expected " + e.Expected }

// String is the duration as a person would write it: 5m, not 5m0s.
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

// Spec is what an operator declares at once; see holdpoint.yaml.
type Spec struct {
	Skills []SkillSpec `json:"skills,omitempty"`
	Agents []AgentSpec `json:"agents,omitempty"`
}

// SkillSpec declares one skill. A field that is left out has its default.
type SkillSpec struct {
	Name             string                  `json:"name"`
	Transport        tool.Transport          `json:"transport"`
	URL              string                  `json:"url,omitempty"`
	Command          []string                `json:"command,omitempty"`
	Headers          map[string]string       `json:"headers,omitempty"` // values are secret
	Env              map[string]string       `json:"env,omitempty"`     // likewise
	RunAs            string                  `json:"run_as,omitempty"`  // of stdio: an account of this machine
	Paths            *tool.Paths             `json:"paths,omitempty"`   // of stdio
	AutoApprove      bool                    `json:"auto_approve,omitempty"`
	TrustNewTools    bool                    `json:"trust_new_tools,omitempty"`
	ApprovalTimeout  *Duration               `json:"approval_timeout,omitempty"`  // default 5m
	ApprovalValidity *Duration               `json:"approval_validity,omitempty"` // default 0s: as approval_timeout
	CallTimeout      *Duration               `json:"call_timeout,omitempty"`      // default 60s
	Resources        string                  `json:"resources,omitempty"`         // gated, the default, or pass
	Edits            string                  `json:"edits,omitempty"`             // by_risk, the default, alone or second
	Questions        string                  `json:"questions,omitempty"`         // reviewer, the default, or client
	IdentityHeaders  *IdentityHeaders        `json:"identity_headers,omitempty"`
	Tools            map[string]ToolSettings `json:"tools,omitempty"`
	OAuth            *OAuthSpec              `json:"oauth,omitempty"`      // nil: discovered when the server asks for it
	Connection       string                  `json:"connection,omitempty"` // shared, the default, or per_user
	Team             string                  `json:"team,omitempty"`       // whose attention its calls want; default the agent's
	EscalateTo       string                  `json:"escalate_to,omitempty"`
	APISpec
}

// SkillPatch changes a skill. A nil field stays as it is.
type SkillPatch struct {
	Transport        *tool.Transport          `json:"transport,omitempty"`
	URL              *string                  `json:"url,omitempty"`
	Command          *[]string                `json:"command,omitempty"`
	Headers          map[string]*string       `json:"headers,omitempty"` // by name; null removes one
	Env              map[string]*string       `json:"env,omitempty"`     // likewise
	RunAs            *string                  `json:"run_as,omitempty"`  // "": an account of its own
	Paths            *tool.Paths              `json:"paths,omitempty"`   // replaces all of them
	AutoApprove      *bool                    `json:"auto_approve,omitempty"`
	TrustNewTools    *bool                    `json:"trust_new_tools,omitempty"`
	ApprovalTimeout  *Duration                `json:"approval_timeout,omitempty"`
	ApprovalValidity *Duration                `json:"approval_validity,omitempty"` // "0s": as approval_timeout
	CallTimeout      *Duration                `json:"call_timeout,omitempty"`
	Resources        *string                  `json:"resources,omitempty"`
	Edits            *string                  `json:"edits,omitempty"`
	Questions        *string                  `json:"questions,omitempty"`
	IdentityHeaders  *IdentityHeaders         `json:"identity_headers,omitempty"` // replaces all of it
	Tools            *map[string]ToolSettings `json:"tools,omitempty"`            // replaces all of them
	OAuth            OAuthPatch               `json:"oauth,omitzero"`             // replaces all of it; null removes it
	Connection       *string                  `json:"connection,omitempty"`
	Team             *string                  `json:"team,omitempty"`        // "": none
	EscalateTo       *string                  `json:"escalate_to,omitempty"` // likewise
	APIPatch
	Revision *int64 `json:"revision,omitempty" doc:"Of the skill, for which the change is made: where it has another by now, nothing is changed (409). Left out: whichever it has."`
}

// ToolPatch changes what an operator says of one tool. A nil field stays as it is.
type ToolPatch struct {
	Risk       *string `json:"risk,omitempty"` // high, or "" for none
	Idempotent *bool   `json:"idempotent,omitempty"`
	Enabled    *bool   `json:"enabled,omitempty"`
	Select     *string `json:"select,omitempty"` // "": none
	Revision   *int64  `json:"revision,omitempty" doc:"Of the skill, for which the change is made: where it has another by now, nothing is changed (409). Left out: whichever it has."`
}

// AgentSpec declares one agent. A field that is left out has its default, but
// Skills, left out, leaves the agent's assignments alone.
type AgentSpec struct {
	Name         string            `json:"name"`
	Instructions string            `json:"instructions,omitempty"`
	Model        *ModelSpec        `json:"model,omitempty"`
	WaitBudget   *Duration         `json:"wait_budget,omitempty"`   // default 50s
	ErrorStyle   string            `json:"error_style,omitempty"`   // mcp, the default, or codes
	ReplyTimeout *Duration         `json:"reply_timeout,omitempty"` // default 0s, that of the style: none for mcp, 60s for codes
	Limits       *Limits           `json:"limits,omitempty"`
	Team         string            `json:"team,omitempty"` // whose attention its calls want, where a skill names none
	EscalateTo   string            `json:"escalate_to,omitempty"`
	Skills       *[]AssignmentSpec `json:"skills,omitempty"` // all its assignments
}

// AgentPatch changes an agent. A nil field stays as it is.
type AgentPatch struct {
	Instructions *string `json:"instructions,omitempty"`
	// Model replaces the model. An empty api_key keeps the stored one while
	// provider and base_url stay the same. With an empty provider and name the agent has no model.
	Model        *ModelSpec        `json:"model,omitempty"`
	WaitBudget   *Duration         `json:"wait_budget,omitempty"`
	ErrorStyle   *string           `json:"error_style,omitempty"`
	ReplyTimeout *Duration         `json:"reply_timeout,omitempty"` // 0s: that of the error style
	Limits       *Limits           `json:"limits,omitempty"`        // replaces all of them
	Team         *string           `json:"team,omitempty"`          // "": none
	EscalateTo   *string           `json:"escalate_to,omitempty"`   // likewise
	Skills       *[]AssignmentSpec `json:"skills,omitempty"`        // all its assignments
	Revision     *int64            `json:"revision,omitempty" doc:"Of the agent, for which the change is made: where it has another by now, nothing is changed (409). Left out: whichever it has."`
}

// AssignmentSpec is one element of an agent's skills.
type AssignmentSpec struct {
	Skill  string   `json:"skill"`
	Tools  []string `json:"tools,omitzero"`   // nil: all of them
	Prefix *string  `json:"prefix,omitempty"` // nil: the skill's name; "": none
}

// Change is what was, or with a dry run would be, done about one thing.
type Change struct {
	Kind   string        `json:"kind"`   // skill, agent or assignment
	Name   string        `json:"name"`   // of an assignment: agent/skill
	Action string        `json:"action"` // create, update, delete or unchanged
	Fields []FieldChange `json:"fields,omitempty"`
}

// FieldChange is one changed field. What is secret shows as "(secret)" only.
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

	ActionCreate    = "create"
	ActionUpdate    = "update"
	ActionDelete    = "delete"
	ActionUnchanged = "unchanged"
)

// The defaults of what a spec leaves out.
const (
	DefaultApprovalTimeout = 5 * time.Minute
	DefaultCallTimeout     = 60 * time.Second
	DefaultWaitBudget      = 50 * time.Second
)
