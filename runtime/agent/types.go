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
	KeyID        uuid.UUID // of the key that it authenticated with; else uuid.Nil
	Name         string
	Instructions string
	Model        json.RawMessage // nil: none; its api key is never here
	WaitBudget   time.Duration   // how long a response is held open; default 50 s
	ErrorStyle   string          // ErrorStyleMCP or ErrorStyleCodes
	ReplyTimeout time.Duration   // after it a tools/call is answered -32003; zero: never. What counts, whoever set it
	// ReplyTimeoutSet is the reply timeout that an operator set. Zero: that of the error style.
	ReplyTimeoutSet time.Duration
	Limits          Limits
	Team            string // whose attention its calls want; empty: everybody's
	EscalateTo      string // the team that is asked at half of the deadline; empty: none
	Revision        int64  // grows with every change of the agent, its assignments and their skills
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// Key is an agent's credential, without its secret.
type Key struct {
	ID        uuid.UUID
	AgentID   uuid.UUID
	Hint      string // the first characters, to tell keys apart
	CreatedAt time.Time
	CreatedBy uuid.UUID  // the person; uuid.Nil: not known
	ExpiresAt *time.Time // nil: it does not end by itself
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
	RunAs       string   // of stdio: the account it runs as; empty: one of its own
	Paths       tool.Paths
	OAuth       *OAuth // nil: nothing was said of it
	PerUser     bool   // each person has a connection of their own
	// API is what else is said of an HTTP API, whose base URL is URL. Nil: it is none, or nothing is said.
	API             *tool.API
	DocumentSize    int // in bytes, of the document that was given by value
	AutoApprove     bool
	TrustNewTools   bool
	ApprovalTimeout time.Duration // default 5 m
	// ApprovalValidity is how long an approved call may be sent after the decision. Zero: as long as the decision could take.
	ApprovalValidity time.Duration
	CallTimeout      time.Duration // default 60 s
	Resources        string        // ResourcesGated or ResourcesPass; those of an auto-approved skill always pass
	Edits            string        // EditsByRisk, EditsAlone or EditsSecond
	Questions        string        // QuestionsReviewer or QuestionsClient; of gated calls
	IdentityHeaders  IdentityHeaders
	Tools            map[string]ToolSettings
	Team             string // whose attention its calls want; it comes before the agent's. Empty: the agent's
	EscalateTo       string // likewise
	Revision         int64
	Health           Health
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// OAuth is how a skill's server is authorized to, without the secrets; see [OAuthSpec].
type OAuth struct {
	Grant       tool.Grant `json:"grant"`
	Issuer      string     `json:"issuer,omitempty"`
	ClientID    string     `json:"client_id,omitempty"`
	AuthMethod  string     `json:"auth_method,omitempty"`
	Scopes      []string   `json:"scopes,omitempty"`
	TrustOrigin bool       `json:"trust_origin,omitempty"`
	IDPIssuer   string     `json:"idp_issuer,omitempty"`
	IDPClientID string     `json:"idp_client_id,omitempty"`
	Secrets     []string   `json:"secrets,omitempty"` // names of those that are set: client_secret, private_key, idp.client_secret
}

// RiskHigh marks a tool whose calls are always parked.
const RiskHigh = "high"

// ToolSettings are what an operator says of one tool of a skill.
type ToolSettings struct {
	Risk       string `json:"risk,omitempty"`       // "high" or empty; a high risk is always parked
	Idempotent bool   `json:"idempotent,omitempty"` // may be sent again
	Enabled    *bool  `json:"enabled,omitempty"`    // nil: enabled
	Select     string `json:"select,omitempty"`     // of HTTP APIs: a jq program, which makes the result of a JSON answer; empty: all of it
}

// The ways to approve a reviewer's edit of a call's arguments.
const (
	EditsByRisk = "by_risk" // a second reviewer approves edits of tools of high risk, the editor all others
	EditsAlone  = "alone"   // the editor approves them
	EditsSecond = "second"  // a second reviewer approves them
)

// EditNeedsSecond reports whether another reviewer than the editor has to approve an edit of a call of one of its tools.
func (s *Skill) EditNeedsSecond(name string) bool {
	switch s.Edits {
	case EditsAlone:
		return false
	case EditsSecond:
		return true
	}
	return s.Tools[name].Risk == RiskHigh
}

// Disabled reports whether an operator switched the tool off.
func (s ToolSettings) Disabled() bool { return s.Enabled != nil && !*s.Enabled }

// Health is how the last discovery of a skill went.
type Health struct {
	DiscoveredAt *time.Time // first success
	ListedAt     *time.Time // last attempt
	ErrorKind    string     // a tool.FailureKind; empty: the last attempt succeeded
	Error        string
	Skipped      []tool.Skipped // tools that the last successful one left out, with the reasons
}

// Assignment lets an agent use a skill.
type Assignment struct {
	AgentID uuid.UUID
	Agent   string
	SkillID uuid.UUID
	Skill   string
	Tools   []string // nil: all of them
	Prefix  *string  // nil: the skill's name; "" : none
}
