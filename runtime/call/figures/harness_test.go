package figures_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// world is a figures service on a database with two skills, "files" and "open", and an agent. Tests insert the calls.
type world struct {
	t       testing.TB
	db      *worldtest.DB
	agents  *agent.Service
	agent   *agent.Agent
	figures *figures.Service
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t)}
	r := runtimetest.NewRegistry(t, runtimetest.Config{DB: w.db})
	r.ApplyTwoSkills(nil, agent.AgentSpec{Name: "billing"})
	w.agents, w.agent = r.Agents, r.Agent("billing")
	w.figures = w.newFigures()
	return w
}

// newFigures returns another service on the same database, as in a second process.
func (w *world) newFigures() *figures.Service {
	w.t.Helper()
	service, err := figures.New(figures.Config{Pool: w.db.Pool(), Agents: w.agents})
	check(w.t, err)
	return service
}
