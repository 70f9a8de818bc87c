package mcptool_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
)

// brokenConn takes some bytes, and then fails; or its far end leaves.
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

// TestWhatWasWrittenIsKnown: only a request of which no byte left may be sent
// once more.
func TestWhatWasWrittenIsKnown(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		dial      func() (net.Conn, error)
		untouched bool
	}{
		"no connection":  {func() (net.Conn, error) { return nil, refused }, true},
		"nothing":        {func() (net.Conn, error) { return broken(0), nil }, true},
		"one byte":       {func() (net.Conn, error) { return broken(1), nil }, false},
		"all, no answer": {func() (net.Conn, error) { return broken(1 << 20), nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			untouched, err := mcptool.Untouched(t.Context(), test.dial)
			if err == nil || untouched != test.untouched {
				t.Errorf("untouched %t, %v", untouched, err)
			}
		})
	}
}

func broken(room int) net.Conn {
	near, far := net.Pipe()
	return &brokenConn{Conn: near, far: far, room: room}
}
