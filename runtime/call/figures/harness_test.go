package figures_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// world is a figures service on a database with two skills, "files" and "open", and an agent. Tests insert the calls.
type world struct {
	t       testing.TB
	db      *postgres.DB
	agents  *agent.Service
	agent   *agent.Agent
	figures *figures.Service
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: postgrestest.New(t)}
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	log := slog.New(slog.DiscardHandler)
	discovery, err := tool.NewDiscovery(tool.DiscoveryConfig{Pool: w.db.Pool(), Listed: agent.RecordListing, Logger: log, Now: time.Now})
	check(t, err)
	w.agents, err = agent.New(agent.Config{Pool: w.db.Pool(), Discovery: discovery, Box: box, Logger: log, Now: time.Now})
	check(t, err)
	t.Cleanup(func() {
		w.agents.Close()
		discovery.Close()
	})
	_, err = w.agents.Apply(t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{
			{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/files"},
			{Name: "open", Transport: tool.HTTP, URL: "http://127.0.0.1:1/open"},
		},
		Agents: []agent.AgentSpec{{Name: "billing"}},
	}, false)
	check(t, err)
	w.agent, err = w.agents.AgentByName(t.Context(), "billing")
	check(t, err)
	w.figures = w.newFigures()
	return w
}

// newFigures makes a service like that of another process.
func (w *world) newFigures() *figures.Service {
	w.t.Helper()
	service, err := figures.New(figures.Config{Pool: w.db.Pool(), Agents: w.agents})
	check(w.t, err)
	return service
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.db.Pool().Exec(w.t.Context(), sql, args...)
	check(w.t, err)
}

// moveClock sets the offset of the database's clock.
func (w *world) moveClock(by string) {
	w.t.Helper()
	w.exec(`UPDATE clock_offset SET value = $1::text::interval`, by)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
