package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// postmaster is the content of postmaster.pid. The file belongs to the server: this package only reads it.
type postmaster struct {
	pid       int
	port      int
	socketDir string
	status    string // "starting", "ready", "stopping"; empty while it is being written
}

// The lines of postmaster.pid, counted from zero.
const (
	pidLine    = 0
	portLine   = 3
	socketLine = 4
	statusLine = 7
)

// readPostmaster reads postmaster.pid. found is false if there is none.
func readPostmaster(pgData string) (pm postmaster, found bool, err error) {
	content, err := os.ReadFile(filepath.Join(pgData, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return postmaster{}, false, nil
	}
	if err != nil {
		return postmaster{}, false, fmt.Errorf("look for a running server: %w", err)
	}
	lines := strings.Split(string(content), "\n")
	line := func(number int) string {
		if number >= len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[number])
	}
	pm.pid, _ = strconv.Atoi(line(pidLine))
	pm.port, _ = strconv.Atoi(line(portLine))
	pm.socketDir, pm.status = line(socketLine), line(statusLine)
	return pm, true, nil
}

// isAlive reports whether a process has the server's id. After a restart of the machine, this may be another process.
func (pm postmaster) isAlive() bool {
	if pm.pid <= 0 {
		return false
	}
	// If this is the first process of the machine (of a container), a killed server stays in the process table until it is
	// waited for.
	_, _ = syscall.Wait4(pm.pid, nil, syscall.WNOHANG, nil)
	err := syscall.Kill(pm.pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
