package e2e_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// TestDeciderIsNotCaller: a credential that can make a call cannot decide it, and cannot see calls of other agents.
func TestDeciderIsNotCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(counting.URL, "")+"  - {name: other, skills: [counting]}\n")
	worker, other := w.newAgent(p, "worker"), w.newAgent(p, "other")
	person := w.invitePerson(p, "olga", "operator")
	both := w.invitePerson(p, "ada", "reviewer", "--agents", "worker")

	done := newStubborn(holdpoint.Agent{Name: "worker", Key: both}, p).beginCall(t.Context(), "counting__record", `{"n":1}`)
	shown, err := pendingFor(t.Context(), "1", p)
	if err != nil {
		t.Fatal(err)
	}
	decide := func(token string) error { return holdpoint.API{URL: p.URL, Token: token}.Approve(t.Context(), shown) }
	wantProblem(t, decide(worker.Key), http.StatusForbidden, "forbidden")
	wantProblem(t, decide(person), http.StatusForbidden, "forbidden") // only an operator
	wantProblem(t, decide(both), http.StatusForbidden, "self_approval")
	wantProblem(t, decide("hp_nonsense"), http.StatusUnauthorized, "unauthenticated")
	for _, agent := range []holdpoint.Agent{worker, other} { // neither is ada's agent
		answer, err := agent.Await(t.Context(), shown.CallID)
		if err != nil || answer.Call().Code != "call_not_found" {
			t.Errorf("agent %s was told %s, %v of a call that is not its own", agent.Name, answer.Raw, err)
		}
		_, err = holdpoint.API{URL: p.URL, Token: agent.Key}.Call(t.Context(), shown.CallID)
		wantProblem(t, err, http.StatusNotFound, "not_found")
	}
	stolen := worker
	stolen.Name = "other"
	if _, err := stolen.CallTool(t.Context(), "counting__record", `{"n":2}`); err == nil {
		t.Error("the key of one agent opens the endpoint of another")
	}
	if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.answer.Text() != "recorded 1" {
		t.Errorf("the person's call ended with %s, %v", got.answer.Raw, got.err)
	}
}

// TestDeadlinePassesWhileNobodyRuns: a call expires by the database's clock, even if no process runs at its deadline.
func TestDeadlinePassesWhileNobodyRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(counting.URL, "approval_timeout: 30m\n"))
	agent := newStubborn(w.newAgent(p, "worker"), p)
	done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
	shown, err := pendingFor(t.Context(), "1", p)
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	w.moveClock("1 hour")
	again := w.startServer()
	wantProblem(t, operatorAPI(again).Approve(t.Context(), shown), http.StatusConflict, "expired")
	agent.addServer(again)
	if got := <-done; got.err != nil || got.answer.Call().Code != "expired" {
		t.Errorf("the agent was told %s, %v", got.answer.Raw, got.err)
	}
	if n := counting.Count("1"); n != 0 {
		t.Errorf("it arrived %d times", n)
	}
}

// moveClock advances the clock that deadlines use.
func (w *world) moveClock(by string) {
	w.t.Helper()
	w.execSQL(`UPDATE clock_offset SET value = $1::text::interval`, by)
}

// execSQL changes the database directly.
func (w *world) execSQL(sql string, args ...any) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.directURL())
	if err == nil {
		_, err = conn.Exec(w.t.Context(), sql, args...)
	}
	if err == nil {
		err = conn.Close(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
