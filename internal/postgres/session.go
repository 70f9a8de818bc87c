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
)

// idleInTransaction is how long a transaction may stay open while its client says nothing. After that the server
// ends it: a process that stopped must not keep locks that others wait for.
const idleInTransaction = 15 * time.Second

const readOnlyTransaction = "25006" // SQLSTATE

// errReadOnly refuses a server that takes no writes.
var errReadOnly = errors.New("the server is read-only (a standby, or default_transaction_read_only is on), and Holdpoint writes; " +
	"name the primary, or all hosts (postgres://user@a,b/database): the one that takes writes is used")

// setting is one setting of a session.
type setting struct{ name, value string }

// poolSettings are those of the pool's connections.
//
// The planner's are there to keep the plans of prepared statements from depending on how full a table was when
// they were made. On a new database a scan of a whole table is cheapest, and a connection that remembers it
// would go on scanning when there are millions of rows. Every statement here that runs often has its index.
// (Discouraged scans look so expensive that they would be compiled; hence jit.)
func poolSettings(statementLimit time.Duration) []setting {
	return []setting{
		{"statement_timeout", milliseconds(statementLimit)},
		{"enable_seqscan", "off"},
		{"jit", "off"},
	}
}

// commonSettings are those of every connection.
func commonSettings() []setting {
	return []setting{
		{"idle_in_transaction_session_timeout", milliseconds(idleInTransaction)},
		{"tcp_keepalives_idle", seconds(keepAliveIdle)},
		{"tcp_keepalives_interval", seconds(keepAliveInterval)},
		{"tcp_keepalives_count", strconv.Itoa(keepAliveCount)},
		{"tcp_user_timeout", milliseconds(userTimeout)},
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// setUp makes the connections of a configuration notice a dead peer, refuse a read-only server and begin with the settings.
// A server that does not answer for silence is given up; zero: never.
func setUp(cfg *pgx.ConnConfig, silence time.Duration, settings []setting) {
	cfg.DialFunc = dialer(silence)
	prepare := sessionStatements(cfg.RuntimeParams, append(commonSettings(), settings...))
	chosen := cfg.ValidateConnect // by the URL's target_session_attrs
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if chosen != nil {
			if err := chosen(ctx, conn); err != nil {
				return err
			}
		}
		results, err := conn.Exec(ctx, prepare).ReadAll()
		if err != nil {
			return fmt.Errorf("set up connection: %w", err)
		}
		if string(results[0].Rows[0][0]) == "on" {
			return errReadOnly // the next host is tried
		}
		return nil
	}
	onError := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == readOnlyTransaction {
			return false // a failover made the server a standby: the connection is closed, and the next one finds the primary
		}
		return onError(conn, err)
	}
}

// sessionStatements are run in one round trip. What the database's URL sets stays as it is, but a commit that does not
// wait for the disk: that a call is sent at most once rests on commits.
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
