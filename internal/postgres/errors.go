package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsStatementTimeout reports whether the database canceled a statement, as at statement_timeout (SQLSTATE query_canceled).
func IsStatementTimeout(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "57014"
}

// IsUnavailable reports whether an error says that the database is unavailable, and not that a request is wrong: it refuses connections or has
// no free one, it stops, it is a standby, a connection broke, or a time limit passed while waiting for one. Whether a statement was
// executed may be unknown.
func IsUnavailable(err error) bool {
	if _, refused := errors.AsType[*pgconn.ConnectError](err); refused { // for any reason
		return true
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pgErr.Code {
		case tooManyConnections, "57P01", "57P02", "57P03", "25006": // admin_shutdown, crash_shutdown, cannot_connect_now, read_only_sql_transaction
			return true
		}
		return strings.HasPrefix(pgErr.Code, "08") // connection exceptions
	}
	if _, isOther := errors.AsType[*url.Error](err); isOther { // a request to another server
		return false
	}
	// All errors of a connection have this method, also if it returns false.
	var ofConnection interface {
		error
		SafeToRetry() bool
	}
	if _, broke := errors.AsType[*net.OpError](err); broke || errors.Is(err, io.ErrUnexpectedEOF) { // while rows were read
		return true
	}
	return errors.As(err, &ofConnection) || pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded)
}
