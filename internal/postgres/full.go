package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
