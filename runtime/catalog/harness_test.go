package catalog_test

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
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source stands for the servers of all skills. The maps are by skill.
type source struct {
	tool.Source

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

// clock advances only when the test says so.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

// process is one process of a deployment.
type process struct {
	*catalog.Service
	agents    *agent.Service
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
	w.process = w.start(0)
	return w
}

// start starts a process on the same database. listTimeout is that of [catalog.Config].
func (w *world) start(listTimeout time.Duration) process {
	w.t.Helper()
	p := process{clock: &clock{}}
	log := slog.New(slog.DiscardHandler)
	var err error
	p.discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: w.db.Pool(), Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source},
		Listed: agent.RecordListing, Logger: log, Now: p.clock.now,
	})
	check(w.t, err)
	box, err := secret.Open(secret.Config{File: w.keyFile})
	check(w.t, err)
	p.agents, err = agent.New(agent.Config{Pool: w.db.Pool(), Discovery: p.discovery, Box: box, Logger: log, Now: p.clock.now})
	check(w.t, err)
	p.Service, err = catalog.New(catalog.Config{
		Pool: w.db.Pool(), Agents: p.agents, Discovery: p.discovery, Logger: log, Now: p.clock.now, ListTimeout: listTimeout,
	})
	check(w.t, err)
	w.t.Cleanup(func() {
		p.Close()
		p.agents.Close()
		p.discovery.Close()
	})
	return p
}

// listen drops the caches of a process on notices, as package runtime does. The channel gets one value per notice.
func (w *world) listen(p process) <-chan struct{} {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	connected, dropped := make(chan struct{}, 1), make(chan struct{}, 100)
	var listening sync.WaitGroup
	listening.Go(func() {
		w.db.Listen(ctx, []string{registry.Channel}, func(string, string) {
			p.discovery.Invalidate()
			p.agents.Invalidate()
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

// apply applies a spec in JSON.
func (w *world) apply(text string) {
	w.t.Helper()
	var spec agent.Spec
	check(w.t, json.Unmarshal([]byte(text), &spec))
	_, err := w.agents.Apply(w.t.Context(), operator, spec, false)
	check(w.t, err)
}

func (w *world) agent(name string) *agent.Agent {
	w.t.Helper()
	a, err := w.agents.AgentByName(w.t.Context(), name)
	check(w.t, err)
	return a
}

// conversation starts a conversation and returns the names of its tools.
func (w *world) conversation(name string) (*catalog.Conversation, []string) {
	w.t.Helper()
	c, err := w.StartConversation(w.t.Context(), w.agent(name), uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	return c, names(c)
}

func names(c *catalog.Conversation) []string {
	list := []string{}
	for _, e := range c.Catalog.Entries {
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
