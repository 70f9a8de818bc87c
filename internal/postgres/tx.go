package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const rollbackTimeout = 5 * time.Second

// InTx runs f in a transaction, which is committed when f returns nil and
// rolled back when it returns an error or panics. The error of f is returned
// as it is. An error of the commit means that the outcome is not known,
// unless it is a *pgconn.PgError, with which the server refused.
func InTx(ctx context.Context, pool *pgxpool.Pool, f func(tx pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	done := false
	defer func() {
		if done {
			return
		}
		// With a context that has ended, pgx would throw the connection away.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // the connection is closed if this fails, which rolls back too
	}()
	if err := f(tx); err != nil {
		return err
	}
	done = true
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// AllowIdle lets a transaction wait that long for something else than the database, such as another server's answer.
// Otherwise the server ends a transaction that is idle for 15 s, as that of a process that stopped.
func AllowIdle(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	_, err := tx.Exec(ctx, "SELECT set_config('idle_in_transaction_session_timeout', $1, true)", milliseconds(limit))
	if err != nil {
		return fmt.Errorf("allow an idle transaction: %w", err)
	}
	return nil
}
