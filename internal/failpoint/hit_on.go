//go:build failpoint || race

package failpoint

import (
	"os"
	"sync"
	"syscall"
)

// Environment variables that arm one failpoint of a process.
const (
	Env     = "HOLDPOINT_FAILPOINT"      // kills the process there
	StopEnv = "HOLDPOINT_FAILPOINT_STOP" // stops the process there, once
)

var stop sync.Once

// Hit kills the process with SIGKILL if this failpoint is armed by [Env]. If it is armed by [StopEnv], it stops the process
// until SIGCONT.
func Hit(name string) {
	switch name {
	case os.Getenv(Env):
		signalThread(syscall.SIGKILL)
		select {}
	case os.Getenv(StopEnv):
		stop.Do(func() { signalThread(syscall.SIGSTOP) })
	}
}
