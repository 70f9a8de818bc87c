package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// countedConn counts the bytes written to a connection, so that a failed
// request is known to have left this process or not.
type countedConn struct {
	net.Conn
	written atomic.Int64
	request atomic.Pointer[Wire] // whose first byte is still to be written
}

// Count wraps a connection so that a [Wire] knows what was written to it: for Wrap in [Config].
func Count(c net.Conn) net.Conn { return &countedConn{Conn: c} }

// Write counts what it may write before it writes it: a reader of the count
// never sees less than what is on its way.
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

// Wire observes one HTTP request on its way out over a transport whose connections are counted (see [Count]). Its answers
// are right once RoundTrip has returned an error. Its zero value is ready.
type Wire struct {
	// Confirm is asked over HTTP/1 right before the request's first byte is written; its error ends the request. Nil: nothing is
	// asked.
	Confirm func() error

	refused   atomic.Pointer[error]
	connected atomic.Bool  // a connection was there
	headers   atomic.Bool  // the request's headers were written, at least to a buffer
	before    atomic.Int64 // the connection's count when the request got it
	conn      atomic.Pointer[countedConn]
}

// Observe returns the context that the request is to have.
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

// countedUnder finds the counted connection of an HTTP/1 connection. HTTP/2
// has none of use: its requests share one.
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

// Untouched reports whether certainly no byte of the request was written. Over
// HTTP/1 the connection was closed before RoundTrip returned its error, so what
// net/http's own goroutine has not begun to write by then, it cannot write.
// stopped: the request was cancelled, and HTTP/2 may then still be writing.
func (w *Wire) Untouched(stopped bool) bool {
	switch conn := w.conn.Load(); {
	case !w.connected.Load():
		return true
	case conn != nil:
		// Over TLS the alert that ends a connection counts too: the answer is
		// then no, which is the safe one.
		return conn.written.Load() == w.before.Load()
	default:
		return !w.headers.Load() && !stopped
	}
}
