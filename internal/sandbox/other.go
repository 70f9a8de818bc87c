//go:build unix && !linux

package sandbox

import (
	"os"
	"syscall"
)

// Unsupported returns why this machine has no sandbox.
func Unsupported() string { return "this system has no sandbox for programs: only Linux has one" }

func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func adoptOrphans() error { return nil }

func enterAttributes(*cgroup) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func confineProcess(spec *Spec) (report, error) { return report{}, os.Chdir(spec.Dir) }

// modeKeeper is only needed in a sandbox.
type modeKeeper struct{ theirs *os.File }

func newModeKeeper() (*modeKeeper, error)         { return &modeKeeper{}, nil }
func (*modeKeeper) receiveListener() (int, error) { return -1, nil }
func serveModes(int, []string)                    {}

// process is one of the tree.
type process struct{ pid, threads int }

func (process) memoryUse() int64 { return 0 }

func (p process) sendSignal(signal syscall.Signal) { _ = syscall.Kill(p.pid, signal) } // it may have ended

// processTree returns the program's process group: the system does not tell which processes left it.
func processTree(leader int) []process {
	if leader == 0 || syscall.Kill(-leader, 0) != nil {
		return nil
	}
	return []process{{pid: -leader}}
}

// cgroup is a Linux control group.
type cgroup struct{}

func openGroup(Limits) *cgroup    { return nil }
func (*cgroup) killAll()          {}
func (*cgroup) outOfMemory() bool { return false }
func (*cgroup) remove()           {}
