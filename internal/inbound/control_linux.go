package inbound

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnacknowledged is how long sent data may stay unacknowledged, in milliseconds.
const maxUnacknowledged = 60_000

// limitUnacknowledged sets TCP_USER_TIMEOUT, which accepted connections inherit. Keepalive does not detect a client that
// vanishes while data is in flight.
func limitUnacknowledged(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, maxUnacknowledged)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}
