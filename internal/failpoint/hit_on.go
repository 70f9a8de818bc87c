//go:build failpoint

package failpoint

import (
	"os"
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
