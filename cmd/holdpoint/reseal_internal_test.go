package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command runs one as a process would, with an encryption key and a database.
func command(t *testing.T, db *postgres.DB, key, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	env := map[string]string{"DATABASE_URL": db.URL(), "HOLDPOINT_DATA_DIR": t.TempDir(), "HOLDPOINT_ENCRYPTION_KEY": key}
	var out, complaints bytes.Buffer
	code = run(t.Context(), args, func(name string) string { return env[name] }, strings.NewReader(stdin), &out, &complaints)
	return out.String(), complaints.String(), code
}

// joined is the runtime of a server with a key, not started.
func joined(t *testing.T, db *postgres.DB, key string) *runtime.Runtime {
	t.Helper()
	box, err := secret.Open(secret.Config{Keyset: key})
	check(t, err)
	rt, err := runtime.New(runtime.Config{
		DB: db, Box: box, Logger: slog.New(slog.DiscardHandler), Now: time.Now, PublicURL: "http://127.0.0.1:1",
	})
	check(t, err)
	return rt
}

// TestMigrateReencrypts goes the whole way of a rotation, as docs/operating.md has it.
func TestMigrateReencrypts(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	first, err := secret.NewKeyset()
	check(t, err)
	skill, err := joined(t, db, first).Agents.CreateSkill(t.Context(), audit.System(), agent.SkillSpec{
		Name: "mail", Transport: "http", URL: "https://mail.example/mcp", Headers: map[string]string{"X-Key": "m4il"},
	})
	check(t, err)
	rotate := func(key string, args ...string) string {
		t.Helper()
		stdout, stderr, code := command(t, db, "", key, append([]string{"keyset", "rotate"}, args...)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		return strings.TrimSpace(stdout)
	}
	added := rotate(first, "--add")
	promoted := rotate(added, "--promote")
	const upToDate = "The database is up to date.\n"
	for _, step := range []struct{ name, key, want string }{
		{"no key on this machine", "", upToDate},
		{"added", added, upToDate},
		{"promoted", promoted, "re-encrypted secrets: 1\n"},
		{"again", promoted, upToDate},
	} {
		stdout, stderr, code := command(t, db, step.key, "", "migrate")
		if code != 0 || stdout != step.want {
			t.Errorf("%s: exit code %d\n%s%s", step.name, code, stdout, stderr)
		}
	}
	if _, server, err := joined(t, db, added).Agents.FreshSkill(t.Context(), skill.ID); err != nil || server.Headers["X-Key"] != "m4il" {
		t.Errorf("a server that has the key: %v, %v", server.Headers, err)
	}
	other, err := secret.NewKeyset()
	check(t, err)
	stdout, stderr, code := command(t, db, other, "", "migrate")
	if code != 1 || !strings.Contains(stderr, "mail") || !strings.Contains(stderr, "HOLDPOINT_ENCRYPTION_KEY") || strings.Contains(stdout, "re-encrypted") {
		t.Errorf("another key: exit code %d\n%s%s", code, stdout, stderr)
	}
}
