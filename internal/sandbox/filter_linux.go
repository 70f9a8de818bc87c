package sandbox

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter refuses system calls that Landlock does not check.
//
// No program may allocate memory that outlives its processes or that they do not map: the keeper cannot measure it. Nor may
// a program use io_uring, which would make other calls past the filter.
//
// A program that runs as this process's own account may not change the processes and files of this account:
//
//   - limits and priorities of other processes: a limit of processor time ends a process
//   - the owners and attributes of files
//   - the modes of files outside its folders: the keeper changes them instead, see [modeKeeper]
//   - Unix sockets, where Landlock does not check them: D-Bus or Docker run commands outside the sandbox
const (
	afUnix            = uint32(unix.AF_UNIX)
	allow             = uint32(unix.SECCOMP_RET_ALLOW)
	ask               = uint32(unix.SECCOMP_RET_USER_NOTIF)
	checksUnixSockets = 9 // the version of Landlock that first does
)

// memfdSecret is SYS_MEMFD_SECRET. Its number is the same everywhere, but the package unix does not name it for all architectures.
const memfdSecret = 447

// denyWith is the action that refuses a call with an error number.
func denyWith(errno unix.Errno) uint32 { return uint32(unix.SECCOMP_RET_ERRNO) | uint32(errno) } //nolint:gosec // G115: error numbers are small

// Calls that do not exist in any sandbox.
var absentCalls = []uint32{ //nolint:gochecknoglobals // a table
	unix.SYS_MEMFD_CREATE, memfdSecret, unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET, unix.SYS_IO_URING_SETUP,
}

// Calls that change the owner or the attributes of a file.
var attributeCalls = slices.Concat([]uint32{ //nolint:gochecknoglobals // a table
	unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
}, oldOwnerCalls)

// Calls that name a process in their first argument, and change it.
var processCalls = []uint32{ //nolint:gochecknoglobals // a table
	unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
}

// Calls that change the mode of a file.
var modeCalls = slices.Concat([]uint32{unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2}, oldModeCalls) //nolint:gochecknoglobals // a table

// Offsets in struct seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16
)

// loadWord loads 32 bits of struct seccomp_data.
func loadWord(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// loadArgument loads the lower half of an argument, which holds an int. Both architectures are little-endian.
func loadArgument(n uint32) unix.SockFilter { return loadWord(offsetArgs + 8*n) }

func returnAction(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// skipUnless jumps over the next skip instructions unless the loaded value is k.
func skipUnless(k uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: skip}
}

// skipIf jumps over the next skip instructions if the loaded value is k.
func skipIf(k uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: skip}
}

// filterProgram returns the filter for a program that runs as this process's own account, or as another one.
func filterProgram(own bool, abi int) []unix.SockFilter {
	absent, refused := returnAction(denyWith(unix.ENOSYS)), returnAction(denyWith(unix.EPERM))
	f := []unix.SockFilter{
		loadWord(offsetArch), skipIf(auditArch, 1), absent, // another architecture's calls have other numbers
		loadWord(offsetCall), {Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: firstForeignCall, Jf: 1}, absent,
	}
	on := func(call uint32, then ...unix.SockFilter) {
		f = append(f, skipUnless(call, uint8(len(then)))) //nolint:gosec // G115: a few
		f = append(f, then...)
	}
	for _, call := range absentCalls {
		on(call, absent)
	}
	if !own {
		return append(f, returnAction(allow))
	}
	for _, call := range attributeCalls {
		on(call, refused)
	}
	for _, call := range modeCalls {
		on(call, returnAction(ask))
	}
	for _, call := range processCalls {
		on(call, loadArgument(0), skipIf(0, 1), refused, returnAction(allow))
	}
	for _, call := range []struct{ number, process uint32 }{{unix.SYS_SETPRIORITY, 0}, {unix.SYS_IOPRIO_SET, 1}} {
		// The first argument must select a process, not a group or an account; the second must be this process.
		on(call.number, loadArgument(0), skipUnless(call.process, 2), loadArgument(1), skipIf(0, 1), refused, returnAction(allow))
	}
	if abi < checksUnixSockets {
		on(unix.SYS_SOCKET, loadArgument(0), skipUnless(afUnix, 1), refused, returnAction(allow))
		// A socket of a pair cannot connect to another one, unless it is a datagram socket.
		on(unix.SYS_SOCKETPAIR, loadArgument(0), skipUnless(afUnix, 5), loadArgument(1), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
			skipIf(unix.SOCK_STREAM, 2), skipIf(unix.SOCK_SEQPACKET, 1), refused, returnAction(allow))
	}
	return append(f, returnAction(allow))
}

// setFilter installs the filter in this thread, which becomes the program. For programs of our own account it returns the
// file that receives calls that change modes.
func setFilter(own bool, abi int) (listener int, err error) {
	program := filterProgram(own, abi)
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]} //nolint:gosec // G115: a few
	flags := uintptr(0)
	if own {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog))) //nolint:gosec // G103: it lives until the call returns
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, fmt.Errorf("filter system calls: %w", errno)
	}
	if !own {
		return -1, nil
	}
	return int(fd), nil
}
