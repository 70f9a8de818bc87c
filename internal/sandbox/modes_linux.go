package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// modeKeeper changes the modes of files for a program that runs as this process's own account. Landlock does not restrict
// that, so the program could lock the server out of its data directory. The kernel asks the keeper instead, which changes
// modes only below the program's own folders.
type modeKeeper struct {
	ours, theirs *os.File // a pair of sockets that passes the listener
}

func newModeKeeper() (*modeKeeper, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &modeKeeper{os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")}, nil
}

// sendListener sends the listener to the keeper.
func sendListener(socket, listener int) error {
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return unix.Close(listener)
}

// receiveListener returns the listener, or -1 if the program has none.
func (m *modeKeeper) receiveListener() (int, error) {
	defer closeAll(m.ours)
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(m.ours.Fd()), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC) //nolint:dogsled // the call has so many results
	if err != nil || n == 0 {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return -1, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, err
	}
	return fds[0], nil
}

// The kernel's layouts of a call and its answer.
type (
	seccompCall struct {
		id          uint64
		pid, flags  uint32
		number      int32
		arch        uint32
		instruction uint64
		args        [6]uint64
	}
	seccompAnswer struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
)

const seccompIDValid = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID

// serveModes answers the program's calls until the program ends. It may change modes in folders.
func serveModes(listener int, folders []string) {
	for {
		var call seccompCall
		switch _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); errno { //nolint:gosec // G103: of a fixed size
		case 0:
		case unix.EINTR, unix.ENOENT: // the caller ended
			continue
		default:
			return
		}
		answer := seccompAnswer{id: call.id}
		if err := changeMode(listener, &call, folders); err != nil {
			errno := unix.EPERM
			_ = errors.As(err, &errno)
			answer.errno = -int32(errno)
		}
		// If it fails, the caller ended.
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer))) //nolint:gosec // G103: of a fixed size
	}
}

// changeMode changes a mode for a call. The caller may change its memory and rename files meanwhile, so the file is opened
// once, checked and changed.
func changeMode(listener int, call *seccompCall, folders []string) error {
	file, mode, err := openNamed(listener, call)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	self := "/proc/self/fd/" + strconv.Itoa(file)
	path, err := os.Readlink(self)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(folders, func(folder string) bool { return isWithin(folder, path) }) {
		return unix.EPERM
	}
	return unix.Fchmodat(unix.AT_FDCWD, self, mode, 0)
}

// openNamed opens the file that a call names, and returns its new mode.
func openNamed(listener int, call *seccompCall) (file int, mode uint32, err error) {
	dir, name, bits, flags := int32(call.args[0]), call.args[1], call.args[2], call.args[3] //nolint:gosec // G115: as the kernel reads them
	switch {
	case isChmod(call.number):
		dir, name, bits, flags = unix.AT_FDCWD, call.args[0], call.args[1], 0
	case call.number == unix.SYS_FCHMOD:
		name, bits, flags = 0, call.args[1], unix.AT_EMPTY_PATH
	case call.number == unix.SYS_FCHMODAT:
		flags = 0
	}
	process := "/proc/" + strconv.Itoa(int(call.pid))
	var path string
	if name != 0 {
		if path, err = readString(process, name); err != nil {
			return -1, 0, err
		}
	}
	from := process + "/fd/" + strconv.Itoa(int(dir))
	switch {
	case filepath.IsAbs(path):
		from = process + "/root"
	case dir == unix.AT_FDCWD:
		from = process + "/cwd"
	}
	start, err := unix.Open(from, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, err
	}
	// If the call still waits, the folder was that of its process.
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), seccompIDValid, uintptr(unsafe.Pointer(&call.id))); errno != 0 { //nolint:gosec // G103: of a fixed size
		return -1, 0, errors.Join(errno, unix.Close(start))
	}
	mode = uint32(bits) & 0o7777 //nolint:gosec // G115: as the kernel reads it
	if path == "" && flags&unix.AT_EMPTY_PATH != 0 {
		return start, mode, nil
	}
	defer unix.Close(start)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	if filepath.IsAbs(path) {
		path = "./" + strings.TrimLeft(path, "/")
	}
	file, err = unix.Openat2(start, path, &how)
	return file, mode, err
}

// readString reads a path from a process's memory.
func readString(process string, address uint64) (string, error) {
	memory, err := os.Open(process + "/mem")
	if err != nil {
		return "", err
	}
	defer memory.Close()
	text := make([]byte, unix.PathMax)
	n, err := memory.ReadAt(text, int64(address)) //nolint:gosec // G115: programs have the lower half of the addresses
	if end := bytes.IndexByte(text[:n], 0); end >= 0 {
		return string(text[:end]), nil
	}
	if err == nil {
		err = unix.ENAMETOOLONG
	}
	return "", err
}
