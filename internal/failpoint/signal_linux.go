//go:build failpoint || race

package failpoint

import (
	"runtime"
	"syscall"
)

// signalThread sends s to the calling thread, so that s takes effect before the next instruction. A signal to the process may
// reach another thread first.
func signalThread(s syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), s); err != nil {
		panic(err)
	}
}
