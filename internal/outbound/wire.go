package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// countedConn counts the bytes written to a connection, so that it is known whether a failed request was sent.
type countedConn struct {
	net.Conn
	written atomic.Int64
	request atomic.Pointer[Wire] // whose first byte has not been written
}

// Count wraps a connection so that a [Wire] can observe it. It is for [Config].Wrap.
func Count(c net.Conn) net.Conn { return &countedConn{Conn: c} }

// Write counts bytes before it writes them, so the count is never too low.
func (c *countedConn) Write(p []byte) (int, error) {
	if w := c.request.Swap(nil); w != nil {
		if err := w.Confirm(); err != nil {
			w.refused.Store(&err)
			return 0, err
		}
	}
	c.written.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	if n < len(p) {
		c.written.Add(int64(n - len(p)))
	}
	return n, err
}

// Wire observes whether one HTTP request is sent over a transport with counted connections (see [Count]). Its methods are
// valid after RoundTrip has returned an error. The zero value is ready to use.
type Wire struct {
	// Confirm is called over HTTP/1 right before the first byte of the request is written. An error ends the request. Nil:
	// nothing is called.
	Confirm func() error

	refused   atomic.Pointer[error]
	connected atomic.Bool  // the request got a connection
	headers   atomic.Bool  // the request's headers were written, at least to a buffer
	before    atomic.Int64 // the connection's count when the request got it
	conn      atomic.Pointer[countedConn]
}

// Observe returns the context for the request.
func (w *Wire) Observe(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if conn := countedUnder(info.Conn); conn != nil {
				w.before.Store(conn.written.Load())
				if w.Confirm != nil {
					conn.request.Store(w)
				}
				w.conn.Store(conn)
			}
			w.connected.Store(true)
		},
		WroteHeaders: func() { w.headers.Store(true) },
	})
}

// countedUnder returns the counted connection of an HTTP/1 connection. For HTTP/2, whose requests share a connection, it
// returns nil.
func countedUnder(conn net.Conn) *countedConn {
	if secure, ok := conn.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		conn = secure.NetConn()
	}
	counted, _ := conn.(*countedConn)
	return counted
}

// Connected reports whether the request got a connection.
func (w *Wire) Connected() bool { return w.connected.Load() }

// Refused returns the error of Confirm.
func (w *Wire) Refused() error {
	if err := w.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// Untouched reports whether it is certain that no byte of the request was written. Over HTTP/1, the connection is closed
// before RoundTrip returns an error, so net/http cannot begin to write afterwards. stopped: the request was cancelled, after
// which HTTP/2 may still be writing.
func (w *Wire) Untouched(stopped bool) bool {
	switch conn := w.conn.Load(); {
	case !w.connected.Load():
		return true
	case conn != nil:
		// Over TLS, the closing alert counts too. The result is then false, which is safe.
		return conn.written.Load() == w.before.Load()
	default:
		return !w.headers.Load() && !stopped
	}
}
