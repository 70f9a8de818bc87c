// Package runtimetest owns what the test worlds of the runtime share: the registry of agents and skills on a leased database,
// and a skill server. Only tests import it.
package runtimetest

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Config sets how a [Registry] differs from the usual one.
type Config struct {
	DB          *worldtest.DB
	Sources     map[tool.Transport]tool.Source
	Logger      *slog.Logger     // nil: nothing is logged
	Now         func() time.Time // nil: time.Now
	Agent       agent.Config     // whatever DB, Logger and Now do not set; without Box, a new one
	ListTimeout time.Duration    // of the catalog; zero: 5 minutes, since a slow machine starts many skill servers at once
}

// Registry is the part of a process that knows agents, skills and tools.
type Registry struct {
	Box       *secret.Box
	Discovery *tool.Discovery
	Agents    *agent.Service
	Catalog   *catalog.Service

	t  testing.TB
	db *worldtest.DB
}

// NewRegistry starts a registry, which ends with the test.
func NewRegistry(t testing.TB, cfg Config) *Registry {
	t.Helper()
	r := &Registry{t: t, db: cfg.DB, Box: cfg.Agent.Box}
	log := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	if r.Box == nil {
		r.Box = NewBox(t)
	}
	var err error
	r.Discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: cfg.DB.Pool(), Sources: cfg.Sources, Listed: agent.QueueListing, Logger: log, Now: now,
	})
	worldtest.Check(t, err)
	cfg.Agent.Pool, cfg.Agent.Discovery, cfg.Agent.Box, cfg.Agent.Logger, cfg.Agent.Now = cfg.DB.Pool(), r.Discovery, r.Box, log, now
	r.Agents, err = agent.New(cfg.Agent)
	worldtest.Check(t, err)
	r.Catalog, err = catalog.New(catalog.Config{
		Pool: cfg.DB.Pool(), Agents: r.Agents, Discovery: r.Discovery, Logger: log, Now: now, ListTimeout: cmp.Or(cfg.ListTimeout, 5*time.Minute),
	})
	worldtest.Check(t, err)
	t.Cleanup(func() {
		r.Catalog.Close()
		r.Agents.Close()
		r.Discovery.Close()
	})
	return r
}

// NewBox returns a box with a new key.
func NewBox(t testing.TB) *secret.Box {
	t.Helper()
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	worldtest.Check(t, err)
	return box
}

// NewBucket returns a bucket whose objects are files in the folder.
func NewBucket(t testing.TB, folder string) *blob.Bucket {
	t.Helper()
	bucket, err := fileblob.OpenBucket(folder, &fileblob.Options{Metadata: fileblob.MetadataDontWrite, NoTempDir: true})
	worldtest.Check(t, err)
	return bucket
}

// Invalidate drops the caches. It handles notifications of [registry.Channel].
func (r *Registry) Invalidate(string) {
	r.Discovery.Invalidate()
	r.Agents.Invalidate()
}

// Listen drops the caches on notifications until the test ends. The channel gets one value for each notification.
func (r *Registry) Listen() <-chan struct{} {
	connected, dropped := make(chan struct{}, 1), make(chan struct{}, 100)
	r.t.Cleanup(r.db.Handle(map[postgres.Channel]func(string){registry.Channel: func(payload string) {
		r.Invalidate(payload)
		dropped <- struct{}{}
	}}, func() { connected <- struct{}{} }))
	<-connected
	return dropped
}

// Apply applies a spec.
func (r *Registry) Apply(spec agent.Spec) []agent.Change {
	r.t.Helper()
	changes, err := r.Agents.Apply(r.t.Context(), audit.System(), spec, false)
	worldtest.Check(r.t, err)
	return changes
}

// ApplyJSON applies a spec in JSON.
func (r *Registry) ApplyJSON(text string) []agent.Change {
	r.t.Helper()
	var spec agent.Spec
	worldtest.Check(r.t, json.Unmarshal([]byte(text), &spec))
	return r.Apply(spec)
}

// ApplyTwoSkills applies a gated skill "files", which edit may change, an auto-approved skill "open", and agents that have both.
func (r *Registry) ApplyTwoSkills(edit func(files *agent.SkillSpec), agents ...agent.AgentSpec) {
	r.t.Helper()
	skills := []agent.SkillSpec{
		{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/files"},
		{Name: "open", Transport: tool.HTTP, URL: "http://127.0.0.1:1/open", AutoApprove: true},
	}
	if edit != nil {
		edit(&skills[0])
	}
	for i := range agents {
		agents[i].Skills = &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}}
	}
	r.Apply(agent.Spec{Skills: skills, Agents: agents})
}

// Agent returns the agent of a name.
func (r *Registry) Agent(name string) *agent.Agent {
	r.t.Helper()
	a, err := r.Agents.AgentByName(r.t.Context(), name)
	worldtest.Check(r.t, err)
	return a
}

// FindTool starts a conversation of an agent, and returns its ID and the entry of a tool in its catalog.
func (r *Registry) FindTool(a *agent.Agent, principal uuid.UUID, name string) (conversation uuid.UUID, entry *catalog.Entry) {
	r.t.Helper()
	c, err := r.Catalog.StartConversation(r.t.Context(), a, principal, "2025-11-25", nil)
	worldtest.Check(r.t, err)
	entry, ok := c.Catalog.Lookup(name)
	if !ok {
		r.t.Fatalf("no tool %s in the catalog; problems: %v", name, c.Problems)
	}
	return c.ID, entry
}
