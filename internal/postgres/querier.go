package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
