//go:build !linux

package postgres

import "syscall"

// setUserTimeout does nothing: there is no TCP_USER_TIMEOUT here.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
