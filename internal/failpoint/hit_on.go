//go:build failpoint

package failpoint

import (
	"os"
	"syscall"
)

// Env names the variable that arms one failpoint of a process.
const Env = "HOLDPOINT_FAILPOINT"

// Hit kills the process at once, as kill -9 does, when this failpoint is armed.
func Hit(name string) {
	if os.Getenv(Env) != name {
		return
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}
