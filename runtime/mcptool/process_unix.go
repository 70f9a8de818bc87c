//go:build unix

package mcptool

import "syscall"

// terminateGroup asks a process group to end.
func terminateGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGTERM) }

// killGroup ends a process group.
func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }
