package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// sharedRounds is how many transactions are opened beside a connection to see whether it keeps its session.
const sharedRounds = 3

// ErrSharedSessions means that a pooler stands before the server that lends sessions for single transactions.
var ErrSharedSessions = errors.New("two connections shared one session: a pooler in transaction mode stands between " +
	"(PgBouncer with pool_mode=transaction, or one like it), and Holdpoint needs sessions of its own, to listen and to keep locks " +
	"and settings; connect to the server itself, or to a pool in session mode")

// checkSessions makes sure that a connection has a server process of its own. It goes by what happens and not by
// the pooler's name: while transactions are open on other connections, this one must stay with its process, and none
// of them may have got it.
func (db *DB) checkSessions(ctx context.Context) error {
	if db.Embedded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, db.pool.Config().ConnConfig.ConnectTimeout)
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
	if own.pid != own.announced { // it is not the server that gave us our cancellation key
		rounds = sharedRounds
	}
	for range rounds {
		other, err := db.connectPlain(ctx)
		if err != nil {
			return err
		}
		defer closePlain(ctx, other)
		its, err := serverProcess(ctx, other, "BEGIN; ") // stays open: so does its process
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

// process tells server processes apart.
type process struct {
	pid       string // says the server
	announced string // says who let us in
}

// serverProcess asks in a single message, so that the answer is one session's.
func serverProcess(ctx context.Context, conn *pgconn.PgConn, before string) (process, error) {
	results, err := conn.Exec(ctx, before+"SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return process{}, fmt.Errorf("connect to database: find out whether connections have sessions of their own: %w", err)
	}
	return process{
		pid:       string(results[len(results)-1].Rows[0][0]),
		announced: strconv.FormatUint(uint64(conn.PID()), 10),
	}, nil
}

func (db *DB) connectPlain(ctx context.Context) (*pgconn.PgConn, error) {
	conn, err := pgconn.ConnectConfig(ctx, &db.pool.Config().ConnConfig.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return conn, nil
}

// closePlain says good-bye even when the context has ended. A transaction that is open is rolled back.
func closePlain(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx) // whatever it says, the connection is gone
}
