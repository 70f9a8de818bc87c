package cli_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/pgbouncer"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// setup is a set-up that doctor examines.
type setup struct {
	t   *testing.T
	db  *postgres.DB
	env map[string]string
}

func (s *setup) exec(statements ...string) {
	s.t.Helper()
	for _, statement := range statements {
		if _, err := s.db.Pool().Exec(s.t.Context(), statement); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// makeOwn takes an empty database. Other tests use the lent one after this one, and its migrations are not reset.
func (s *setup) makeOwn() {
	s.t.Helper()
	s.db = postgrestest.Empty(s.t)
	s.env["DATABASE_URL"] = s.db.URL()
}

// start has a start of serve behind it: the key, the mark, and an agent with a gated skill.
func (s *setup) start() {
	s.t.Helper()
	box, err := secret.Open(secret.Config{File: filepath.Join(s.env["HOLDPOINT_DATA_DIR"], "secret.keyset.json")})
	if err == nil {
		err = pgx.BeginFunc(s.t.Context(), s.db.Pool(), func(tx pgx.Tx) error { return secret.CheckKey(s.t.Context(), tx, box) })
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.exec(
		`INSERT INTO database_mark (place, writer, timeline) SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || oid || '/' || 'database_mark'::regclass::oid,
			pg_current_xact_id()::text::bigint & 4294967295, 0 FROM pg_database WHERE datname = current_database()`,
		`INSERT INTO agents (id, name, wait_budget_ms) VALUES (gen_random_uuid(), 'billing', 1000)`,
		`INSERT INTO skills (id, name, transport, settings, approval_timeout_ms, call_timeout_ms) VALUES (gen_random_uuid(), 'files', 'http', '{}', 1000, 1000)`,
		`INSERT INTO assignments (agent_id, skill_id) SELECT a.id, s.id FROM agents a, skills s`)
}

// lockCalls lets everything wait that locks a call, until the test ends. A connection of the pool would lose its locks while it is idle.
func (s *setup) lockCalls() {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.db.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) })
	if _, err := conn.Exec(s.t.Context(), `BEGIN; SELECT FROM calls FOR UPDATE`); err != nil {
		s.t.Fatal(err)
	}
}

// listen takes an address until the test ends.
func (s *setup) listen(handler http.HandlerFunc) {
	s.t.Helper()
	server := httptest.NewServer(handler)
	s.t.Cleanup(server.Close)
	s.env["HOLDPOINT_ADDR"] = strings.TrimPrefix(server.URL, "http://")
}

