//go:build linux

package inbound

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHalfOpenConnectionsAreNoticed: the kernel probes silent clients and drops those that do not acknowledge data.
// Only this detects a vanished client while a response is held open.
func TestHalfOpenConnectionsAreNoticed(t *testing.T) {
	t.Parallel()
	l, err := Listen(t.Context(), "127.0.0.1:0", Config{Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	ours, _ := accepted.(*conn)
	tcp, _ := ours.Conn.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []struct {
		name                string
		level, option, want int
	}{
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 10},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, maxUnacknowledged},
	} {
		var got int
		var failed error
		err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), option.level, option.option) })
		if err != nil || failed != nil || got != option.want {
			t.Errorf("%s is %d, want %d (%v, %v)", option.name, got, option.want, err, failed)
		}
	}
}
