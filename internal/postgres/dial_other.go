//go:build !linux

package postgres

import "syscall"

// setUserTimeout does nothing: this system has no TCP_USER_TIMEOUT.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
