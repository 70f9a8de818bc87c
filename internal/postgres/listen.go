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
	listenCheckEvery   = 3 * time.Second // a dead connection is noticed after this time
	listenCheckLimit   = 5 * time.Second
)

// Channel is the name of a channel of NOTIFY. The package that sends to a channel declares it.
type Channel string

// Listen passes the notifications of the channels to handle until the context ends. It uses a connection outside the pool. If
// the connection is lost, it makes a new one, with growing pauses.
//
// It calls onConnect (if not nil) after each connect. Earlier notifications are lost, so onConnect should read the current
// state. Both functions run on Listen's goroutine, one at a time; meanwhile, notifications wait.
func (db *DB) Listen(ctx context.Context, channels []Channel, handle func(channel Channel, payload string), onConnect func()) {
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
func (db *DB) listenOnce(ctx context.Context, channels []Channel, handle func(channel Channel, payload string), onConnect func()) error {
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
			handle(Channel(notification.Channel), notification.Payload)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			if err := pingConn(ctx, conn); err != nil {
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

// ListenerSilence returns the time since [DB.Listen] last found its connection alive. It checks every few seconds. Zero before
// Listen was called.
func (db *DB) ListenerSilence() time.Duration {
	if heard := db.heard.Load(); heard != nil {
		return time.Since(*heard)
	}
	return 0
}

func listenTo(ctx context.Context, conn *pgx.Conn, channel Channel) error {
	ctx, cancel := context.WithTimeout(ctx, listenCheckLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{string(channel)}.Sanitize()); err != nil {
		return fmt.Errorf("listen to %s: %w", channel, err)
	}
	return nil
}

func pingConn(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenCheckLimit)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("check connection: %w", err)
	}
	return nil
}

// closeConn closes a connection properly even if the context has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx) // the connection is closed in any case
}
