package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestSecretsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	for name, databaseURL := range map[string]string{
		"refused":        "postgres://holdpoint:s3cr3t%2Fpart@127.0.0.1:1/db",
		"not a URL":      "postgres://holdpoint:s3cr3t/part@127.0.0.1:1/db",
		"keywords":       "host=127.0.0.1 port=1 user=holdpoint password='s3cr3t/part'",
		"bad keyword":    "host=127.0.0.1 password=s3cr3t/part port",
		"bad port":       "postgres://holdpoint:s3cr3t@127.0.0.1:s3cr3t/db",
		"bad parameter":  "postgres://holdpoint:s3cr3t@127.0.0.1:1/db?sslmode=s3cr3t",
		"password twice": "postgres://s3cr3t:s3cr3t@127.0.0.1:1/s3cr3t",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: databaseURL})
			if err == nil || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	lent := postgrestest.New(t)
	if got := lent.Pool().Config().MaxConns; got != postgres.DefaultMaxConns {
		t.Errorf("%d connections, want the default", got)
	}
	small := openDB(t, postgres.Config{DatabaseURL: lent.URL(), MaxConns: 3})
	if got := small.Pool().Config().MaxConns; got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
	if small.Embedded() {
		t.Error("takes a database that was named for the embedded one")
	}
}

func TestTimesAreUTC(t *testing.T) {
	t.Parallel()
	var now time.Time
	if err := postgrestest.New(t).Pool().QueryRow(t.Context(), "SELECT now()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	if now.Location() != time.UTC {
		t.Errorf("location %s", now.Location())
	}
}

func TestCloseGivesUpOnLostConnection(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: postgrestest.New(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	conn.Release()
}

func TestInTx(t *testing.T) {
	t.Parallel()
	t.Run("InTx", func(t *testing.T) { t.Parallel(); checkTransactions(t, postgres.InTx) })
	t.Run("InBatchTx", func(t *testing.T) {
		t.Parallel()
		checkTransactions(t, func(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
			begun := 0
			first := &pgx.Batch{}
			first.Queue("SELECT 1").QueryRow(func(row pgx.Row) error { return row.Scan(&begun) })
			return postgres.InBatchTx(ctx, pool, first, func(tx pgx.Tx) (*pgx.Batch, error) {
				if begun != 1 {
					t.Error("the first batch has not run")
				}
				return &pgx.Batch{}, f(tx)
			})
		})
	})
}

func TestLastBatchCommits(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	inTx := func(statements ...string) error {
		return postgres.InBatchTx(t.Context(), db.Pool(), &pgx.Batch{}, func(pgx.Tx) (*pgx.Batch, error) {
			last := &pgx.Batch{}
			for _, sql := range statements {
				last.Queue(sql)
			}
			return last, nil
		})
	}
	if err := inTx("INSERT INTO things VALUES (1)", "INSERT INTO things VALUES (2)"); err != nil || !hasThing(t, db, 1) || !hasThing(t, db, 2) {
		t.Errorf("error %v; the batch is not committed", err)
	}
	if err := inTx("INSERT INTO things VALUES (3)", "INSERT INTO things VALUES (1)"); err == nil || hasThing(t, db, 3) {
		t.Errorf("error %v; half of a failed batch is committed: %v", err, hasThing(t, db, 3))
	}
	if err := inTx("INSERT INTO things VALUES (3)"); err != nil {
		t.Errorf("after a failed batch: %v", err)
	}
	missing := &pgx.Batch{}
	missing.Queue("SELECT 1 / 0")
	err := postgres.InBatchTx(t.Context(), db.Pool(), missing, func(pgx.Tx) (*pgx.Batch, error) {
		t.Error("continued after the first batch failed")
		return nil, nil
	})
	if err == nil {
		t.Error("the error of the first batch is lost")
	}
}

// checkTransactions tests a function that runs another one in a transaction.
func checkTransactions(t *testing.T, inTx func(context.Context, *pgxpool.Pool, func(pgx.Tx) error) error) {
	t.Helper()
	db := postgrestest.Empty(t)
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)"); err != nil {
		t.Fatal(err)
	}
	insert := func(tx pgx.Tx, id int) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO things VALUES ($1)", id)
		return err
	}
	refused := errors.New("refused")

	t.Run("commits", func(t *testing.T) {
		err := inTx(t.Context(), db.Pool(), func(tx pgx.Tx) error { return insert(tx, 1) })
		if err != nil || !hasThing(t, db, 1) {
			t.Errorf("error %v, thing %v", err, hasThing(t, db, 1))
		}
	})
	t.Run("rolls back on error", func(t *testing.T) {
		err := inTx(t.Context(), db.Pool(), func(tx pgx.Tx) error {
			return errors.Join(insert(tx, 2), refused)
		})
		if !errors.Is(err, refused) || hasThing(t, db, 2) {
			t.Errorf("error %v, thing %v", err, hasThing(t, db, 2))
		}
	})
	t.Run("rolls back on panic", func(t *testing.T) {
		defer func() {
			if recover() == nil || hasThing(t, db, 3) {
				t.Error("panic swallowed or committed")
			}
		}()
		_ = inTx(t.Context(), db.Pool(), func(tx pgx.Tx) error {
			if err := insert(tx, 3); err != nil {
				t.Error(err)
			}
			panic("at the disco")
		})
	})
	t.Run("rolls back when the context ends, and keeps the connection", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var before, after uint32
		err := inTx(ctx, db.Pool(), func(tx pgx.Tx) error {
			before = tx.Conn().PgConn().PID()
			defer cancel()
			return errors.Join(insert(tx, 4), refused)
		})
		_ = db.Pool().AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
			after = c.Conn().PgConn().PID()
			return nil
		})
		if !errors.Is(err, refused) || hasThing(t, db, 4) || before != after {
			t.Errorf("error %v, thing %v, connections %d and %d", err, hasThing(t, db, 4), before, after)
		}
	})
	t.Run("commits when the context has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := inTx(ctx, db.Pool(), func(tx pgx.Tx) error {
			defer cancel()
			return insert(tx, 5)
		})
		if err != nil || !hasThing(t, db, 5) {
			t.Errorf("error %v, thing %v", err, hasThing(t, db, 5))
		}
	})
	t.Run("tells when the commit is refused", func(t *testing.T) {
		err := inTx(t.Context(), db.Pool(), func(tx pgx.Tx) error { return insert(tx, 1) })
		if _, refused := errors.AsType[*pgconn.PgError](err); !refused {
			t.Errorf("error %v", err)
		}
	})
}

func hasThing(t *testing.T, db *postgres.DB, id int) bool {
	t.Helper()
	var there bool
	if err := db.Pool().QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM things WHERE id = $1)", id).Scan(&there); err != nil {
		t.Fatal(err)
	}
	return there
}

func TestListen(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	connected, heard, ended := make(chan struct{}, 9), make(chan string, 9), make(chan struct{})
	go func() {
		defer close(ended)
		db.Listen(ctx, []postgres.Channel{"one", "Two words"}, func(channel postgres.Channel, payload string) {
			heard <- string(channel) + ": " + payload
		}, func() { connected <- struct{}{} })
	}()
	notify := func(channel, want string) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), "SELECT pg_notify($1, 'hello')", channel); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	<-connected
	notify("one", "one: hello")
	notify("Two words", "Two words: hello")

	var ended1 bool
	err := db.Pool().QueryRow(t.Context(), `SELECT bool_and(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&ended1)
	if err != nil || !ended1 {
		t.Fatalf("terminate the listener: %v, %v", ended1, err)
	}
	<-connected
	notify("one", "one: hello")
	cancel()
	<-ended
}
