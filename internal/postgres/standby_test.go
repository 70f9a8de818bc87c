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

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/pgbouncer"
	"github.com/holdpoint/holdpoint/internal/postgrestest/replica"
)

// logged collects lines of a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// readThings counts the rows of things, and tells whether a standby answered.
func readThings(t *testing.T, db *postgres.DB) (rows int, onStandby bool) {
	t.Helper()
	err := db.Reader().InTx(t.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT count(*), pg_is_in_recovery() FROM things").Scan(&rows, &onStandby)
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, onStandby
}

func addThing(t *testing.T, db *postgres.DB) {
	t.Helper()
	if _, err := db.Pool().Exec(t.Context(), "INSERT INTO things VALUES (1)"); err != nil {
		t.Fatal(err)
	}
}

// wantOnStandby waits until a standby answers, and fails the test unless it counts the rows of things. A slow one may not be used at first.
func wantOnStandby(t *testing.T, db *postgres.DB, want int) {
	t.Helper()
	eventually.Holds(t, "a standby to answer", func() bool {
		rows, onStandby := readThings(t, db)
		if rows != want {
			t.Errorf("%d rows, want %d; from the standby: %t", rows, want, onStandby)
		}
		return onStandby
	})
}

func awaitStandby(t *testing.T, db *postgres.DB) {
	t.Helper()
	eventually.Succeeds(t, patience, "the standby is used", db.StandbyTrouble)
}

// TestReaderOnStandby: a read sees every commit before it, with the limits of the pool. While the standby stands still, or is gone, the
// primary answers. A primary where nothing happens does not make the standby late.
func TestReaderOnStandby(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, false)
	log := &logged{}
	both := strings.Replace(pair.URL(), "&target_session_attrs=read-write", "", 1) // the first is the primary
	db := openDB(t, postgres.Config{DatabaseURL: pair.PrimaryURL(), ReadURL: both, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (n int)"); err != nil {
		t.Fatal(err)
	}
	awaitStandby(t, db)
	for n := 1; n <= 50; n++ {
		addThing(t, db)
		if rows, onStandby := readThings(t, db); rows != n || !onStandby && log.count("cannot be used") == 0 {
			t.Fatalf("%d rows after %d commits, from the standby: %t", rows, n, onStandby)
		}
	}
	wantOnStandby(t, db, 50)
	err := db.Reader().InTx(t.Context(), func(tx pgx.Tx) error {
		for setting, want := range map[string]string{
			"statement_timeout": "1min", "enable_seqscan": "off", "transaction_read_only": "on", "transaction_isolation": "repeatable read",
		} {
			var got string
			if err := tx.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, want %q; error %v", setting, got, want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	eventually.Holds(t, "a paused standby that has everything", func() bool {
		pair.Standby.Exec("SELECT pg_wal_replay_resume()")
		awaitStandby(t, db)
		pair.Standby.Exec("SELECT pg_wal_replay_pause()")
		rows, onStandby := readThings(t, db)
		return rows == 50 && onStandby && db.StandbyTrouble() == nil
	})
	lines := log.count("cannot be used")
	addThing(t, db)
	for range 10 {
		if rows, onStandby := readThings(t, db); rows != 51 || onStandby {
			t.Errorf("replay is paused: %d rows, from the standby: %t", rows, onStandby)
		}
	}
	eventually.Holds(t, "the reason", func() bool { return errors.Is(db.StandbyTrouble(), postgres.ErrBehind) })
	if got := log.count("cannot be used") - lines; got != 1 {
		t.Errorf("%d lines in the log, want one", got)
	}
	pair.Standby.Exec("SELECT pg_wal_replay_resume()")
	before, _ := db.Reader().Stats()
	wantOnStandby(t, db, 51)
	if after, ok := db.Reader().Stats(); !ok || after.Standby != before.Standby+1 {
		t.Errorf("counted %+v, before %+v", after, before)
	}

	pair.Standby.Kill()
	if rows, onStandby := readThings(t, db); rows != 51 || onStandby {
		t.Errorf("the standby is gone: %d rows, from the standby: %t", rows, onStandby)
	}
	pair.Standby.Start()
	wantOnStandby(t, db, 51)
	addThing(t, db)
	pair.FailOver() // the server of ReadURL is no standby now, and that of DatabaseURL is gone
	promoted := openDB(t, postgres.Config{DatabaseURL: pair.URL(), ReadURL: pair.StandbyURL()})
	if _, onStandby := readThings(t, promoted); onStandby {
		t.Error("read from a standby, and there is none")
	}
}

// TestReadCanceledByRecovery: a standby that cancels a read, because it has to replay what the read needs, does not fail the reader.
func TestReadCanceledByRecovery(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, false)
	pair.Standby.Exec("ALTER SYSTEM SET max_standby_streaming_delay = 0", "SELECT pg_reload_conf()")
	db := openDB(t, postgres.Config{DatabaseURL: pair.PrimaryURL(), ReadURL: pair.StandbyURL()})
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (n int); INSERT INTO things SELECT generate_series(1, 1000)"); err != nil {
		t.Fatal(err)
	}
	awaitStandby(t, db)
	var servers []bool
	var canceled error
	rows := 0
	read := func(tx pgx.Tx) error {
		var onStandby bool
		if err := tx.QueryRow(t.Context(), "SELECT count(*), pg_is_in_recovery() FROM things").Scan(&rows, &onStandby); err != nil {
			return err
		}
		servers = append(servers, onStandby)
		if !onStandby {
			return nil
		}
		for _, statement := range []string{"DELETE FROM things WHERE n > 10", "VACUUM things"} {
			if _, err := db.Pool().Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		eventually.Succeeds(t, patience, "the standby cancels the read", func() error {
			if _, canceled = tx.Exec(t.Context(), "SELECT count(*) FROM things"); canceled == nil {
				return errors.New("the read goes on")
			}
			return nil
		})
		return canceled
	}
	eventually.Succeeds(t, patience, "the standby answers", func() error {
		servers = nil
		if err := db.Reader().InTx(t.Context(), read); err != nil {
			t.Fatal(err)
		}
		if !servers[0] {
			return errors.New("the primary answered")
		}
		return nil
	})
	if len(servers) != 2 || !servers[0] || servers[1] || rows != 10 {
		t.Errorf("answered by a standby: %v; %d rows; the standby said %v", servers, rows, canceled)
	}
}

// TestReadURLIsChecked: another database would show another house's history.
func TestReadURLIsChecked(t *testing.T) {
	t.Parallel()
	primary, other := postgrestest.New(t).URL(), postgrestest.New(t).URL()
	_, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: primary, ReadURL: other})
	if err == nil || !strings.Contains(err.Error(), postgres.ReadURLVariable+": must lead to a standby") {
		t.Errorf("another database: %v", err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{DataDir: t.TempDir(), ReadURL: other}); err == nil ||
		!strings.Contains(err.Error(), "must be set together with DATABASE_URL") {
		t.Errorf("alone: %v", err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: primary, ReadURL: "postgres://a:s3cr3t/part@b/c"}); err == nil ||
		!strings.Contains(err.Error(), postgres.ReadURLVariable) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("not a URL: %v", err)
	}
	same := openDB(t, postgres.Config{DatabaseURL: primary, ReadURL: primary})
	if err := same.StandbyTrouble(); err == nil || !strings.Contains(err.Error(), "not a standby") {
		t.Errorf("the primary itself: %v", err)
	}
	var n int
	err = same.Reader().InTx(t.Context(), func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), "SELECT 1").Scan(&n) })
	if err != nil || n != 1 {
		t.Errorf("read %d: %v", n, err)
	}
}

