package mcptool

import "syscall"

// processAttributes put a child into a group of its own, and have the kernel
// kill it when the thread that started it ends: with this process, however
// that ends. Its own children see the end of their input.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