// TestDoctorFindsBrokenSetups: doctor finds what is wrong, and names the next step.
func TestDoctorFindsBrokenSetups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breakIt func(s *setup)
		code    int
		want    []string
		not     string
	}{
		"nothing": {(*setup).start, 0, []string{"ok    schema", "ok    encryption key", "that of the database"}, "fail  "},
		"database is down": {func(s *setup) { s.env["DATABASE_URL"] = "postgres://u:hush@127.0.0.1:1/x" }, 1, []string{
			"fail  PostgreSQL", "check DATABASE_URL, and that the server runs",
		}, "hush"},
		"pooler in transaction mode": {func(s *setup) {
			s.env["DATABASE_URL"] = pgbouncer.Start(s.t, s.db.URL(), nil).URL(s.db.URL())
		}, 1, []string{"fail  PostgreSQL", "pool_mode=transaction", "→ set HOLDPOINT_LISTEN_DATABASE_URL"}, ""},
		"database was restored": {func(s *setup) {
			s.start()
			s.exec(`UPDATE database_mark SET place = place`, // copies the row
				`INSERT INTO calls (id, agent_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin, arguments)
					SELECT gen_random_uuid(), agent_id, skill_id, 1, true, 'needs_connection', 'write', 'files__write', '', '{}' FROM assignments`)
			s.lockCalls()
		}, 0, []string{"warn  restored", "it is a copy", "1 calls", "then start one; see docs/backup.md"}, ""},
		"another key": {func(s *setup) {
			s.start()
			s.env["HOLDPOINT_DATA_DIR"] = s.t.TempDir()
			if _, err := secret.Open(secret.Config{File: filepath.Join(s.env["HOLDPOINT_DATA_DIR"], "secret.keyset.json")}); err != nil {
				s.t.Fatal(err)
			}
		}, 1, []string{"fail  encryption key", "restore the key"}, ""},
		"no migrations": {(*setup).makeOwn, 0, []string{"warn  schema", "holdpoint migrate"}, ""},
		"other migration": {func(s *setup) {
			s.makeOwn()
			run(s.t, s.env, "", "migrate").wantCode(s.t, 0)
			s.exec(`UPDATE schema_migrations SET checksum = '\x00' WHERE version = 1`)
		}, 1, []string{"fail  schema", "use the program that migrated it"}, ""},
		"later version": {func(s *setup) {
			s.makeOwn()
			run(s.t, s.env, "", "migrate").wantCode(s.t, 0)
			s.exec(`INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'later', '\x00')`)
		}, 1, []string{"fail  schema", "use that one"}, ""},
		"clocks differ":   {(*setup).start, 0, []string{"warn  clocks", "by NTP"}, ""},
		"nobody signs in": {(*setup).start, 0, []string{"warn  people", `"holdpoint invite --first"`}, ""},
		"a reviewer":      {func(s *setup) { s.start(); s.letIn(identity.Reviewer) }, 0, []string{"ok    encryption key"}, "reviewers"},
		"only operators": {func(s *setup) { s.start(); s.letIn(identity.Operator) }, 0, []string{
			"warn  reviewers", "nobody can approve calls of agent billing to skill files", "--role reviewer",
		}, "people"},
		"address is taken": {func(s *setup) { s.listen(http.NotFound) }, 1, []string{
			"fail  address", "another program listens on 127.0.0.1:", "choose another address with --addr",
		}, ""},
		"serve runs": {func(s *setup) {
			s.listen(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
		}, 0, []string{"ok    address", "a server of Holdpoint listens"}, ""},
		"address of another machine":  {func(s *setup) { s.env["HOLDPOINT_ADDR"] = "192.0.2.1:8080" }, 1, []string{"fail  address", "name an address of this machine"}, ""},
		"data directory is read-only": {func(s *setup) { s.env["HOLDPOINT_DATA_DIR"] = "/proc" }, 1, []string{"fail  data directory", "let this user write to it"}, ""},
		"nothing needs a data directory": {func(s *setup) {
			keyset, err := secret.NewKeyset()
			if err != nil {
				s.t.Fatal(err)
			}
			delete(s.env, "HOLDPOINT_DATA_DIR")
			s.env["HOLDPOINT_ENCRYPTION_KEY"], s.env["HOLDPOINT_FILES_URL"] = keyset, "file://"+s.t.TempDir()
		}, 0, []string{"ok    data directory   only the programs of skills"}, ""},
		"server is down": {func(s *setup) {
			s.env["HOLDPOINT_URL"], s.env["HOLDPOINT_TOKEN"] = "http://127.0.0.1:1", "hush"
		}, 1, []string{"fail  server", "start it with holdpoint serve"}, "hush"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			s := &setup{t: t, db: db, env: map[string]string{"DATABASE_URL": db.URL(), "HOLDPOINT_DATA_DIR": t.TempDir(), "HOLDPOINT_ADDR": "127.0.0.1:0"}}
			c.breakIt(s)
			got := run(t, s.env, "", "doctor").wantCode(t, c.code)
			wantContains(t, "doctor", got.stdout, c.want...)
			if c.not != "" && strings.Contains(got.stdout, c.not) {
				t.Errorf("doctor says %q:\n%s", c.not, got.stdout)
			}
		})
	}
}

// letIn makes a token for a person with a role.
func (s *setup) letIn(role identity.Role) {
	s.t.Helper()
	people, err := identity.New(identity.Config{Pool: s.db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	defer people.Close()
	if _, _, err := people.CreateToken(s.t.Context(), uuid.Nil, "anna", []identity.Role{role}, nil); err != nil {
		s.t.Fatal(err)
	}
}

// TestNeedsDataDir: serve does without a data directory only if database, key and files are elsewhere.
func TestNeedsDataDir(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		databaseURL, key, filesURL string
		want                       bool
	}{
		{"", "", "", true},
		{"", "key", "file:///srv/files", true},
		{"postgres://db/x", "", "file:///srv/files", true},
		{"postgres://db/x", "key", "", true},
		{"postgres://db/x", "key", "file:///srv/files", false},
	} {
		if got := cli.NeedsDataDir(c.databaseURL, c.key, c.filesURL); got != c.want {
			t.Errorf("database %q, key %q, files %q: %t, want %t", c.databaseURL, c.key, c.filesURL, got, c.want)
		}
	}
}
