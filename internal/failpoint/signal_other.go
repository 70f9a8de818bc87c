//go:build failpoint && !linux

package failpoint

import "syscall"

func signal(s syscall.Signal) {
	if err := syscall.Kill(syscall.Getpid(), s); err != nil {
		panic(err)
	}
}
