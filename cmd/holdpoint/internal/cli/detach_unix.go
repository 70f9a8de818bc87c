//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// detachProcess gives a process a session of its own, so that signals of the terminal do not reach it.
func detachProcess(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
