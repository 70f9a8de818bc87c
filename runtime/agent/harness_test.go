package agent_test

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// process is one process of a deployment.
type process struct {
	*agent.Service
	discovery *tool.Discovery
	registry  *runtimetest.Registry
	clock     *worldtest.Clock
	server    *runtimetest.Source
}

// world is a database, skill servers, and one process.
type world struct {
	process
	t   *testing.T
	db  *worldtest.DB
	box *secret.Box
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), box: runtimetest.NewBox(t)}
	w.process = w.start(agent.Config{})
	return w
}

// start starts a process. cfg overrides the defaults.
func (w *world) start(cfg agent.Config) process {
	w.t.Helper()
	if cfg.Box == nil {
		cfg.Box = w.box
	}
	if cfg.Stdio.Allow == nil {
		cfg.Stdio = tool.StdioPolicy{On: true, Allow: [][]string{{}}}
	}
	server, clock := &runtimetest.Source{}, &worldtest.Clock{}
	server.Offer(`{"name":"read","inputSchema":{"type":"object"}}`, `{"name":"write","inputSchema":{"type":"object"}}`)
	r := runtimetest.NewRegistry(w.t, runtimetest.Config{
		DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: server, tool.Stdio: server}, Now: clock.Now, Agent: cfg,
	})
	return process{r.Agents, r.Discovery, r, clock, server}
}

var operator = audit.System()

// readSpec reads a spec from JSON.
func readSpec(t *testing.T, text string) agent.Spec {
	t.Helper()
	var s agent.Spec
	check(t, json.Unmarshal([]byte(text), &s))
	return s
}
