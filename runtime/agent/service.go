// Package agent owns the registry: agents and their keys, skills and their health, assignments, rules and grants (tables agents,
// agent_keys, skills, skill_documents, skill_listings, assignments, rules and grants). It does not own conversations and the tools that they
// offer (package catalog), tool definitions and pins (package tool), or calls.
//
// Agents and skills are cached in each process, since every call needs them. A change of the registry drops the caches of all
// processes; see package registry.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Config configures a [Service]. Pool, Discovery, Box, Logger and Now are required.
type Config struct {
	Pool      *pgxpool.Pool
	Discovery *tool.Discovery
	Box       *secret.Box // seals the secrets of skills and agents
	Logger    *slog.Logger
	Now       func() time.Time // expires cache entries, nothing else
	// SkillDeleted runs in the transaction that deletes a skill. Nil: nothing runs.
	SkillDeleted func(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error
	// AgentDeleted runs in the transaction that deletes an agent. Nil: nothing runs. See also [Service.OnAgentDeleted].
	AgentDeleted func(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error
	// CheckDocument returns the origins of the servers in an OpenAPI document. Its error tells an operator why the document
	// is not valid. Nil: an invalid document is found when its tools are listed.
	CheckDocument func(document []byte) (origins []string, err error)
	// KeyTTL is how long a new key is valid. Zero: until it is revoked.
	KeyTTL time.Duration
	// Stdio is the policy for commands that skills run on this server.
	Stdio tool.StdioPolicy
	// Control keeps changes that wait for a second operator. Nil: none wait.
	Control *dualcontrol.Service
	// IsPublicHost reports whether a name resolves, and to public addresses only. Nil: [outbound.IsPublicHost].
	IsPublicHost func(ctx context.Context, host string) bool
	// MaxGrantTime is how long a grant may last. Zero: [grant.DefaultMaxTime].
	MaxGrantTime time.Duration
}

// Service is the registry. It is safe for concurrent use. Its results are shared between callers and must not be changed.
type Service struct {
	keyTTL       time.Duration
	pool         *pgxpool.Pool
	discovery    *tool.Discovery
	box          *secret.Box
	log          *slog.Logger
	limits       limits
	skillDeleted func(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error
	isPublicHost func(ctx context.Context, host string) bool
	control      *dualcontrol.Service

	onInvalidate   []func()
	onAgentDeleted []func(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error

	byKey  *registry.Memory[secret.Hash, *Agent]
	byName *registry.Memory[string, *Agent]
	byID   *registry.Memory[uuid.UUID, *Agent]
	skills *registry.Memory[uuid.UUID, cachedSkill]
	rules  *registry.Memory[struct{}, *rule.Book]
	grants *registry.Memory[struct{}, *grant.Book]

	maxGrantTime time.Duration

	programs *rule.Programs // of rules
}

// limits restrict the skills that can be registered on this server.
type limits struct {
	stdio         tool.StdioPolicy
	checkDocument func(document []byte) ([]string, error)
}

// cachedSkill is a skill with its server, secrets included.
type cachedSkill struct {
	skill  *Skill
	server tool.Server
}

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Discovery == nil || cfg.Box == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("agent: Pool, Discovery, Box, Logger and Now are required")
	}
	if cfg.MaxGrantTime != 0 && cfg.MaxGrantTime < grant.MinTime {
		return nil, fmt.Errorf("max-grant-time: must be at least %s", Duration(grant.MinTime))
	}
	if cfg.IsPublicHost == nil {
		cfg.IsPublicHost = outbound.IsPublicHost
	}
	s := &Service{
		isPublicHost: cfg.IsPublicHost,
		pool:         cfg.Pool, discovery: cfg.Discovery, box: cfg.Box, log: cfg.Logger, keyTTL: cfg.KeyTTL,
		skillDeleted: cfg.SkillDeleted, control: cfg.Control,
		limits:       limits{stdio: cfg.Stdio, checkDocument: cfg.CheckDocument},
		byKey:        newMemory[secret.Hash, *Agent](cfg),
		byName:       newMemory[string, *Agent](cfg),
		byID:         newMemory[uuid.UUID, *Agent](cfg),
		skills:       newMemory[uuid.UUID, cachedSkill](cfg),
		rules:        newMemory[struct{}, *rule.Book](cfg),
		grants:       newMemory[struct{}, *grant.Book](cfg),
		programs:     rule.NewPrograms(cfg.Now),
		maxGrantTime: cmp.Or(cfg.MaxGrantTime, grant.DefaultMaxTime),
	}
	if s.control != nil {
		s.registerChanges()
	}
	if cfg.AgentDeleted != nil {
		s.OnAgentDeleted(cfg.AgentDeleted)
	}
	return s, nil
}

const loadTimeout = 25 * time.Second

// newMemory makes a cache that [Service.Invalidate] drops.
func newMemory[K comparable, V any](cfg Config) *registry.Memory[K, V] {
	return registry.NewMemory[K](registry.Config[V]{Now: cfg.Now, TTL: registry.SafetyNet, LoadTimeout: loadTimeout})
}

// OnInvalidate registers a function to call whenever the caches are dropped, for packages that cache values derived from agents
// and skills. Call it before using the service.
func (s *Service) OnInvalidate(f func()) { s.onInvalidate = append(s.onInvalidate, f) }

// OnAgentDeleted registers a function to call in the transaction that deletes an agent. Call it before using the service.
func (s *Service) OnAgentDeleted(f func(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error) {
	s.onAgentDeleted = append(s.onAgentDeleted, f)
}

// Invalidate drops all caches. Call it on every notice of [registry.Channel].
func (s *Service) Invalidate() {
	s.byKey.Drop()
	s.byName.Drop()
	s.byID.Drop()
	s.skills.Drop()
	s.rules.Drop()
	s.grants.Drop()
	for _, f := range s.onInvalidate {
		f()
	}
}

// Close stops background work and waits for it.
func (s *Service) Close() {
	s.byKey.Close()
	s.byName.Close()
	s.byID.Close()
	s.skills.Close()
	s.rules.Close()
	s.grants.Close()
	s.programs.Close()
}
