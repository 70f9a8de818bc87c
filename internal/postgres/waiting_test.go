package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// journal is a log that tests can wait on.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// await waits until a line contains all parts.
func (j *journal) await(t *testing.T, parts ...string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		for line := range strings.Lines(j.String()) {
			has := true
			for _, part := range parts {
				has = has && strings.Contains(line, part)
			}
			if has {
				return
			}
		}
	}
	t.Fatalf("no line with %q in\n%s", parts, j)
}

// TestMigrationLetsReadersPass: one open read must not turn a migration into an outage of the table.
func TestMigrationLetsReadersPass(t *testing.T) {
	t.Parallel()
	lent := postgrestest.Empty(t)
	var log journal
	db := openDB(t, postgres.Config{DatabaseURL: lent.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	files := map[string]string{"0001_things.sql": "CREATE TABLE things (id int)"}
	if _, err := postgres.Migrate(t.Context(), db, sqlFiles(files)); err != nil {
		t.Fatal(err)
	}
	// Disable idle_in_transaction_session_timeout, as pg_dump does.
	dump, err := pgx.Connect(t.Context(), lent.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close(t.Context())
	if _, err := dump.Exec(t.Context(), "BEGIN; SELECT count(*) FROM things"); err != nil {
		t.Fatal(err)
	}
	files["0002_more.sql"] = "ALTER TABLE things ADD COLUMN name text"
	migrated := make(chan error, 1)
	go func() {
		_, err := postgres.Migrate(t.Context(), db, sqlFiles(files))
		migrated <- err
	}()
	log.await(t, "waiting for a lock", "0002_more.sql", fmt.Sprintf("pid %d (", dump.PgConn().PID()), "idle in transaction")
	// This read waits behind the migration, but no longer than the migration may wait. The pool sets the limit.
	if _, err := lent.Pool().Exec(t.Context(), "SELECT count(*) FROM things"); err != nil {
		t.Errorf("a reader: %v", err)
	}
	log.await(t, "trying again", "0002_more.sql")
	if _, err := dump.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
	if _, err := lent.Pool().Exec(t.Context(), "SELECT name FROM things"); err != nil {
		t.Error(err)
	}
}

// TestIndexIsMadeBesideWriters: a migration without a transaction creates an index while others write. If interrupted,
// it is run again.
func TestIndexIsMadeBesideWriters(t *testing.T) {
	t.Parallel()
	lent := postgrestest.Empty(t)
	var log journal
	db := openDB(t, postgres.Config{DatabaseURL: lent.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	files := map[string]string{"0001_things.sql": "CREATE TABLE things (id int)"}
	if _, err := postgres.Migrate(t.Context(), db, sqlFiles(files)); err != nil {
		t.Fatal(err)
	}
	writer, err := pgx.Connect(t.Context(), lent.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close(t.Context())
	if _, err := writer.Exec(t.Context(), "BEGIN; INSERT INTO things VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	files["0002_index.sql"] = "-- no transaction\nDROP INDEX CONCURRENTLY IF EXISTS things_id;\nCREATE INDEX CONCURRENTLY things_id ON things (id);\n"
	migrated := make(chan error, 1)
	migrate := func(ctx context.Context) {
		_, err := postgres.Migrate(ctx, db, sqlFiles(files))
		migrated <- err
	}
	broken, breakOff := context.WithCancel(t.Context())
	defer breakOff()
	go migrate(broken)
	log.await(t, "waiting for a lock", "0002_index.sql", fmt.Sprintf("pid %d (", writer.PgConn().PID()))
	if _, err := lent.Pool().Exec(t.Context(), "INSERT INTO things VALUES (2)"); err != nil {
		t.Errorf("another writer: %v", err)
	}
	breakOff()
	if err := <-migrated; !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	go migrate(t.Context())
	if _, err := writer.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	var valid bool
	err = lent.Pool().QueryRow(t.Context(), "SELECT indisvalid FROM pg_index WHERE indexrelid = 'things_id'::regclass").Scan(&valid)
	if err != nil || !valid {
		t.Errorf("the index is valid: %t, %v", valid, err)
	}
}

// TestHolderOfMigrationLockIsReported: a session that a pooler keeps may hold the lock permanently.
func TestHolderOfMigrationLockIsReported(t *testing.T) {
	t.Parallel()
	lent := postgrestest.Empty(t)
	leaked, err := pgx.Connect(t.Context(), addParameter(lent.URL(), "application_name=leaked"))
	if err != nil {
		t.Fatal(err)
	}
	defer leaked.Close(t.Context())
	if _, err := leaked.Exec(t.Context(), "SELECT pg_advisory_lock(x'686f6c64706e7400'::bigint)"); err != nil {
		t.Fatal(err)
	}
	var log journal
	db := openDB(t, postgres.Config{DatabaseURL: lent.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	migrated := make(chan error, 1)
	go func() {
		_, err := postgres.Migrate(t.Context(), db, sqlFiles(map[string]string{"0001_a.sql": "CREATE TABLE a (id int)"}))
		migrated <- err
	}()
	log.await(t, "waiting for the migration lock", fmt.Sprintf("pid %d (leaked", leaked.PgConn().PID()), "pg_terminate_backend")
	if _, err := leaked.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}
