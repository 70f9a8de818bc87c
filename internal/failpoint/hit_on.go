//go:build failpoint

package failpoint

import (
	"os"
	"runtime"
	"sync"
	"syscall"
)

// Variables that arm one failpoint of a process.
const (
	Env     = "HOLDPOINT_FAILPOINT"      // where it is killed
	StopEnv = "HOLDPOINT_FAILPOINT_STOP" // where it is stopped, once
)

var stop sync.Once

// Hit kills the process at once, as kill -9 does, when this failpoint is armed. It may be armed to stop the process
// instead, until it gets SIGCONT.
func Hit(name string) {
	switch name {
	case os.Getenv(Env):
		signal(syscall.SIGKILL)
		select {}
	case os.Getenv(StopEnv):
		stop.Do(func() { signal(syscall.SIGSTOP) })
	}
}

// signal sends s to the calling thread, so that nothing after it runs before s has its effect: a signal to the process may reach
// another thread first.
func signal(s syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), s); err != nil {
		panic(err)
	}
}
