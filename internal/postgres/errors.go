package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsStatementTimeout reports whether the database canceled a statement, as at statement_timeout (SQLSTATE query_canceled).
func IsStatementTimeout(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "57014"
}
