package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/faultproxy"
)

// TestSilentDatabaseIsGivenUp: without a deadline, silent connections look healthy to TCP.
func TestSilentDatabaseIsGivenUp(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Start(t, postgrestest.New(t).URL())
	db := openDB(t, postgres.Config{DatabaseURL: proxy.URL(), MaxConns: 2, StatementLimit: 5 * time.Second})
	conns := []*pgxpool.Conn{acquire(t, db), acquire(t, db)}
	proxy.Conns().BlackHole(faultproxy.Both)
	for _, conn := range conns {
		if _, err := conn.Exec(t.Context(), "SELECT $1::int", 1); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("a lost question: %v", err)
		}
		conn.Release()
	}
	proxy.CutAll()
	conn := acquire(t, db)
	defer conn.Release()
	proxy.Hold(faultproxy.ToServer)
	if _, err := conn.Exec(t.Context(), "SELECT $1::text", strings.Repeat("x", 64<<20)); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a question that is not taken: %v", err)
	}
	proxy.CutAll()
}

// TestSilentIdleConnectionIsGivenUp: the pool checks an idle connection before use.
func TestSilentIdleConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Start(t, postgrestest.New(t).URL())
	db := openDB(t, postgres.Config{DatabaseURL: proxy.URL(), MaxConns: 1})
	if err := db.Pool().Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Conns().BlackHole(faultproxy.Both)
	for idle := db.Pool().AcquireAllIdle(t.Context()); len(idle) > 0; idle = nil {
		idle[0].Release()
	}
	// A connection that was used recently is not checked. Wait until it has been idle for a second.
	<-time.After(1100 * time.Millisecond)
	if _, err := db.Pool().Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
}

func acquire(t *testing.T, db *postgres.DB) *pgxpool.Conn {
	t.Helper()
	conn, err := db.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestStatementsEnd(t *testing.T) {
	t.Parallel()
	db := openDB(t, postgres.Config{DatabaseURL: postgrestest.New(t).URL(), StatementLimit: 5 * time.Second})
	_, err := db.Pool().Exec(t.Context(), "SELECT pg_sleep(3600)")
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "57014" {
		t.Errorf("error %v", err)
	}
}

func TestSessionSettings(t *testing.T) {
	t.Parallel()
	lent := postgrestest.Empty(t)
	var name string
	if err := lent.Pool().QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := lent.Pool().Exec(t.Context(), "ALTER DATABASE "+name+" SET synchronous_commit = off"); err != nil {
		t.Fatal(err)
	}
	proxy := faultproxy.Start(t, lent.URL()) // only TCP connections show these settings
	check := func(databaseURL string, want map[string]string) {
		t.Helper()
		db := openDB(t, postgres.Config{DatabaseURL: databaseURL})
		for setting, value := range want {
			var got string
			if err := db.Pool().QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != value {
				t.Errorf("%s is %q, want %q; error %v", setting, got, value, err)
			}
		}
	}
	check(lent.URL(), map[string]string{
		"synchronous_commit": "on", "idle_in_transaction_session_timeout": "15s", "statement_timeout": "1min", "enable_seqscan": "off",
	})
	own := url.Values{"statement_timeout": {"7000"}, "synchronous_commit": {"off"}, "options": {"-c idle_in_transaction_session_timeout=8000"}}
	check(proxy.URL()+"&"+strings.ReplaceAll(own.Encode(), "+", "%20"), map[string]string{
		"statement_timeout": "7s", "idle_in_transaction_session_timeout": "8s", "synchronous_commit": "on",
	})
	check(addParameter(lent.URL(), "synchronous_commit=local"), map[string]string{"synchronous_commit": "local"})
}

// TestTCPNoticesDeadPeers reads the socket options of the client's end.
func TestTCPNoticesDeadPeers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("TCP_USER_TIMEOUT is Linux's")
		return
	}
	proxy := faultproxy.Start(t, postgrestest.New(t).URL())
	db := openDB(t, postgres.Config{DatabaseURL: proxy.URL()})
	conn := acquire(t, db)
	defer conn.Release()
	wrapped := reflect.ValueOf(conn.Conn().PgConn().Conn()).Elem().FieldByName("Conn").Interface()
	tcp, ok := wrapped.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T", wrapped)
	}
	options := tcpOptions(t, tcp)
	if options.keepAlive == 0 || options.idle != 10 || options.userTimeout != 15_000 {
		t.Errorf("%+v", options)
	}
}

// TestTransactionOfSilentProcessEnds: the locks of a silent process are released.
func TestTransactionOfSilentProcessEnds(t *testing.T) {
	t.Parallel()
	lent := postgrestest.Empty(t)
	if _, err := lent.Pool().Exec(t.Context(), "CREATE TABLE things (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	proxy := faultproxy.Start(t, lent.URL())
	silent := openDB(t, postgres.Config{DatabaseURL: proxy.URL()})
	tx, err := silent.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO things VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	proxy.BlackHole()
	if _, err := lent.Pool().Exec(t.Context(), "INSERT INTO things VALUES (1)"); err != nil {
		t.Errorf("it still has the key: %v", err)
	}
	proxy.CutAll()
	_ = tx.Rollback(t.Context()) // returns the connection to the pool
}

func TestAllowIdle(t *testing.T) {
	t.Parallel()
	db := openDB(t, postgres.Config{DatabaseURL: addParameter(postgrestest.Empty(t).URL(), "idle_in_transaction_session_timeout=200")})
	begin := func() pgx.Tx {
		tx, err := db.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
		return tx
	}
	allowed := begin()
	if err := postgres.AllowIdle(t.Context(), allowed, time.Hour); err != nil {
		t.Fatal(err)
	}
	other := begin()
	for {
		var there bool
		err := db.Pool().QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", other.Conn().PgConn().PID()).Scan(&there)
		if err != nil {
			t.Fatal(err)
		}
		if !there {
			break
		}
	}
	if _, err := allowed.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyConnectionIsClosed: otherwise the pool would keep using a server that a failover made a standby.
func TestReadOnlyConnectionIsClosed(t *testing.T) {
	t.Parallel()
	db := openDB(t, postgres.Config{DatabaseURL: postgrestest.Empty(t).URL(), MaxConns: 1})
	if _, err := db.Pool().Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	_, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (id int)")
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "25006" {
		t.Errorf("error %v", err)
	}
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (id int)"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// addParameter adds a parameter to a URL.
func addParameter(databaseURL, parameter string) string {
	if strings.Contains(databaseURL, "?") {
		return databaseURL + "&" + parameter
	}
	return databaseURL + "?" + parameter
}
