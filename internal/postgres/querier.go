package postgres

import (
	"context"

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

// CollectOne runs a query that returns exactly one row. Without a row, the error is [pgx.ErrNoRows].
func CollectOne[T any](ctx context.Context, db Querier, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, _ := db.Query(ctx, sql, args...)
	return pgx.CollectExactlyOneRow(rows, scan)
}
