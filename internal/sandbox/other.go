//go:build unix && !linux

package sandbox

import (
	"os"
	"syscall"
)

// Unsupported says why no sandbox can be made here.
func Unsupported() string { return "this system has no sandbox for programs: only Linux has" }

func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func adoptOrphans() error { return nil }

func enterAttributes(*cgroup) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func confine(spec *Spec) (report, error) { return report{}, os.Chdir(spec.Dir) }

// modeKeeper is needed in a sandbox only.
type modeKeeper struct{ theirs *os.File }

func newModeKeeper() (*modeKeeper, error) { return &modeKeeper{}, nil }
func (*modeKeeper) receive() (int, error) { return -1, nil }
func serveModes(int, []string)            {}

// process is one of the tree.
type process struct{ pid, threads int }

func (process) memory() int64 { return 0 }

func (p process) signal(signal syscall.Signal) { _ = syscall.Kill(p.pid, signal) } // it may have ended

// tree is the program's group: nobody tells which processes left it.
func tree(leader int) []process {
	if leader == 0 || syscall.Kill(-leader, 0) != nil {
		return nil
	}
	return []process{{pid: -leader}}
}

// cgroup is a Linux control group.
type cgroup struct{}

func openGroup(Limits) *cgroup    { return nil }
func (*cgroup) kill()             {}
func (*cgroup) outOfMemory() bool { return false }
func (*cgroup) remove()           {}
