//go:build unix && !linux

package mcptool

import "syscall"

// processAttributes put a child into a group of its own. When this process is
// killed, the child sees the end of its input.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
