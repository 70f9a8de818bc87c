//go:build failpoint || race

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Environment variables that arm one failpoint of a process.
const (
	Env     = "HOLDPOINT_FAILPOINT"      // kills the process there; "name:20" does so at the 20th hit
	StopEnv = "HOLDPOINT_FAILPOINT_STOP" // stops the process there, once
)

// armed is the failpoint that kills the process.
type armed struct {
	name string
	at   int64 // number of the hit that kills
	hits atomic.Int64
}

var readArmed = sync.OnceValue(func() *armed {
	name, number, counted := strings.Cut(os.Getenv(Env), ":")
	a := &armed{name: name, at: 1}
	if counted {
		var err error
		if a.at, err = strconv.ParseInt(number, 10, 64); err != nil || a.at < 1 {
			panic(Env + ": the number of the hit must be positive, as in name:20")
		}
	}
	return a
})

var stop sync.Once

// Hit kills the process with SIGKILL if this failpoint is armed by [Env]. If it is armed by [StopEnv], it stops the process
// until SIGCONT.
func Hit(name string) {
	kill := readArmed()
	switch name {
	case kill.name:
		if kill.hits.Add(1) >= kill.at {
			signalThread(syscall.SIGKILL)
			select {}
		}
	case os.Getenv(StopEnv):
		stop.Do(func() { signalThread(syscall.SIGSTOP) })
	}
}
