package tool_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// server is a skill server whose tools a test sets.
type server struct {
	mu    sync.Mutex
	tools []string
	ttl   *time.Duration
	err   error
	lists atomic.Int32
	// generation is that of the listings; see [tool.Listing].
	generation int
	// gate, if set, holds each listing until it is closed. A waiting listing sends on entered.
	gate, entered chan struct{}
}

// newGated returns a server that answers once its gate is closed.
func newGated(tools ...string) *server {
	return &server{tools: tools, gate: make(chan struct{}), entered: make(chan struct{}, 10)}
}

func (s *server) offerTools(tools ...string) {
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
	listing, err := runtimetest.ParseTools(tools...)
	listing.TTL, listing.Generation = ttl, s.generation
	return listing, err
}

func (*server) Call(context.Context, tool.Server, tool.CallRequest) (tool.Result, error) {
	panic("nobody calls here")
}
func (*server) Probe(context.Context, tool.Server, func(tool.Step)) error { return nil }
func (*server) Ready(context.Context, tool.Server) (*tool.Connect, error) { return nil, nil }
func (*server) Forget(uuid.UUID)                                          {}

// formatDefinition returns a tool with a description.
func formatDefinition(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
}

// process is one process with a registry that holds the skill "files".
type process struct {
	t         *testing.T
	clock     *worldtest.Clock
	discovery *tool.Discovery
	agents    *agent.Service
}

func newProcess(t *testing.T, db *worldtest.DB, source tool.Source) *process {
	t.Helper()
	clock := &worldtest.Clock{}
	r := runtimetest.NewRegistry(t, runtimetest.Config{DB: db, Sources: map[tool.Transport]tool.Source{tool.HTTP: source}, Now: clock.Now})
	return &process{t, clock, r.Discovery, r.Agents}
}

// world is a process, its database and the skill's server.
type world struct {
	*process
	db     *worldtest.DB
	source *server
	skill  tool.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldWith(t, &server{})
}

func worldWith(t *testing.T, source *server) *world {
	t.Helper()
	w := &world{db: worldtest.NewDB(t), source: source}
	w.process = newProcess(t, w.db, w.source)
	skill, err := w.agents.CreateSkill(t.Context(), audit.System(),
		agent.SkillSpec{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp"})
	check(t, err)
	_, w.skill, err = w.agents.FreshSkill(t.Context(), skill.ID)
	check(t, err)
	return w
}

// listTools lists the tools again.
func (w *world) listTools(trustNewTools bool) {
	w.t.Helper()
	w.discovery.ListChanged(w.skill.SkillID)
	_, err := w.discovery.List(w.t.Context(), w.skill, trustNewTools)
	check(w.t, err)
}

func (w *world) getStatus(name string) tool.PinStatus {
	w.t.Helper()
	status, err := w.discovery.Status(w.t.Context(), w.skill.SkillID, name)
	check(w.t, err)
	return status
}

// auditActions returns the skill's audit events, oldest first, without its registration.
func (w *world) auditActions() []string {
	w.t.Helper()
	events, err := audit.List(w.t.Context(), w.db.Pool(), audit.Filter{Subject: w.skill.SkillID})
	check(w.t, err)
	var actions []string
	for i := len(events) - 2; i >= 0; i-- {
		action := string(events[i].Action)
		if name, ok := events[i].Data["tool"].(string); ok {
			action += " " + name
		}
		actions = append(actions, action)
	}
	return actions
}
