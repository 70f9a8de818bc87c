package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	rollbackTimeout = 5 * time.Second
	commitGrace     = 5 * time.Second // for a commit whose context ends meanwhile
)

// InTx runs f in a transaction. It commits if f returns nil, also if ctx has ended, and rolls back if f returns an error or panics. It returns
// the error of f unchanged. After an error of the commit the outcome is unknown, unless it is a *pgconn.PgError: then the server
// refused the commit.
func InTx(ctx context.Context, pool *pgxpool.Pool, f func(tx pgx.Tx) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer conn.Release()
	return inTx(ctx, conn, beginOptions(conn.Conn()), f)
}

// inTx is [InTx] on a connection.
func inTx(ctx context.Context, conn *pgxpool.Conn, options pgx.TxOptions, f func(tx pgx.Tx) error) error {
	tx, err := conn.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	done := false
	defer func() {
		if !done {
			rollBack(ctx, tx)
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	done = true
	ctx, release := extendContext(ctx)
	defer release()
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// InBatchTx is [InTx] with fewer round trips: the batch first begins the transaction, and the batch that f returns commits it. f runs after
// the callbacks of first. If f returns no batch, the commit is a round trip of its own. An error of a callback of f's batch does not
// undo the commit.
func InBatchTx(ctx context.Context, pool *pgxpool.Pool, first *pgx.Batch, f func(tx pgx.Tx) (last *pgx.Batch, err error)) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer conn.Release()
	begun := &pgx.Batch{}
	begun.BeginTx(pgx.TxOptions{})
	if local := localSettings(conn.Conn()); local != "" {
		begun.Queue(local)
	}
	begun.QueuedQueries = append(begun.QueuedQueries, first.QueuedQueries...)
	results := conn.SendBatch(ctx, begun)
	tx := results.Tx()
	defer func() {
		if conn.Conn().PgConn().TxStatus() != 'I' {
			rollBack(ctx, tx)
		}
	}()
	if err := results.Close(); err != nil {
		return err
	}
	last, err := f(tx)
	if err != nil {
		return err
	}
	if last == nil {
		last = &pgx.Batch{}
	}
	last.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() == "ROLLBACK" {
			return fmt.Errorf("commit transaction: %w", pgx.ErrTxCommitRollback)
		}
		return nil
	})
	ctx, release := extendContext(ctx)
	defer release()
	return tx.SendBatch(ctx, last).Close()
}

// extendContext returns a context that ends a little after ctx. A commit that is broken off may take place all the same, and then its caller would
// not do what follows it.
func extendContext(ctx context.Context) (longer context.Context, release func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(commitGrace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}

// rollBack rolls a transaction back, even if ctx has ended: pgx would discard the connection then.
func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // the connection is closed if this fails, which rolls back too
}

// AllowIdle lets a transaction be idle for up to limit, for example while it waits for another server. Otherwise the database
// ends a transaction that is idle for 15 s.
func AllowIdle(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	_, err := tx.Exec(ctx, "SELECT set_config('idle_in_transaction_session_timeout', $1, true)", formatMilliseconds(limit))
	if err != nil {
		return fmt.Errorf("allow an idle transaction: %w", err)
	}
	return nil
}
