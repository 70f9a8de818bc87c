//go:build !linux

package inbound

import "syscall"

// limitUnacknowledged does nothing: this system has its own limit.
func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
