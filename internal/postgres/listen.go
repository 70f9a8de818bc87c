package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	listenBackoffFirst = 50 * time.Millisecond
	listenBackoffLast  = 2 * time.Second
	listenCheckEvery   = 3 * time.Second // how long a dead connection may go unnoticed
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
	db.noteHeard()
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
		if pause.For(ctx, backoff) != nil {
			return
		}
		backoff = min(2*backoff, listenBackoffLast)
	}
}

// listenOnce listens until the connection is lost or the context ends.
func (db *DB) listenOnce(ctx context.Context, channels []string, handle func(channel, payload string), onConnect func()) error {
	conn, err := db.connectWith(ctx, db.patientConfig())
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	for _, channel := range channels {
		if err := listenTo(ctx, conn, channel); err != nil {
			return err
		}
	}
	onConnect()
	for {
		db.noteHeard()
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

func (db *DB) noteHeard() {
	now := time.Now()
	db.heard.Store(&now)
}

// ListenerSilence returns how long ago [DB.Listen] last knew that its connection was alive. It knows every few seconds. Zero
// before Listen was called.
func (db *DB) ListenerSilence() time.Duration {
	if heard := db.heard.Load(); heard != nil {
		return time.Since(*heard)
	}
	return 0
}

func listenTo(ctx context.Context, conn *pgx.Conn, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, listenCheckLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen to %s: %w", channel, err)
	}
	return nil
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
