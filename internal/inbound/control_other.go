//go:build !linux

package inbound

import "syscall"

// limitUnacknowledged does nothing: this system decides itself how long data may stay unacknowledged.
func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
