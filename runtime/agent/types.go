package agent

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Agent is an identity that runs conversations.
type Agent struct {
	ID           uuid.UUID
	KeyID        uuid.UUID // of the key that authenticated it, or uuid.Nil
	Name         string
	Instructions string
	Model        json.RawMessage // nil: none; it has no API key
	AgentSettings
	Revision  int64 // incremented with every change of the agent, its assignments or their skills
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Key is an agent's credential, without its secret.
type Key struct {
	ID        uuid.UUID
	AgentID   uuid.UUID
	Hint      string // the first characters
	CreatedAt time.Time
	CreatedBy uuid.UUID  // a person, or uuid.Nil if unknown
	ExpiresAt *time.Time // nil: never
	RevokedAt *time.Time
}

// Skill is a named source of tools, without its secrets.
type Skill struct {
	ID          uuid.UUID
	Name        string
	Transport   tool.Transport
	URL         string
	Command     []string
	HeaderNames []string // their values are secret
	EnvNames    []string // likewise
	RunAs       string   // of stdio: the account of the program; empty: an account for this skill only
	Paths       tool.Paths
	OAuth       *OAuth // nil: not set
	PerUser     bool   // each person has their own connection
	// API has the other settings of an HTTP API, whose base URL is URL. Nil: there are none.
	API          *tool.API
	DocumentSize int // in bytes, of the document given by value
	SkillSettings
	Revision  int64
	Health    Health
	CreatedAt time.Time
	UpdatedAt time.Time
}

// OAuth has a skill's OAuth settings without the secrets; see [OAuthSpec].
type OAuth struct {
	Grant       tool.Grant `json:"grant"`
	Issuer      string     `json:"issuer,omitempty"`
	ClientID    string     `json:"client_id,omitempty"`
	AuthMethod  string     `json:"auth_method,omitempty"`
	Scopes      []string   `json:"scopes,omitempty"`
	TrustOrigin bool       `json:"trust_origin,omitempty"`
	IDPIssuer   string     `json:"idp_issuer,omitempty"`
	IDPClientID string     `json:"idp_client_id,omitempty"`
	Secrets     []string   `json:"secrets,omitempty"` // names of the secrets that are set: client_secret, private_key, idp.client_secret
}

// RiskHigh marks a tool whose calls are always parked.
const RiskHigh = "high"

// ToolSettings are an operator's settings for one tool of a skill.
type ToolSettings struct {
	Risk       string `json:"risk,omitempty" values:"high|" otherwise:"none" doc:"high: calls always need an approval, also in an auto-approved skill."` // "high" or empty; calls of high risk are always parked
	Idempotent bool   `json:"idempotent,omitempty" doc:"Whether a call may be sent again after a failed connection."`                                    // may be sent again
	Enabled    *bool  `json:"enabled,omitempty" otherwise:"true" doc:"Whether agents may use the tool."`                                                 // nil: enabled
	Select     string `json:"select,omitempty" otherwise:"none" doc:"A jq program that reduces JSON responses, with transports openapi and http-api."`   // of HTTP APIs: a jq program that reduces JSON responses; empty: none
	// NotSecret has the JSON pointers of arguments that are shown though the tool's schema declares them as secrets; * is any name or index.
	NotSecret []string `json:"not_secret,omitempty" otherwise:"none" doc:"JSON pointers of arguments that are shown though the tool's schema declares them as secrets; * is any name or index."`
	// Grants allows grants although the tool is of high risk, its server claims that it is destructive, or its calls have an approval policy.
	Grants bool   `json:"grants,omitempty" doc:"Whether calls may be allowed by grants although the tool is of high risk, its server claims that it is destructive, or its calls have an approval policy."`
	Policy string `json:"policy,omitempty" otherwise:"the skill's" doc:"The approval policy of the tool's calls."` // of calls that need an approval; empty: the skill's
}

// isDefault reports whether the settings, which are normal, change nothing.
func (s ToolSettings) isDefault() bool {
	return s.Risk == "" && !s.Idempotent && s.Enabled == nil && s.Select == "" && len(s.NotSecret) == 0 && s.Policy == "" && !s.Grants
}

// TakesGrants reports whether people may allow calls of a tool by grants.
func (s *Skill) TakesGrants(d tool.Definition) bool {
	settings := s.Tools[d.Name]
	return settings.Grants || settings.Risk == "" && !ClaimsDestructive(d) && settings.Policy == "" && s.Policy == ""
}

// EditNeedsSecond reports whether an edit of a call of this tool needs the approval of a reviewer other than the editor.
func (s *Skill) EditNeedsSecond(name string) bool {
	switch s.Edits {
	case EditsAlone:
		return false
	case EditsSecond:
		return true
	}
	return s.Tools[name].Risk == RiskHigh
}

// Disabled reports whether an operator disabled the tool.
func (s ToolSettings) Disabled() bool { return s.Enabled != nil && !*s.Enabled }

// Health is the result of the last discovery of a skill.
type Health struct {
	DiscoveredAt *time.Time // first success
	ListedAt     *time.Time // last attempt
	ErrorKind    string     // a tool.FailureKind, or "" after a success
	Error        string
	Skipped      []tool.Skipped // tools that the last success left out, with reasons
}

// Assignment lets an agent use a skill.
type Assignment struct {
	AgentID uuid.UUID
	Agent   string
	SkillID uuid.UUID
	Skill   string
	Tools   []string // nil: all tools
	Prefix  *string  // nil: the skill's name; "": none
}
