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
// A program of any account may not allocate memory that outlives its processes, or that its processes do not map:
// the keeper does not see it. io_uring would do other calls past the filter.
//
// A program that runs as this process's own account may not change processes and files that this account may change:
//
//   - limits and priorities of other processes: a limit of processor time ends a process
//   - the owners and attributes of files
//   - the modes of files outside its folders: it has the keeper change them, see [modeKeeper]
//   - Unix sockets, where Landlock does not check them: D-Bus or Docker run commands outside the sandbox
const (
	afUnix            = uint32(unix.AF_UNIX)
	allow             = uint32(unix.SECCOMP_RET_ALLOW)
	ask               = uint32(unix.SECCOMP_RET_USER_NOTIF)
	checksUnixSockets = 9 // since this version Landlock does
)

// memfdSecret is SYS_MEMFD_SECRET, which has the same number everywhere; the package unix does not name it for all architectures.
const memfdSecret = 447

func deny(errno unix.Errno) uint32 { return uint32(unix.SECCOMP_RET_ERRNO) | uint32(errno) } //nolint:gosec // G115: error numbers are small

// Everybody's system calls that do not exist in the sandbox.
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

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// argument is the lower half of an argument, which is all of an int. Both architectures are little-endian.
func argument(n uint32) unix.SockFilter { return load(offsetArgs + 8*n) }

func result(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// unless goes on if the loaded value is k, and jumps over the next so many instructions otherwise.
func unless(k uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: skip}
}

// when jumps over the next so many instructions if the loaded value is k.
func when(k uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: skip}
}

// filterProgram is the filter for programs of another account, or for those of our own.
func filterProgram(own bool, abi int) []unix.SockFilter {
	absent, refused := result(deny(unix.ENOSYS)), result(deny(unix.EPERM))
	f := []unix.SockFilter{
		load(offsetArch), when(auditArch, 1), absent, // another architecture's calls have other numbers
		load(offsetCall), {Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: firstForeignCall, Jf: 1}, absent,
	}
	on := func(call uint32, then ...unix.SockFilter) {
		f = append(f, unless(call, uint8(len(then)))) //nolint:gosec // G115: a few
		f = append(f, then...)
	}
	for _, call := range absentCalls {
		on(call, absent)
	}
	if !own {
		return append(f, result(allow))
	}
	for _, call := range attributeCalls {
		on(call, refused)
	}
	for _, call := range modeCalls {
		on(call, result(ask))
	}
	for _, call := range processCalls {
		on(call, argument(0), when(0, 1), refused, result(allow))
	}
	for _, call := range []struct{ number, process uint32 }{{unix.SYS_SETPRIORITY, 0}, {unix.SYS_IOPRIO_SET, 1}} {
		// Which kind of thing is changed, then which of these: this process, and not its group or its account.
		on(call.number, argument(0), unless(call.process, 2), argument(1), when(0, 1), refused, result(allow))
	}
	if abi < checksUnixSockets {
		on(unix.SYS_SOCKET, argument(0), unless(afUnix, 1), refused, result(allow))
		// A socket of a pair is connected, and cannot connect to another one, unless it is a datagram socket.
		on(unix.SYS_SOCKETPAIR, argument(0), unless(afUnix, 5), argument(1), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
			when(unix.SOCK_STREAM, 2), when(unix.SOCK_SEQPACKET, 1), refused, result(allow))
	}
	return append(f, result(allow))
}

// setFilter installs the filter in this thread, which becomes the program. For programs of our own account it returns a
// file in which calls that change modes arrive.
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
