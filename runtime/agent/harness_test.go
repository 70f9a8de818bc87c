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

// source stands for a server that offers two tools.
type source struct{ tool.Source }

func (source) List(context.Context, tool.Server) (tool.Listing, error) {
	var listing tool.Listing
	for _, name := range []string{"read", "write"} {
		d, err := tool.ParseDefinition(fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name))
		if err != nil {
			return listing, err
		}
		listing.Tools = append(listing.Tools, d)
	}
	return listing, nil
}

func (source) Forget(uuid.UUID) {}

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
	keyFile string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, db: postgrestest.New(t), keyFile: filepath.Join(t.TempDir(), "key.json"),
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
		Pool: w.db.Pool(), Sources: map[tool.Transport]tool.Source{tool.HTTP: source{}, tool.Stdio: source{}},
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

// count counts rows.
func (w *world) count(from string) int {
	w.t.Helper()
	var n int
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}
