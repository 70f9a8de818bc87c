package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest/replica"
)

// TestConnectionsExhausted: a role without privileges that owns only its database has no connection left, first at the start and then
// while calls come in. The process says so, waits, and loses nothing.
func TestConnectionsExhausted(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, false)
	w := &world{t: t, databaseURL: pair.URL(), dataDir: passableDir(t)}
	pair.Primary.Exec("ALTER ROLE holdpoint CONNECTION LIMIT 1")
	hog, err := pgx.Connect(t.Context(), w.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p := program.Start(t, w.serverOptions())
	eventually.Succeeds(t, patience, "the log says that it waits", func() error {
		if !strings.Contains(p.Output(), "the database has no free connection; waiting for one") {
			return errors.New("it does not")
		}
		return nil
	})
	if err := hog.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	pair.Primary.Exec("ALTER ROLE holdpoint CONNECTION LIMIT -1")
	p.AwaitReady(t)

	counting := skill.NewCounting(t)
	w.applyManifest(p, oneSkill(counting.URL, "auto_approve: true\n"))
	agent := newStubborn(w.newAgent(p, "worker"), p)
	agent.meta = `{"dev.holdpoint/idempotency_key":"one"}`
	pair.Primary.Exec("ALTER ROLE holdpoint CONNECTION LIMIT 0",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'holdpoint'")
	done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
	eventually.Succeeds(t, patience, "the log says what is missing", func() error {
		if !strings.Contains(p.Output(), "too many connections for role") {
			return errors.New("it does not")
		}
		return nil
	})
	pair.Primary.Exec("ALTER ROLE holdpoint CONNECTION LIMIT -1")
	if got := <-done; got.err != nil || got.answer.Text() != "recorded 1" {
		t.Errorf("told %s, %v", got.answer.Raw, got.err)
	}
	if n := counting.Count("1"); n != 1 {
		t.Errorf("it arrived %d times", n)
	}
}
