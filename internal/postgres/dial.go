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
	// An idle connection notices a lost peer after keepAliveIdle plus keepAliveCount times keepAliveInterval, and one with
	// unacknowledged data after userTimeout. The server does the same.
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 3 * time.Second
	keepAliveCount    = 3
	userTimeout       = 15 * time.Second

	maxWrite = 1 << 20 // bytes that must be written within the limit of a connection
)

// errSilent ends a connection whose server neither answers nor closes it. It is not a timeout for pgconn, which would keep
// the connection.
var errSilent = errors.New("the database does not answer")

// newDialer returns a dialer whose connections fail if the server does not answer for limit. Zero: only if the server's
// machine is gone.
func newDialer(limit time.Duration) pgconn.DialFunc {
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

// boundedConn is a connection whose reads and writes must make progress within a limit. Deadlines of the caller also apply.
type boundedConn struct {
	net.Conn

	limit time.Duration

	mu          sync.Mutex
	read, write time.Time // deadlines of the caller
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
	if err := c.setDeadline(&c.read, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.explainTimeout(err, &c.read)
}

func (c *boundedConn) Write(b []byte) (written int, err error) {
	for err == nil && len(b) > 0 {
		if err := c.setDeadline(&c.write, c.Conn.SetWriteDeadline); err != nil {
			return written, err
		}
		var n int
		n, err = c.Conn.Write(b[:min(len(b), maxWrite)])
		written, b = written+n, b[n:]
	}
	return written, c.explainTimeout(err, &c.write)
}

// setDeadline limits the next operation by the limit, or by the caller's deadline if that is earlier.
func (c *boundedConn) setDeadline(deadline *time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := time.Now().Add(c.limit)
	if !deadline.IsZero() && deadline.Before(end) {
		end = *deadline
	}
	return set(end)
}

// explainTimeout returns errSilent if the limit ended an operation, and not the caller's deadline.
func (c *boundedConn) explainTimeout(err error, deadline *time.Time) error {
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
