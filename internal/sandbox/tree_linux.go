package sandbox

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath is a path of this executable that also works if its folder was moved or is not accessible.
func selfPath() string { return "/proc/self/exe" }

// adoptOrphans makes this process the parent of orphans among its descendants, and prevents others from tracing it.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// enterAttributes put the program in a session of its own, and let the kernel kill it when its keeper ends.
func enterAttributes(group *cgroup) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if group != nil {
		a.UseCgroupFD, a.CgroupFD = true, int(group.dir.Fd())
	}
	return a
}

// process is one of the tree.
type process struct {
	pid, parent, threads int
	started              string // start time, in the kernel's ticks
}

// sendSignal sends a signal, unless the process has ended: a new process may have its number.
func (p process) sendSignal(signal syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	now, alive := readProcess(p.pid)
	same := alive && now.started == p.started
	if err != nil { // an old kernel, or a container that does not know the call
		if same {
			_ = syscall.Kill(p.pid, signal)
		}
		return
	}
	if same {
		_ = unix.PidfdSendSignal(fd, signal, nil, 0) // it may have ended
	}
	_ = unix.Close(fd)
}

// processTree returns all descendants of this process that have not ended.
func processTree(int) []process {
	names, err := procNames()
	if err != nil {
		return nil
	}
	children := map[int][]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, alive := readProcess(pid); alive {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := children[os.Getpid()]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

func procNames() ([]string, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// The fields of /proc/PID/stat after the name, which is in parentheses, counted from zero.
const (
	statState   = 0
	statParent  = 1
	statThreads = 17
	statStarted = 19
)

func readProcess(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= statStarted {
		return process{}, false
	}
	p := process{pid: pid, started: fields[statStarted]}
	p.parent, _ = strconv.Atoi(fields[statParent])
	p.threads, _ = strconv.Atoi(fields[statThreads])
	// The children of a zombie have another parent.
	return p, fields[statState] != "Z" && fields[statState] != "X"
}

// memoryUse returns the memory that only this process uses, in bytes, without mapped files.
func (p process) memoryUse() int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return 0
	}
	var sum int64
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap":
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			sum += kib << 10
		}
	}
	return sum
}
