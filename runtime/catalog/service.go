// Package catalog owns conversations and the catalog of tools that each of them offers to its agent (tables
// conversations and catalogues). It lists the tools of an agent's skills, names them, and reports the skills that are missing.
//
// It does not own agents, skills or assignments (package agent), tool definitions and pins (package tool), or calls. It has no
// error values of its own: lookups return those of package agent.
//
// Open conversations, stored catalogs and the skills of agents are cached in each process. The caches are dropped with those of
// package agent.
package catalog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Config configures a [Service]. Fields without a default are required.
type Config struct {
	Pool      *pgxpool.Pool
	Agents    *agent.Service
	Discovery *tool.Discovery
	Logger    *slog.Logger
	Now       func() time.Time // dates cache entries, nothing else
	// ListTimeout is how long the start of a conversation waits for the tools of all skills. Zero: 15 s.
	ListTimeout time.Duration
}

const (
	defaultListTimeout = 15 * time.Second
	maxCachedBytes     = 64 << 20 // of catalogs, without the definitions
)

// Service keeps conversations and their catalogs. It is safe for concurrent use. Its results are shared between callers and must
// not be changed.
type Service struct {
	pool        *pgxpool.Pool
	agents      *agent.Service
	discovery   *tool.Discovery
	log         *slog.Logger
	listTimeout time.Duration
	now         func() time.Time

	skills        *registry.Memory[uuid.UUID, []agent.AssignedSkill] // by agent
	conversations *registry.Memory[conversationKey, *Conversation]
	named         *registry.Memory[conversationName, *Conversation]
	catalogs      *registry.Memory[Digest, *Catalog]
	unanswered    *registry.Memory[listingKey, time.Time] // when a server did not answer tools/list in time
}

// listingKey identifies a listing of a skill.
type listingKey struct {
	skillID   uuid.UUID
	revision  int64
	principal uuid.UUID // of a skill with a connection for each person
}

// New makes a Service and subscribes it to the changes of cfg.Agents. Call it before cfg.Agents is used.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Agents == nil || cfg.Discovery == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("catalog: Pool, Agents, Discovery, Logger and Now are required")
	}
	if cfg.ListTimeout == 0 {
		cfg.ListTimeout = defaultListTimeout
	}
	s := &Service{
		pool: cfg.Pool, agents: cfg.Agents, discovery: cfg.Discovery, log: cfg.Logger, listTimeout: cfg.ListTimeout, now: cfg.Now,
		skills:        newMemory[uuid.UUID, []agent.AssignedSkill](cfg),
		conversations: newMemory[conversationKey, *Conversation](cfg),
		named:         newMemory[conversationName, *Conversation](cfg),
		catalogs:      registry.NewMemory[Digest](registry.Config[*Catalog]{Now: cfg.Now, MaxSize: maxCachedBytes, Size: (*Catalog).size}),
	}
	s.unanswered = registry.NewMemory[listingKey](registry.Config[time.Time]{Now: cfg.Now, TTL: time.Hour})
	cfg.Agents.OnInvalidate(s.invalidate)
	cfg.Agents.OnAgentDeleted(endConversations)
	return s, nil
}

// newMemory makes a cache that a change of the registry drops. Loading a conversation may list the tools of its skills.
func newMemory[K comparable, V any](cfg Config) *registry.Memory[K, V] {
	return registry.NewMemory[K](registry.Config[V]{
		Now: cfg.Now, TTL: registry.SafetyNet, LoadTimeout: cfg.ListTimeout + 10*time.Second,
	})
}

// invalidate drops all cached values that a change of an agent, a skill or an assignment can affect.
func (s *Service) invalidate() {
	s.skills.Drop()
	s.conversations.Drop()
	s.named.Drop()
}

// Close stops background work and waits for it.
func (s *Service) Close() {
	s.skills.Close()
	s.conversations.Close()
	s.named.Close()
	s.catalogs.Close()
	s.unanswered.Close()
}

// endConversations ends all conversations of a deleted agent.
func endConversations(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE conversations SET ended_at = holdpoint_now() WHERE agent_id = $1 AND ended_at IS NULL`, agentID)
	return err
}
