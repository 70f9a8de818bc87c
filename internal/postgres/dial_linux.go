package postgres

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout limits the time until sent bytes are acknowledged. Keepalives do not: they pause while bytes are in flight,
// and TCP retransmits for 15 minutes.
func setUserTimeout(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	}); controlErr != nil {
		err = controlErr
	}
	if err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}
