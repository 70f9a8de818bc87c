package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	listenBackoffFirst = 50 * time.Millisecond
	listenBackoffLast  = 2 * time.Second
	listenCheckEvery   = 15 * time.Second // how long a dead connection may go unnoticed
	listenCheckLimit   = 5 * time.Second
)

// Listen receives the notifications sent to the channels until the context
// ends, and only then returns. It has a connection of its own, beside the
// pool, and makes a new one, with growing pauses, whenever that is lost.
//
// Each time it listens, the first time included, it calls onConnect (if not nil):
// whatever was sent before that was missed, so look at what you wait for. Both functions are called
// one at a time, on Listen's goroutine; while one runs, notifications wait.
func (db *DB) Listen(ctx context.Context, channels []string, handle func(channel, payload string), onConnect func()) {
	backoff := listenBackoffFirst
	for ctx.Err() == nil {
		err := db.listenOnce(ctx, channels, handle, func() {
			backoff = listenBackoffFirst
			if onConnect != nil {
				onConnect()
			}
		})
		if ctx.Err() != nil {
			return
		}
		db.log.Warn("listen for notifications: connection lost", "error", err, "retry_in", backoff)
		if pause(ctx, backoff) != nil {
			return
		}
		backoff = min(2*backoff, listenBackoffLast)
	}
}

// listenOnce listens until the connection is lost or the context ends.
func (db *DB) listenOnce(ctx context.Context, channels []string, handle func(channel, payload string), onConnect func()) error {
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	for _, channel := range channels {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return fmt.Errorf("listen to %s: %w", channel, err)
		}
	}
	onConnect()
	for {
		wait, cancel := context.WithTimeout(ctx, listenCheckEvery)
		notification, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			handle(notification.Channel, notification.Payload)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			if err := ping(ctx, conn); err != nil {
				return err
			}
		default:
			return fmt.Errorf("wait for a notification: %w", err)
		}
	}
}

// connect makes a connection that is not one of the pool's. Its caller closes it.
func (db *DB) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := db.pool.Config().ConnConfig
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", redact(err, db.url, cfg.Password))
	}
	readTimesAsUTC(conn)
	return conn, nil
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenCheckLimit)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("check connection: %w", err)
	}
	return nil
}

// closeConn says good-bye even when the context has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx) // whatever it says, the connection is gone
}
