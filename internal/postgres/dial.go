package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// A peer that the network lost is noticed after keepAliveIdle plus keepAliveCount times keepAliveInterval when
	// the connection is idle, and after userTimeout when something was sent. The server does the same.
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 3 * time.Second
	keepAliveCount    = 3
	userTimeout       = 15 * time.Second

	maxWrite = 1 << 20 // bytes that have to be taken within the limit of a connection
)

// errSilent ends a connection whose server neither answers nor hangs up. It is no
// timeout to pgconn, which would keep the connection then.
var errSilent = errors.New("the database does not answer")

// dialer returns the way to the server for connections that are given up after it did not answer for limit. Zero: never,
// as long as its machine is there.
func dialer(limit time.Duration) pgconn.DialFunc {
	d := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		},
		Control: setUserTimeout,
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil || limit == 0 {
			return conn, err
		}
		return &boundedConn{Conn: conn, limit: limit}, nil
	}
}

// boundedConn is a connection on which each read and write has to make progress within a limit. Deadlines that are
// set on it count too.
type boundedConn struct {
	net.Conn

	limit time.Duration

	mu          sync.Mutex
	read, write time.Time // deadlines that were set
}

func (c *boundedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *boundedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}

func (c *boundedConn) Read(b []byte) (int, error) {
	if err := c.arm(&c.read, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.explain(err, &c.read)
}

func (c *boundedConn) Write(b []byte) (written int, err error) {
	for err == nil && len(b) > 0 {
		if err := c.arm(&c.write, c.Conn.SetWriteDeadline); err != nil {
			return written, err
		}
		var n int
		n, err = c.Conn.Write(b[:min(len(b), maxWrite)])
		written, b = written+n, b[n:]
	}
	return written, c.explain(err, &c.write)
}

// arm lets the next operation end at the limit, or at the deadline that was set if that is earlier.
func (c *boundedConn) arm(deadline *time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := time.Now().Add(c.limit)
	if !deadline.IsZero() && deadline.Before(end) {
		end = *deadline
	}
	return set(end)
}

// explain tells the limit from the deadline that was set.
func (c *boundedConn) explain(err error, deadline *time.Time) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !deadline.IsZero() && !deadline.After(time.Now()) {
		return err
	}
	return fmt.Errorf("%w for %s", errSilent, c.limit)
}
