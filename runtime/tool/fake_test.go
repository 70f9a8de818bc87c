package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a skill server of which tests say what it offers.
type server struct {
	mu    sync.Mutex
	tools []string
	ttl   *time.Duration
	err   error
	lists atomic.Int32
	// generation is of the listings; see [tool.Listing].
	generation int
	// gate, when set, holds every listing, which tells entered, until it is closed.
	gate, entered chan struct{}
}

// gated is a server that answers when its gate is closed.
func gated(tools ...string) *server {
	return &server{tools: tools, gate: make(chan struct{}), entered: make(chan struct{}, 10)}
}

func (s *server) offer(tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *server) List(ctx context.Context, _ tool.Server) (tool.Listing, error) {
	s.lists.Add(1)
	s.mu.Lock()
	tools, ttl, err := s.tools, s.ttl, s.err
	s.mu.Unlock()
	if s.gate != nil {
		s.entered <- struct{}{}
		select {
		case <-s.gate:
		case <-ctx.Done():
			return tool.Listing{}, ctx.Err()
		}
	}
	if err != nil {
		return tool.Listing{}, err
	}
	listing := tool.Listing{TTL: ttl, Generation: s.generation}
	for _, text := range tools {
		d, err := tool.ParseDefinition([]byte(text))
		if err != nil {
			return listing, err
		}
		listing.Tools = append(listing.Tools, d)
	}
	return listing, nil
}

func (*server) Call(context.Context, tool.Server, tool.CallRequest) (tool.Result, error) {
	panic("nobody calls here")
}
func (*server) Probe(context.Context, tool.Server, func(tool.Step)) error { return nil }
func (*server) Ready(context.Context, tool.Server) (*tool.Connect, error) { return nil, nil }
func (*server) Outgoing(tool.Server, tool.CallRequest) (*tool.Outgoing, error) {
	return nil, nil
}

func (*server) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	return nil, nil
}

func (*server) Forget(uuid.UUID) {}

func (*server) Request(context.Context, tool.Server, tool.Request) (json.RawMessage, error) {
	return nil, &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "not offered"}
}

func (*server) Capabilities(context.Context, tool.Server) (tool.Capabilities, error) {
	return tool.Capabilities{ProtocolVersion: "2025-11-25", Tools: true}, nil
}

// definition is a tool with a description.
func definition(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
}

func pin(t *testing.T, text string) tool.Pin {
	t.Helper()
	d, err := tool.ParseDefinition([]byte(text))
	check(t, err)
	return d.Pin()
}

// clock is moved by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

// process is one process with a registry that holds the skill "files".
type process struct {
	t         *testing.T
	clock     *clock
	discovery *tool.Discovery
	agents    *agent.Service
}

func newProcess(t *testing.T, db *postgres.DB, source tool.Source) *process {
	t.Helper()
	p := &process{t: t, clock: &clock{}}
	log := slog.New(slog.DiscardHandler)
	var err error
	p.discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: db.Pool(), Sources: map[tool.Transport]tool.Source{tool.HTTP: source},
		Listed: agent.RecordListing, Logger: log, Now: p.clock.now,
	})
	check(t, err)
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	p.agents, err = agent.New(agent.Config{
		Pool: db.Pool(), Discovery: p.discovery, Box: box, Logger: log, Now: p.clock.now,
	})
	check(t, err)
	t.Cleanup(func() {
		p.agents.Close()
		p.discovery.Close()
	})
	return p
}

// world is a process, its database and the skill's server.
type world struct {
	*process
	db     *postgres.DB
	source *server
	skill  tool.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldWith(t, &server{})
}

func worldWith(t *testing.T, source *server) *world {
	t.Helper()
	w := &world{db: postgrestest.New(t), source: source}
	w.process = newProcess(t, w.db, w.source)
	skill, err := w.agents.CreateSkill(t.Context(), audit.System(),
		agent.SkillSpec{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp"})
	check(t, err)
	_, w.skill, err = w.agents.FreshSkill(t.Context(), skill.ID)
	check(t, err)
	return w
}

// list lists anew.
func (w *world) list(trustNewTools bool) {
	w.t.Helper()
	w.discovery.ListChanged(w.skill.SkillID)
	_, err := w.discovery.List(w.t.Context(), w.skill, trustNewTools)
	check(w.t, err)
}

func (w *world) status(name string) tool.PinStatus {
	w.t.Helper()
	status, err := w.discovery.Status(w.t.Context(), w.skill.SkillID, name)
	check(w.t, err)
	return status
}

// actions are the skill's audit events, oldest first, without its registration.
func (w *world) actions() []string {
	w.t.Helper()
	events, err := audit.List(w.t.Context(), w.db.Pool(), audit.Filter{Subject: w.skill.SkillID})
	check(w.t, err)
	var actions []string
	for i := len(events) - 2; i >= 0; i-- {
		action := events[i].Action
		if name, ok := events[i].Data["tool"].(string); ok {
			action += " " + name
		}
		actions = append(actions, action)
	}
	return actions
}