// TestStandbyOfAnotherTimeline: positions of different timelines do not compare.
func TestStandbyOfAnotherTimeline(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, false)
	conn, err := pgx.Connect(t.Context(), pair.StandbyURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := postgres.AwaitPosition(t.Context(), conn, "0/1", "00000001"); err != nil {
		t.Errorf("its own timeline: %v", err)
	}
	if err := postgres.AwaitPosition(t.Context(), conn, "0/1", "00000002"); !errors.Is(err, postgres.ErrTimeline) {
		t.Errorf("another timeline: %v", err)
	}
	if err := postgres.AwaitPosition(t.Context(), conn, "FFFF/0", "00000001"); !errors.Is(err, postgres.ErrBehind) {
		t.Errorf("a later position: %v", err)
	}
}

// TestStandbyThroughPgBouncer: no named statements, and each transaction has its settings.
func TestStandbyThroughPgBouncer(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, false)
	direct := strings.Replace(pair.StandbyURL(), "holdpoint@", "holdpoint:unused@", 1) // PgBouncer's file has no empty password
	pooled := pgbouncer.Start(t, direct, nil).URL(direct)
	db := openDB(t, postgres.Config{DatabaseURL: pair.PrimaryURL(), ReadURL: pooled})
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (n int)"); err != nil {
		t.Fatal(err)
	}
	awaitStandby(t, db)
	for n := 1; n <= 50; n++ { // on several sessions
		addThing(t, db)
		err := db.Reader().InTx(t.Context(), func(tx pgx.Tx) error {
			var rows int
			var limit string
			err := tx.QueryRow(t.Context(), "SELECT count(*), current_setting('statement_timeout') FROM things WHERE n = $1", 1).Scan(&rows, &limit)
			if err == nil && (rows != n || limit != "1min") {
				err = fmt.Errorf("%d rows after %d commits, statement_timeout %s", rows, n, limit)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if stats, _ := db.Reader().Stats(); stats.Standby == 0 {
		t.Errorf("nothing was read from the standby: %+v, %v", stats, db.StandbyTrouble())
	}
}

// BenchmarkReader measures a short read on the primary and on a standby, where nothing is written and right after a commit.
func BenchmarkReader(b *testing.B) {
	pair := replica.Start(b, false)
	db, err := postgres.Open(b.Context(), postgres.Config{DatabaseURL: pair.PrimaryURL(), ReadURL: pair.StandbyURL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close(context.WithoutCancel(b.Context())) })
	if _, err := db.Pool().Exec(b.Context(), "CREATE TABLE things (n int)"); err != nil {
		b.Fatal(err)
	}
	eventually.Succeeds(b, patience, "the standby is used", db.StandbyTrouble)
	for _, c := range []struct {
		name   string
		reader *postgres.Reader
		write  bool
	}{
		{"primary", postgres.NewReader(db.Pool()), false},
		{"standby", db.Reader(), false},
		{"primary after a commit", postgres.NewReader(db.Pool()), true},
		{"standby after a commit", db.Reader(), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if c.write {
					if _, err := db.Pool().Exec(b.Context(), "INSERT INTO things VALUES (1)"); err != nil {
						b.Fatal(err)
					}
				}
				err := c.reader.InTx(b.Context(), func(tx pgx.Tx) error {
					_, err := tx.Exec(b.Context(), "SELECT n FROM things LIMIT 1")
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	if stats, _ := db.Reader().Stats(); stats.Primary > 0 {
		b.Errorf("%d reads on the primary instead of the standby", stats.Primary)
	}
}
