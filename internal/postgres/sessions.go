package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// sharedRounds is the number of transactions that are opened beside a connection to test whether it keeps its session.
const sharedRounds = 3

const (
	notifyCheckEvery = 2 * time.Second
	notifyCheckLimit = 10 * time.Second
)

// ErrSharedSessions means that a pooler before the server assigns sessions to single transactions.
var ErrSharedSessions = errors.New("two connections shared one session: a pooler in transaction mode stands between " +
	"(PgBouncer with pool_mode=transaction, or one like it), and Holdpoint needs sessions of its own, to listen and to keep locks " +
	"and settings; connect to the server itself, or to a pool in session mode, or name a connection that leads past the pooler in " +
	SessionURLVariable)

// errLost explains that a session URL does not do what it is for.
var errLost = errors.New("notifications (LISTEN) and locks would be lost; must lead to the same database as DATABASE_URL, past the pooler " +
	"in transaction mode")

// checkNotifications checks that a notification from the pool arrives at a connection outside it.
func (db *DB) checkNotifications(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(notifyCheckLimit, db.conn.ConnectTimeout))
	defer cancel()
	conn, err := db.connectPlain(ctx)
	if err != nil {
		return err
	}
	defer closePlain(ctx, conn)
	channel := "holdpoint_check_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(ctx, "LISTEN "+channel).ReadAll(); err != nil {
		return fmt.Errorf("connect to database: listen: %w", err)
	}
	for ctx.Err() == nil {
		if _, err := db.pool.Exec(ctx, "NOTIFY "+channel); err != nil {
			return fmt.Errorf("connect to database: notify: %w", err)
		}
		attempt, cancel := context.WithTimeout(ctx, notifyCheckEvery)
		err := conn.WaitForNotification(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if !pgconn.Timeout(err) {
			return fmt.Errorf("connect to database: listen: %w", err)
		}
	}
	return fmt.Errorf("%s: a notification through DATABASE_URL does not arrive here: %w", SessionURLVariable, errLost)
}

// checkSessions checks that a connection has a server process of its own: while transactions are open on other connections,
// this one must keep its process, and none of them may have the same.
func (db *DB) checkSessions(ctx context.Context) error {
	err := db.compareSessions(ctx)
	if errors.Is(err, ErrSharedSessions) && db.session.ConnString() != db.url {
		return fmt.Errorf("%s: %w: %w", SessionURLVariable, errLost, err)
	}
	return err
}

func (db *DB) compareSessions(ctx context.Context) error {
	if db.Embedded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, db.conn.ConnectTimeout)
	defer cancel()
	first, err := db.connectPlain(ctx)
	if err != nil {
		return err
	}
	defer closePlain(ctx, first)
	own, err := serverProcess(ctx, first, "")
	if err != nil {
		return err
	}
	rounds := 1
	if own.pid != own.announced { // the cancellation key came from a pooler
		rounds = sharedRounds
	}
	for range rounds {
		other, err := db.connectPlain(ctx)
		if err != nil {
			return err
		}
		defer closePlain(ctx, other)
		its, err := serverProcess(ctx, other, "BEGIN; ") // an open transaction keeps its process
		if err != nil {
			return err
		}
		if its.pid == own.pid {
			return ErrSharedSessions
		}
		again, err := serverProcess(ctx, first, "")
		if err != nil {
			return err
		}
		if again.pid != own.pid {
			return ErrSharedSessions
		}
	}
	return nil
}

// process identifies a server process.
type process struct {
	pid       string // as the server reports it
	announced string // as the connection's startup reported it
}

// serverProcess queries the process in a single message, which one session answers.
func serverProcess(ctx context.Context, conn *pgconn.PgConn, before string) (process, error) {
	results, err := conn.Exec(ctx, before+"SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return process{}, fmt.Errorf("connect to database: check for sessions of their own: %w", err)
	}
	return process{
		pid:       string(results[len(results)-1].Rows[0][0]),
		announced: strconv.FormatUint(uint64(conn.PID()), 10),
	}, nil
}

func (db *DB) connectPlain(ctx context.Context) (*pgconn.PgConn, error) {
	conn, err := pgconn.ConnectConfig(ctx, &db.session.ConnConfig.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return conn, nil
}

// closePlain closes a connection properly even if the context has ended. An open transaction is rolled back.
func closePlain(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx) // the connection is closed in any case
}
