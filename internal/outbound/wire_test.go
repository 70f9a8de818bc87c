package outbound_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/internal/outbound"
)

// brokenConn accepts some bytes and then fails, or its peer closes it.
type brokenConn struct {
	net.Conn
	far  net.Conn
	room int
}

func (c *brokenConn) Write(p []byte) (int, error) {
	n := min(len(p), c.room)
	c.room -= n
	if n < len(p) {
		return n, syscall.EPIPE
	}
	_ = c.far.Close()
	return n, nil
}

// TestWhatWasWrittenIsKnown: a request may be resent only if none of its bytes was written.
func TestWhatWasWrittenIsKnown(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		dial      func() (net.Conn, error)
		untouched bool
	}{
		"no connection":  {func() (net.Conn, error) { return nil, refused }, true},
		"nothing":        {func() (net.Conn, error) { return newBroken(0), nil }, true},
		"one byte":       {func() (net.Conn, error) { return newBroken(1), nil }, false},
		"all, no answer": {func() (net.Conn, error) { return newBroken(1 << 20), nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := isUnwritten(t.Context(), test.dial)
			if err == nil || got != test.untouched {
				t.Errorf("untouched %t, %v", got, err)
			}
		})
	}
}

func newBroken(room int) net.Conn {
	near, far := net.Pipe()
	return &brokenConn{Conn: near, far: far, room: room}
}

// isUnwritten posts over a failing connection, and reports whether the request certainly was not written.
func isUnwritten(ctx context.Context, dial func() (net.Conn, error)) (bool, error) {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		conn, err := dial()
		if err != nil {
			return nil, err
		}
		return outbound.Count(conn), nil
	}}
	defer transport.CloseIdleConnections()
	var w outbound.Wire
	r, err := http.NewRequestWithContext(w.Observe(ctx), http.MethodPost, "http://test.invalid/", strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	r.GetBody = nil
	response, err := transport.RoundTrip(r)
	if err == nil {
		return false, response.Body.Close()
	}
	return w.Untouched(ctx.Err() != nil), err
}
