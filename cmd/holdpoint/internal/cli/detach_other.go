//go:build !unix

package cli

import "os/exec"

// detachProcess is not implemented on this system.
func detachProcess(*exec.Cmd) {}
