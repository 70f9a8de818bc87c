package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = uint32(unix.AUDIT_ARCH_X86_64)
	// The first number of x32, the second set of numbers that amd64 has for most calls.
	firstForeignCall = uint32(0x40000000)
)

// Calls that newer architectures do not have.
var (
	oldModeCalls  = []uint32{unix.SYS_CHMOD}                  //nolint:gochecknoglobals // a table
	oldOwnerCalls = []uint32{unix.SYS_CHOWN, unix.SYS_LCHOWN} //nolint:gochecknoglobals // a table
)

func isChmod(call int32) bool { return call == unix.SYS_CHMOD }
