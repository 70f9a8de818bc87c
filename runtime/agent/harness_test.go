package agent_test

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
	"github.com/holdpoint/holdpoint/internal/registry"
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

// source is all skill servers: what each offers, by the skill's name.
type source struct {
	mu      sync.Mutex
	tools   map[string][]string // names
	broken  map[string]error
	hanging map[string]bool
	lists   atomic.Int32
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *source) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	s.lists.Add(1)
	s.mu.Lock()
	tools, broken, hanging := s.tools[server.Skill], s.broken[server.Skill], s.hanging[server.Skill]
	s.mu.Unlock()
	if hanging {
		<-ctx.Done()
		return tool.Listing{}, ctx.Err()
	}
	if broken != nil {
		return tool.Listing{}, broken
	}
	var listing tool.Listing
	for _, name := range tools {
		d, err := tool.ParseDefinition(fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name))
		if err != nil {
			return listing, err
		}
		listing.Tools = append(listing.Tools, d)
	}
	return listing, nil
}

func (*source) Call(context.Context, tool.Server, tool.CallRequest) (tool.Result, error) {
	panic("nobody calls here")
}
func (*source) Probe(context.Context, tool.Server, func(tool.Step)) error { return nil }
func (*source) Ready(context.Context, tool.Server) (*tool.Connect, error) { return nil, nil }
func (*source) Outgoing(tool.Server, tool.CallRequest) (*tool.Outgoing, error) {
	return nil, nil
}

func (*source) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	return nil, nil
}

func (*source) Forget(uuid.UUID) {}

func (*source) Request(context.Context, tool.Server, tool.Request) (json.RawMessage, error) {
	return nil, &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "not offered"}
}

func (*source) Capabilities(context.Context, tool.Server) (tool.Capabilities, error) {
	return tool.Capabilities{ProtocolVersion: "2025-11-25", Tools: true}, nil
}

// clock is moved by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

// process is one process of a deployment.
type process struct {
	*agent.Service
	discovery *tool.Discovery
	clock     *clock
}

// world is a database, skill servers, and one process.
type world struct {
	process
	t       *testing.T
	db      *postgres.DB
	source  *source
	keyFile string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, db: postgrestest.New(t), keyFile: filepath.Join(t.TempDir(), "key.json"),
		source: &source{tools: map[string][]string{}, broken: map[string]error{}, hanging: map[string]bool{}},
	}
	w.process = w.start(agent.Config{})
	return w
}

// start starts a process. The config says what is not as usual.
func (w *world) start(cfg agent.Config) process {
	w.t.Helper()
	p := process{clock: &clock{}}
	log := slog.New(slog.DiscardHandler)
	var err error
	p.discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: w.db.Pool(), Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source, tool.Stdio: w.source},
		Listed: agent.RecordListing, Logger: log, Now: p.clock.now,
	})
	check(w.t, err)
	if cfg.Box == nil {
		cfg.Box, err = secret.Open(secret.Config{File: w.keyFile})
		check(w.t, err)
	}
	if cfg.Stdio.Allow == nil {
		cfg.Stdio = tool.StdioPolicy{On: true, Allow: [][]string{{}}}
	}
	cfg.Pool, cfg.Discovery, cfg.Logger, cfg.Now = w.db.Pool(), p.discovery, log, p.clock.now
	p.Service, err = agent.New(cfg)
	check(w.t, err)
	w.t.Cleanup(func() {
		p.Close()
		p.discovery.Close()
	})
	return p
}

// listen drops a process's memory on notices, as the assembler does. The channel gets one value
// a notice.
func (w *world) listen(p process) <-chan struct{} {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	connected, dropped := make(chan struct{}, 1), make(chan struct{}, 100)
	var listening sync.WaitGroup
	listening.Go(func() {
		w.db.Listen(ctx, []string{registry.Channel}, func(string, string) {
			p.discovery.Invalidate()
			p.Invalidate()
			dropped <- struct{}{}
		}, func() { connected <- struct{}{} })
	})
	w.t.Cleanup(func() {
		stop()
		listening.Wait()
	})
	<-connected
	return dropped
}

var operator = audit.System()

// spec reads a spec from JSON.
func spec(t *testing.T, text string) agent.Spec {
	t.Helper()
	var s agent.Spec
	check(t, json.Unmarshal([]byte(text), &s))
	return s
}

func (w *world) apply(text string) []agent.Change {
	w.t.Helper()
	changes, err := w.Apply(w.t.Context(), operator, spec(w.t, text), false)
	check(w.t, err)
	return changes
}

func (w *world) agent(name string) *agent.Agent {
	w.t.Helper()
	a, err := w.AgentByName(w.t.Context(), name)
	check(w.t, err)
	return a
}

// conversation starts one and returns the names of its tools.
func (w *world) conversation(name string) (*agent.Conversation, []string) {
	w.t.Helper()
	c, err := w.StartConversation(w.t.Context(), w.agent(name), uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	return c, names(c)
}

func names(c *agent.Conversation) []string {
	list := []string{}
	for _, e := range c.Catalogue.Entries {
		list = append(list, e.Name)
	}
	return list
}

// count counts rows.
func (w *world) count(from string) int {
	w.t.Helper()
	var n int
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}
