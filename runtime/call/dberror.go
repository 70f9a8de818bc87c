package call

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// sqlClass returns the class of the error that PostgreSQL answered with, "" if it did not answer.
// See "Appendix A. PostgreSQL Error Codes" of its manual.
func sqlClass(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && len(pgErr.Code) == 5 {
		return pgErr.Code[:2]
	}
	return ""
}

// isDataError reports whether PostgreSQL cannot store these values: data exception, program limit
// exceeded. No other error says anything about the values.
func isDataError(err error) bool {
	class := sqlClass(err)
	return class == "22" || class == "54"
}

// isRetryable reports whether the same statement may succeed later. Faults of the connection and of the
// server are, read-only servers after a failover among them. Refusals of values, broken
// constraints and statements that make no sense to this database are not.
func isRetryable(err error) bool {
	switch sqlClass(err) {
	case "":
		return !errors.Is(err, context.Canceled) && !gone(err)
	case "22", "23", "42", "54", "P0":
		return false
	}
	return true
}

func isUniqueViolation(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "23505"
}
