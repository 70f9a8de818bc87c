package e2e_test

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/pgbouncer"
)

// pooler is the PgBouncer of all tests of this process. It runs if HOLDPOINT_E2E_PGBOUNCER is set.
var pooler struct {
	sync.Mutex

	running *pgbouncer.Bouncer
}

// usePooler lets the world's processes reach the database through the PgBouncer of all tests, if there is one.
func (w *world) usePooler() {
	w.t.Helper()
	if os.Getenv("HOLDPOINT_E2E_PGBOUNCER") == "" {
		return
	}
	pooler.Lock()
	defer pooler.Unlock()
	if pooler.running == nil {
		var err error
		// The cluster of the tests has 600 sessions.
		if pooler.running, err = pgbouncer.Run(context.Background(), w.databaseURL, map[string]string{"default_pool_size": "10"}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.reachThrough(pooler.running)
}

// reachThrough lets the world's processes reach the database through a PgBouncer.
func (w *world) reachThrough(b *pgbouncer.Bouncer) {
	w.sessionURL = w.databaseURL
	w.databaseURL = b.URL(w.databaseURL)
}

// directURL returns a connection string that leads past poolers.
func (w *world) directURL() string { return cmp.Or(w.sessionURL, w.databaseURL) }

// databaseEnv returns the variables of a program that opens the world's database.
func (w *world) databaseEnv() []string {
	env := []string{"DATABASE_URL=" + w.databaseURL}
	if w.sessionURL != "" {
		env = append(env, postgres.SessionURLVariable+"="+w.sessionURL)
	}
	return env
}

func stopPooler() error {
	if pooler.running == nil {
		return nil
	}
	return pooler.running.Stop()
}

// TestThroughPgBouncer: processes behind a pooler in transaction mode migrate an empty database, and park, approve, expire, attach
// and talk across processes.
func TestThroughPgBouncer(t *testing.T) {
	t.Parallel()
	w := &world{t: t, databaseURL: postgrestest.Empty(t).URL(), dataDir: t.TempDir()}
	w.reachThrough(pgbouncer.Start(t, w.databaseURL, map[string]string{"default_pool_size": "4"}))
	counting := skill.NewCounting(t)
	_, url := startModel(t, modelserver.Sequence(
		modelserver.Answer{Text: "One call.", Calls: []modelserver.Call{{Name: "counting__record", Arguments: `{"n":3}`}}},
		modelserver.Answer{Text: "Done."},
	))
	var servers [2]*holdpoint.Process
	for i := range servers {
		servers[i] = program.Start(t, w.serverOptions())
	}
	for _, p := range servers {
		p.AwaitReady(t)
	}
	w.applyManifest(servers[0], talkManifest(modelserver.OpenAI, url, counting.URL))
	agent := w.newAgent(servers[0], "worker")

	// One process holds the response, and the other one gets the same call and the decision.
	holding, attached := newStubborn(agent, servers[0]), newStubborn(agent, servers[1])
	holding.meta = `{"dev.holdpoint/idempotency_key":"1"}` // the second call may come after the end of the first
	attached.meta = holding.meta
	first := holding.beginCall(t.Context(), "counting__record", `{"n":1}`)
	shown := parkedCalls(t, servers[1], 1)[0]
	second := attached.beginCall(t.Context(), "counting__record", `{"n":1}`)
	other := operatorAPI(servers[1])
	if err := other.Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	for _, done := range []<-chan outcome{first, second} {
		if got := <-done; got.err != nil || got.answer.Text() != "recorded 1" {
			t.Errorf("told %s, %v", got.answer.Raw, got.err)
		}
	}

	expiring := newStubborn(agent, servers[0]).beginCall(t.Context(), "counting__record", `{"n":2}`)
	shown = parkedCalls(t, servers[1], 1)[0]
	w.moveClock("1000 hours")
	if got := <-expiring; got.err != nil || got.answer.Call().Code != "expired" {
		t.Errorf("told %s, %v", got.answer.Raw, got.err)
	}
	awaitCall(t, other, shown.CallID, hasStatus("expired"))

	api := holdpoint.API{URL: servers[0].URL, Token: agent.Key}
	var begun talk
	if err := api.Do(t.Context(), http.MethodPost, "conversations", map[string]string{"message": "Go."}, &begun); err != nil {
		t.Fatal(err)
	}
	if err := other.Approve(t.Context(), parkedCalls(t, servers[1], 1)[0]); err != nil {
		t.Fatal(err)
	}
	awaitTalk(t, patience, func() holdpoint.API { return api }, begun.ID, "idle")
	for n, want := range map[string]int{"1": 1, "2": 0, "3": 1} {
		if got := counting.Count(n); got != want {
			t.Errorf("call %s arrived %d times, want %d", n, got, want)
		}
	}

	// Without a way past it, the start says what would be lost.
	o := w.serverOptions()
	o.SessionURL = ""
	refused := program.Start(t, o)
	if err := refused.AwaitEnd(t); err == nil || !strings.Contains(refused.Output(), postgres.SessionURLVariable) {
		t.Errorf("without a connection past the pooler: %v\n%s", err, refused.Output())
	}
}
