package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// serveOnce runs serve until it has stored the check of its key, or refuses.
func serveOnce(t *testing.T, db *postgres.DB, key, dataDir string) (stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := db.Pool().Exec(t.Context(), `DELETE FROM instances`) // a server that was stopped while it started leaves its own
	check(t, err)
	env := map[string]string{"DATABASE_URL": db.URL(), "HOLDPOINT_ENCRYPTION_KEY": key}
	var out, complaints bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--addr", "127.0.0.1:0", "--data-dir", dataDir}, func(name string) string { return env[name] },
			strings.NewReader(""), &out, &complaints)
	}()
	for {
		select {
		case code = <-ended:
			return complaints.String(), code
		case <-time.After(10 * time.Millisecond):
		}
		var serves bool
		check(t, db.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM secret_check) AND EXISTS (SELECT FROM instances)`).Scan(&serves))
		if serves {
			cancel()
		}
	}
}

func newKeyset(t *testing.T) string {
	t.Helper()
	key, err := secret.NewKeyset()
	check(t, err)
	return key
}

// TestOtherKeyIsRefused: a wrong or lost key is noticed at the start, and not when the first secret is needed.
func TestOtherKeyIsRefused(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	key, other := newKeyset(t), newKeyset(t)
	if stderr, code := serveOnce(t, db, key, t.TempDir()); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if stderr, code := serveOnce(t, db, other, t.TempDir()); code != 1 || !strings.Contains(stderr, secret.ErrOtherKey.Error()) {
		t.Errorf("serve with another key: exit code %d\n%s", code, stderr)
	}
	dataDir := t.TempDir()
	stderr, code := serveOnce(t, db, "", dataDir)
	if code != 1 || !strings.Contains(stderr, "no new key is made") {
		t.Errorf("serve with a lost key: exit code %d\n%s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dataDir, "secret.keyset.json")); !os.IsNotExist(err) {
		t.Errorf("a key was made: %v", err)
	}
	for _, test := range []struct{ key, want string }{
		{key, "ok    encryption key   of HOLDPOINT_ENCRYPTION_KEY, that of the database"},
		{other, "fail  encryption key   " + secret.ErrOtherKey.Error()},
		{"", "no new key is made"},
	} {
		if stdout, _, _ := command(t, db, test.key, "", "doctor"); !strings.Contains(stdout, test.want) {
			t.Errorf("doctor: no %q in\n%s", test.want, stdout)
		}
	}
	added, _, _ := command(t, db, "", key, "keyset", "rotate")
	stdout, stderr, code := command(t, db, strings.TrimSpace(added), "", "migrate")
	if code != 0 || stdout != "re-encrypted secrets: 1\n" {
		t.Errorf("rotation: exit code %d\n%s%s", code, stdout, stderr)
	}
	if stdout, _, _ := command(t, db, key, "", "doctor"); !strings.Contains(stdout, secret.ErrOtherKey.Error()) {
		t.Errorf("the old key alone still fits:\n%s", stdout)
	}
}

// TestOtherKeyIsRefusedAfterUpgrade: there are secrets, and no check yet.
func TestOtherKeyIsRefusedAfterUpgrade(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	key := newKeyset(t)
	_, err := joined(t, db, key).Agents.CreateSkill(t.Context(), audit.System(), agent.SkillSpec{
		Name: "mail", Transport: "http", URL: "https://mail.example/mcp", Headers: map[string]string{"X-Key": "m4il"},
	})
	check(t, err)
	for _, wrong := range []string{newKeyset(t), ""} {
		stderr, code := serveOnce(t, db, wrong, t.TempDir())
		if code != 1 || !strings.Contains(stderr, secret.ErrOtherKey.Error()) || !strings.Contains(stderr, "skills") {
			t.Errorf("exit code %d\n%s", code, stderr)
		}
	}
	if stderr, code := serveOnce(t, db, key, t.TempDir()); code != 0 {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestEveryColumnOfBytesIsKnown: a new one is either sealed, and then looked at, or listed here.
func TestEveryColumnOfBytesIsKnown(t *testing.T) {
	t.Parallel()
	rows, err := postgrestest.New(t).Pool().Query(t.Context(), `SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND data_type = 'bytea' AND column_name NOT IN ('sealed', 'secrets')
			AND table_name NOT LIKE 'river%' AND column_name !~ '(hash|sha256|digest|checksum|pin|sum)$' ORDER BY 1`)
	check(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	const want = "approvals.edit_envelope call_facts.facts call_questions.answer call_questions.error call_questions.params calls.arguments calls.attach_key calls.made calls.request calls.result " +
		"calls.submitted calls.trace gate_releases.request_key gate_requests.key sessions.data skill_documents.document skill_drafts.document skill_drafts.spec" // the last one is sealed
	if got := strings.Join(found, " "); got != want {
		t.Errorf("columns of bytes:\n%s\nwant\n%s", got, want)
	}
}

// TestChangedMigration: doctor and migrate report the same error as serve.
func TestChangedMigration(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	if _, stderr, code := command(t, db, "", "", "migrate"); code != 0 {
		t.Fatal(stderr)
	}
	_, err := db.Pool().Exec(t.Context(), `UPDATE schema_migrations SET checksum = '\x00' WHERE version = 1`)
	check(t, err)
	const want = "migration 0001_init.sql was changed after it had been applied"
	if stdout, _, code := command(t, db, "", "", "doctor"); code != 1 || !strings.Contains(stdout, "fail  schema") || !strings.Contains(stdout, want) {
		t.Errorf("doctor: exit code %d\n%s", code, stdout)
	}
	stdout, stderr, code := command(t, db, "", "", "migrate")
	if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
		t.Errorf("migrate: exit code %d\n%s%s", code, stdout, stderr)
	}
}
