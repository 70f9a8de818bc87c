//go:build failpoint

package failpoint

import (
	"runtime"
	"syscall"
)

// signal sends s to the calling thread, so that nothing after it runs before s has its effect: a signal to the process may reach
// another thread first.
func signal(s syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), s); err != nil {
		panic(err)
	}
}
