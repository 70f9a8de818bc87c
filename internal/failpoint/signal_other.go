//go:build (failpoint || race) && !linux

package failpoint

import "syscall"

func signalThread(s syscall.Signal) {
	if err := syscall.Kill(syscall.Getpid(), s); err != nil {
		panic(err)
	}
}
