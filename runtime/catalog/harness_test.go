package catalog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// source stands for the servers of all skills. The maps are by skill.
type source struct {
	tool.Source

	mu       sync.Mutex
	tools    map[string][]string // names
	broken   map[string]error
	hanging  map[string]bool
	uncached bool // listings may not be cached
	lists    atomic.Int32
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
	definitions := make([]string, len(tools))
	for i, name := range tools {
		definitions[i] = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
	}
	listing, err := runtimetest.ParseTools(definitions...)
	if s.uncached {
		listing.TTL = new(time.Duration(0))
	}
	return listing, err
}

// process is one process of a deployment.
type process struct {
	*catalog.Service
	agents    *agent.Service
	discovery *tool.Discovery
	registry  *runtimetest.Registry
	clock     *worldtest.Clock
}

// world is a database, skill servers, and one process.
type world struct {
	process
	t      *testing.T
	db     *worldtest.DB
	source *source
	box    *secret.Box
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, db: worldtest.NewDB(t), box: runtimetest.NewBox(t),
		source: &source{tools: map[string][]string{}, broken: map[string]error{}, hanging: map[string]bool{}},
	}
	w.process = w.start(0)
	return w
}

// start starts a process on the same database. listTimeout is that of [catalog.Config].
func (w *world) start(listTimeout time.Duration) process {
	w.t.Helper()
	clock := &worldtest.Clock{}
	r := runtimetest.NewRegistry(w.t, runtimetest.Config{
		DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source}, Now: clock.Now,
		Agent: agent.Config{Box: w.box}, ListTimeout: listTimeout,
	})
	return process{r.Catalog, r.Agents, r.Discovery, r, clock}
}

// startConversation starts a conversation and returns the names of its tools.
func (w *world) startConversation(name string) (*catalog.Conversation, []string) {
	w.t.Helper()
	c, err := w.StartConversation(w.t.Context(), w.registry.Agent(name), uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	return c, toolNames(c)
}

func toolNames(c *catalog.Conversation) []string {
	list := []string{}
	for _, e := range c.Catalog.Entries {
		list = append(list, e.Name)
	}
	return list
}
