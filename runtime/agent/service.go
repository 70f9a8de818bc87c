// Package agent owns the registry: agents and their keys, skills, assignments,
// and the conversations with their catalogues (the tables agents, agent_keys,
// skills, skill_documents, skill_drafts, assignments, conversations, catalogues). It does not own tool
// definitions and pins, nor calls.
//
// What every call needs of it is answered from memory, which is dropped in every
// process when anything in the registry changes; see package registry.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Config is what a Service needs.
type Config struct {
	Pool      *pgxpool.Pool
	Discovery *tool.Discovery
	Box       *secret.Box // seals the secrets of skills and agents
	Logger    *slog.Logger
	Now       func() time.Time // times what is remembered, nothing else
	// SkillDeleted is told, in its transaction, that a skill is deleted. Nil: nobody wants to know.
	SkillDeleted func(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error
	// AgentDeleted likewise.
	AgentDeleted func(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error
	// CheckDocument tells the origins of the servers that an OpenAPI document names, or says in plain words what is wrong with it. Nil: what is wrong is
	// found out when its tools are listed.
	CheckDocument func(document []byte) (origins []string, err error)
	// Examiner reads OpenAPI documents for operators who choose. Nil: none can be read here.
	Examiner Examiner
	// KeyTTL is how long a new key is valid. Zero: until it is revoked.
	KeyTTL time.Duration
	// Stdio says which commands skills may run on this server.
	Stdio tool.StdioPolicy
	// IsPublicHost reports whether a name resolves, and to public addresses only. Nil: [outbound.IsPublicHost].
	IsPublicHost func(ctx context.Context, host string) bool
	// ListTimeout is how long the start of a conversation waits for a skill's tools.
	// Zero: 15 s.
	ListTimeout time.Duration
}

const (
	defaultListTimeout = 15 * time.Second
	maxCatalogues      = 64 << 20 // bytes of entries kept in memory
)

// Service is the registry. It is safe for concurrent use. What it returns is shared
// between callers, which do not change it.
type Service struct {
	keyTTL       time.Duration
	pool         *pgxpool.Pool
	discovery    *tool.Discovery
	box          *secret.Box
	log          *slog.Logger
	limits       limits
	skillDeleted func(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error
	agentDeleted func(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error
	listTimeout  time.Duration
	isPublicHost func(ctx context.Context, host string) bool
	examiner     Examiner
	drafts       lentDocuments

	byKey         *registry.Memory[secret.Hash, *Agent]
	byName        *registry.Memory[string, *Agent]
	byID          *registry.Memory[uuid.UUID, *Agent]
	skills        *registry.Memory[uuid.UUID, registered]
	assigned      *registry.Memory[uuid.UUID, []assignedSkill] // by agent
	conversations *registry.Memory[conversationKey, *Conversation]
	named         *registry.Memory[conversationName, *Conversation]
	catalogues    *registry.Memory[CatalogueDigest, *Catalogue]
}

// Examiner tells what OpenAPI documents offer. Errors are *tool.Failure.
type Examiner interface {
	Examine(ctx context.Context, url string) (tool.Examination, error)
	ExamineDocument(ctx context.Context, document []byte) (tool.Examination, error)
}

// limits are what this server does not allow.
type limits struct {
	stdio         tool.StdioPolicy
	checkDocument func(document []byte) ([]string, error)
}

// registered is a skill with its server, secrets included.
type registered struct {
	skill  *Skill
	server tool.Server
}

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Discovery == nil || cfg.Box == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("agent: Pool, Discovery, Box, Logger and Now are required")
	}
	if cfg.ListTimeout == 0 {
		cfg.ListTimeout = defaultListTimeout
	}
	if cfg.IsPublicHost == nil {
		cfg.IsPublicHost = outbound.IsPublicHost
	}
	return &Service{
		isPublicHost: cfg.IsPublicHost,
		pool:         cfg.Pool, discovery: cfg.Discovery, box: cfg.Box, log: cfg.Logger, keyTTL: cfg.KeyTTL,
		skillDeleted: cfg.SkillDeleted, agentDeleted: cfg.AgentDeleted,
		limits: limits{stdio: cfg.Stdio, checkDocument: cfg.CheckDocument}, listTimeout: cfg.ListTimeout, examiner: cfg.Examiner,
		byKey:         memory[secret.Hash, *Agent](cfg),
		byName:        memory[string, *Agent](cfg),
		byID:          memory[uuid.UUID, *Agent](cfg),
		skills:        memory[uuid.UUID, registered](cfg),
		assigned:      memory[uuid.UUID, []assignedSkill](cfg),
		conversations: memory[conversationKey, *Conversation](cfg),
		named:         memory[conversationName, *Conversation](cfg),
		catalogues: registry.NewMemory[CatalogueDigest](registry.Config[*Catalogue]{
			Now: cfg.Now, MaxSize: maxCatalogues, Size: (*Catalogue).size,
		}),
	}, nil
}

// memory makes one for something that a notice drops. Its loads may take as long as
// the start of a conversation.
func memory[K comparable, V any](cfg Config) *registry.Memory[K, V] {
	return registry.NewMemory[K](registry.Config[V]{
		Now: cfg.Now, TTL: registry.SafetyNet, LoadTimeout: cfg.ListTimeout + 10*time.Second,
	})
}

// Invalidate drops what is remembered of the registry. It is called on every
// notice of [registry.Channel].
func (s *Service) Invalidate() {
	s.byKey.Drop()
	s.byName.Drop()
	s.byID.Drop()
	s.skills.Drop()
	s.assigned.Drop()
	s.conversations.Drop()
	s.named.Drop()
}

// Close ends what runs in the background.
func (s *Service) Close() {
	s.byKey.Close()
	s.byName.Close()
	s.byID.Close()
	s.skills.Close()
	s.assigned.Close()
	s.conversations.Close()
	s.named.Close()
	s.catalogues.Close()
}
