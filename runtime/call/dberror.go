package call

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// sqlClass returns the class of an error of PostgreSQL, or "" for any other error. See "Appendix A. PostgreSQL Error Codes" of its
// manual.
func sqlClass(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && len(pgErr.Code) == 5 {
		return pgErr.Code[:2]
	}
	return ""
}

// isDataError reports whether PostgreSQL cannot store the values: data exception, program limit exceeded.
func isDataError(err error) bool {
	class := sqlClass(err)
	return class == "22" || class == "54"
}

// isRetryable reports whether the same statement may succeed later: after errors of the connection and of the server, including
// read-only servers after a failover, but not after data exceptions, violated constraints and wrong statements.
func isRetryable(err error) bool {
	switch sqlClass(err) {
	case "":
		return !errors.Is(err, context.Canceled) && !isFileGone(err)
	case "22", "23", "42", "54", "P0":
		return false
	}
	return true
}

func isUniqueViolation(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "23505"
}
