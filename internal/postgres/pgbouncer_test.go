package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/pgbouncer"
)

func TestPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	direct := postgrestest.Empty(t).URL()
	pooled := pgbouncer.Start(t, direct, nil).URL(direct)
	if _, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: pooled}); !errors.Is(err, postgres.ErrSharedSessions) ||
		!strings.Contains(err.Error(), postgres.SessionURLVariable) {
		t.Errorf("without a way past it: %v", err)
	}
	_, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: pooled, SessionURL: pooled})
	if !errors.Is(err, postgres.ErrSharedSessions) || !strings.Contains(err.Error(), "LISTEN") {
		t.Errorf("with a way that leads through it: %v", err)
	}
	db := openDB(t, postgres.Config{DatabaseURL: pooled, SessionURL: direct})
	applied, err := postgres.Migrate(t.Context(), db, sqlFiles(map[string]string{"0001_a.sql": "CREATE TABLE a (id int)"}))
	if err != nil || len(applied) < 2 {
		t.Errorf("migrated %v: %v", applied, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	heard, connected := make(chan string, 1), make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		db.Listen(ctx, []postgres.Channel{"things"}, func(_ postgres.Channel, payload string) { heard <- payload }, func() { connected <- struct{}{} })
	}()
	<-connected
	err = postgres.InTx(t.Context(), db.Pool(), func(tx pgx.Tx) error {
		for setting, want := range map[string]string{
			"idle_in_transaction_session_timeout": "15s", "statement_timeout": "1min", "enable_seqscan": "off", "synchronous_commit": "on",
		} {
			var got string
			if err := tx.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, want %q; error %v", setting, got, want, err)
			}
		}
		_, err := tx.Exec(t.Context(), "SELECT pg_notify('things', $1)", "news")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "news" {
		t.Errorf("heard %q", got)
	}
	cancel()
	<-done
	for range 50 { // each on another session: a named statement would be missing there
		var n int
		if err := db.Pool().QueryRow(t.Context(), "SELECT $1::int", 1).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPoolerToAnotherDatabase: notifications would be lost in silence.
func TestPoolerToAnotherDatabase(t *testing.T) {
	t.Parallel()
	direct := postgrestest.Empty(t).URL()
	other := strings.Replace(postgrestest.Empty(t).URL(), "connect_timeout=120", "connect_timeout=10", 1) // also the limit of the check
	_, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: pgbouncer.Start(t, direct, nil).URL(direct), SessionURL: other})
	if err == nil || !strings.Contains(err.Error(), "must lead to the same database") {
		t.Errorf("error %v", err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{SessionURL: direct, DataDir: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "must be set together with DATABASE_URL") {
		t.Errorf("alone: %v", err)
	}
}

// TestAsynchronousCommitsThroughAPooler: sending at most once depends on durable commits.
func TestAsynchronousCommitsThroughAPooler(t *testing.T) {
	t.Parallel()
	lent := postgrestest.Empty(t)
	_, err := lent.Pool().Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$")
	if err != nil {
		t.Fatal(err)
	}
	pooler := pgbouncer.Start(t, lent.URL(), nil)
	_, err = postgres.Open(t.Context(), postgres.Config{DatabaseURL: pooler.URL(lent.URL()), SessionURL: lent.URL()})
	if err == nil || !strings.Contains(err.Error(), "synchronous_commit is off") {
		t.Errorf("error %v", err)
	}
}
