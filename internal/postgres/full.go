package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	tooManyConnections = "53300" // SQLSTATE

	fullPause = time.Second
	fullTries = 60
)

// RetryFull runs f again for up to a minute while the server has no free connection, and logs that it waits.
func RetryFull(ctx context.Context, log *slog.Logger, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != tooManyConnections {
			return err
		}
		if try == 1 {
			log.Warn("the database has no free connection; waiting for one", "error", err)
		}
		if try == fullTries || pause.For(ctx, fullPause) != nil {
			return fmt.Errorf("the database has no free connection (raise max_connections or the role's limit, or lower --max-conns): %w", err)
		}
	}
}

// awaitServer runs f again until the server is up, for at most the given time, and logs that it waits.
func awaitServer(ctx context.Context, log *slog.Logger, limit time.Duration, f func() error) error {
	for try, waited := 1, time.Duration(0); ; try, waited = try+1, waited+fullPause {
		err := f()
		if err == nil || !isDown(err) || waited >= limit {
			return err
		}
		if try == 1 {
			log.Warn("the database does not accept connections yet; waiting for it", "at_most", limit.String(), "error", err)
		}
		if pause.For(ctx, fullPause) != nil {
			return err
		}
	}
}

// isDown reports whether a server cannot be reached or still starts. Another answer of a server is none that will change.
func isDown(err error) bool {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code == "57P03" // cannot_connect_now
	}
	_, unknown := errors.AsType[*net.DNSError](err)
	return unknown || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
