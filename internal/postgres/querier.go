package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Querier is a pool, a connection or a transaction, to read from. The rows of a failed query have its error, so callers that pass
// them to [pgx.CollectRows] or [pgx.ForEachRow] need not check it before.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Batcher is a [Querier] that also takes batches.
type Batcher interface {
	Querier
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Collect runs a query and collects its rows.
func Collect[T any](ctx context.Context, db Querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...)
	return pgx.CollectRows(rows, scan)
}

// QueueAll adds a query to a batch and collects its rows. action is for the error.
func QueueAll[T any](batch *pgx.Batch, into *[]T, action string, scan pgx.RowToFunc[T], sql string, args ...any) {
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		if *into, err = pgx.CollectRows(rows, scan); err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
		return nil
	})
}

// QueueOne adds a query that returns exactly one row to a batch. Without a row, the error of the batch is [pgx.ErrNoRows].
func QueueOne[T any](batch *pgx.Batch, into *T, action string, scan pgx.RowToFunc[T], sql string, args ...any) {
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		if *into, err = pgx.CollectExactlyOneRow(rows, scan); err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
		return nil
	})
}

// CollectOne runs a query that returns exactly one row. Without a row, the error is [pgx.ErrNoRows].
func CollectOne[T any](ctx context.Context, db Querier, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, _ := db.Query(ctx, sql, args...)
	return pgx.CollectExactlyOneRow(rows, scan)
}
