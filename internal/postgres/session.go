package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// idleInTransaction limits the idle time of a transaction. The server then ends it, so that a stopped process does not keep
// its locks.
const idleInTransaction = 15 * time.Second

const readOnlyTransaction = "25006" // SQLSTATE

// errReadOnly refuses a read-only server.
var errReadOnly = errors.New("the server is read-only (a standby, or default_transaction_read_only is on), and Holdpoint writes; " +
	"name the primary, or all hosts (postgres://user@a,b/database): the one that takes writes is used")

// errAsynchronous refuses sessions that lose commits, where Holdpoint cannot set their settings.
var errAsynchronous = errors.New("synchronous_commit is off, so that a crash loses commits, and through a pooler in transaction mode " +
	"Holdpoint cannot turn it on; turn it on for its role (ALTER ROLE ... SET synchronous_commit = on), then reconnect the pooler (RECONNECT)")

// setting is one setting of a session.
type setting struct{ name, value string }

// poolSettings are the settings of the pool's connections.
//
// enable_seqscan=off keeps the plans of prepared statements independent of the size of a table when they were made. On a new
// database a scan of the whole table is cheapest, and a connection that keeps this plan would still scan millions of rows.
// Every frequent statement has its index. jit=off prevents the compilation of scans, whose cost looks high then.
func poolSettings(statementLimit time.Duration) []setting {
	return []setting{
		{"statement_timeout", formatMilliseconds(statementLimit)},
		{"enable_seqscan", "off"},
		{"jit", "off"},
	}
}

// commonSettings are the settings of every connection.
func commonSettings() []setting {
	return []setting{
		{"idle_in_transaction_session_timeout", formatMilliseconds(idleInTransaction)},
		{"tcp_keepalives_idle", formatSeconds(keepAliveIdle)},
		{"tcp_keepalives_interval", formatSeconds(keepAliveInterval)},
		{"tcp_keepalives_count", strconv.Itoa(keepAliveCount)},
		{"tcp_user_timeout", formatMilliseconds(userTimeout)},
	}
}

func formatMilliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func formatSeconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// setUpConns configures connections to notice a dead peer, to refuse a read-only server and to start with settings. They fail if
// the server does not answer for silence; zero is no limit.
func (db *DB) setUpConns(cfg *pgx.ConnConfig, silence time.Duration, settings []setting) {
	db.watchConns(cfg, silence, sessionStatements(cfg.RuntimeParams, append(commonSettings(), settings...)), nil)
}

// setUpSharedConns is setUpConns for connections through a pooler that assigns sessions to single transactions. Settings hold for a
// transaction then: [InTx] begins with them.
func (db *DB) setUpSharedConns(cfg *pgxpool.Config, silence time.Duration, settings []setting) {
	db.watchConns(cfg.ConnConfig, silence, "SHOW transaction_read_only; SHOW synchronous_commit", errAsynchronous)
	useTransactionSettings(cfg, db.url, settings)
}

// useTransactionSettings lets transactions begin with their settings, and use no named statements.
func useTransactionSettings(cfg *pgxpool.Config, databaseURL string, settings []setting) {
	if !strings.Contains(databaseURL, "default_query_exec_mode") {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // without named statements
	}
	calls := []string{"set_config('idle_in_transaction_session_timeout', '" + formatMilliseconds(idleInTransaction) + "', true)"}
	for _, s := range settings {
		calls = append(calls, "set_config('"+s.name+"', '"+s.value+"', true)")
	}
	local := "SELECT " + strings.Join(calls, ", ")
	after := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()[localSettingsKey] = local
		return after(ctx, conn)
	}
}

// localSettingsKey is the key of a connection's statement that gives a transaction its settings.
const localSettingsKey = "local_settings"

// localSettings returns the statement that a transaction of a connection begins with. Empty: the session has its settings.
func localSettings(conn *pgx.Conn) string {
	local, _ := conn.PgConn().CustomData()[localSettingsKey].(string)
	return local
}

// beginOptions returns the options of a connection's transactions.
func beginOptions(conn *pgx.Conn) pgx.TxOptions {
	if local := localSettings(conn); local != "" {
		return pgx.TxOptions{BeginQuery: "BEGIN; " + local}
	}
	return pgx.TxOptions{}
}

// watchConns configures connections to notice a dead peer, to refuse a read-only server, and to note the server's timeline. They start
// with statements, of which the first shows transaction_read_only. If the second shows synchronous_commit=off, they fail with refusal,
// unless it is nil.
func (db *DB) watchConns(cfg *pgx.ConnConfig, silence time.Duration, statements string, refusal error) {
	cfg.DialFunc = newDialer(silence)
	chosen := cfg.ValidateConnect // by the URL's target_session_attrs
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if chosen != nil {
			if err := chosen(ctx, conn); err != nil {
				return err
			}
		}
		results, err := conn.Exec(ctx, statements+"; "+showTimeline).ReadAll()
		known := err == nil
		if _, refused := errors.AsType[*pgconn.PgError](err); refused { // a server like PostgreSQL that has no timelines
			results, err = conn.Exec(ctx, statements).ReadAll()
		}
		if err != nil {
			return fmt.Errorf("set up connection: %w", err)
		}
		if string(results[0].Rows[0][0]) == "on" {
			return errReadOnly // the next host is tried
		}
		if refusal != nil && string(results[1].Rows[0][0]) == "off" {
			return refusal
		}
		if known {
			return db.noteTimeline(conn, string(results[len(results)-1].Rows[0][0]))
		}
		return nil
	}
	onError := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == readOnlyTransaction {
			return false // after a failover the server is a standby: the connection is closed, and the next one finds the primary
		}
		return onError(conn, err)
	}
}

// sessionStatements returns the statements that start a session, for one round trip. Settings in the database's URL stay, except
// synchronous_commit=off: sending each call at most once depends on durable commits.
func sessionStatements(given map[string]string, settings []setting) string {
	var text strings.Builder
	text.WriteString("SHOW transaction_read_only; " +
		"SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
	for _, s := range settings {
		if _, ok := given[s.name]; ok || slices.Contains(strings.FieldsFunc(given["options"], notInName), s.name) {
			continue
		}
		text.WriteString("; SET " + s.name + " = " + s.value)
	}
	return text.String()
}

// notInName separates the words of "-c name=value".
func notInName(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }
