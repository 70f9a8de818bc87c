// Package agent is being assembled.
package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Service is the registry.
type Service struct{}

// Authenticate finds the agent of a key. Answers come from memory and are dropped when anything in the registry
// changes, in whatever process. ErrUnauthenticated.
func (s *Service) Authenticate(ctx context.Context, key string) (*Agent, error) { panic("soon") }

// AgentByName: from memory, as Authenticate. ErrNotFound.
func (s *Service) AgentByName(ctx context.Context, name string) (*Agent, error) { panic("soon") }

// AgentByID likewise.
func (s *Service) AgentByID(ctx context.Context, id uuid.UUID) (*Agent, error) { panic("soon") }

// Skill and its server with decrypted secrets: from memory, as Authenticate. ErrNotFound when deleted.
func (s *Service) Skill(ctx context.Context, id uuid.UUID) (*Skill, tool.Server, error) {
	panic("soon")
}

// FreshSkill and Assigned read the database, for the check at dispatch.
func (s *Service) FreshSkill(ctx context.Context, id uuid.UUID) (*Skill, tool.Server, error) {
	panic("soon")
}

// Assigned reports, from the database, whether the agent exists and may use that tool of the skill now.
func (s *Service) Assigned(ctx context.Context, agentID, skillID uuid.UUID, toolName string) (bool, error) {
	panic("soon")
}

// StartConversation lists the tools of all assigned skills side by side and stores the
// catalogue. One skill's failure is a Problem of the conversation, not an error.
func (s *Service) StartConversation(ctx context.Context, a *Agent, principal uuid.UUID, protocolVersion string, client json.RawMessage) (*Conversation, error) {
	panic("soon")
}

// NamedConversation returns the open conversation of that name, or starts it.
func (s *Service) NamedConversation(ctx context.Context, a *Agent, principal uuid.UUID, name, protocolVersion string, client json.RawMessage) (*Conversation, error) {
	panic("soon")
}

// Conversation returns one that belongs to this agent and principal and has not ended; its
// catalogue is made anew when an operator changed the agent's skills since. From memory where possible. ErrNotFound.
func (s *Service) Conversation(ctx context.Context, agentID, principal, id uuid.UUID) (*Conversation, error) {
	panic("soon")
}

// EndConversation: a DELETE of the MCP session.
func (s *Service) EndConversation(ctx context.Context, agentID, principal, id uuid.UUID) error {
	panic("soon")
}

// Conversations lists, newest first.
func (s *Service) Conversations(ctx context.Context, agentID, before uuid.UUID, limit int) ([]Conversation, uuid.UUID, error) {
	panic("soon")
}

// Names returns the names of agents and skills (deleted ones too) by id, for display.
func (s *Service) Names(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	panic("soon")
}

// AgentSpec and SkillSpec are what an operator declares; see holdpoint.yaml.
type AgentSpec struct {
	Name         string            `json:"name"`
	Instructions string            `json:"instructions,omitempty"`
	Model        *ModelSpec        `json:"model,omitempty"`
	WaitBudget   *time.Duration    `json:"wait_budget,omitempty"`
	Skills       *[]AssignmentSpec `json:"skills,omitempty"`
}

// ModelSpec is an agent's model.
type ModelSpec struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
	BaseURL  string `json:"base_url,omitempty"`
	APIKey   string `json:"api_key,omitempty"`
}

// AssignmentSpec is one element of an agent's skills.
type AssignmentSpec struct {
	Skill  string   `json:"skill"`
	Tools  []string `json:"tools,omitempty"`
	Prefix *string  `json:"prefix,omitempty"`
}
