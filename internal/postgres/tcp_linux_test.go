package postgres_test

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

type tcpOption struct{ keepAlive, idle, userTimeout int }

func tcpOptions(t *testing.T, conn *net.TCPConn) (o tcpOption) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var errs [3]error
	err = raw.Control(func(fd uintptr) {
		o.keepAlive, errs[0] = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
		o.idle, errs[1] = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		o.userTimeout, errs[2] = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if err := errors.Join(append(errs[:], err)...); err != nil {
		t.Fatal(err)
	}
	return o
}
