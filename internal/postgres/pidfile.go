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

// postmaster is what a running server wrote into postmaster.pid. The file is
// the server's own: it is read here, and never written or deleted.
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

// readPostmaster reads postmaster.pid; found is false when there is none.
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

// alive reports whether a process has the server's id. It may be another's,
// after a restart of the machine.
func (pm postmaster) alive() bool {
	if pm.pid <= 0 {
		return false
	}
	// Where we are the machine's first process, a server that was killed stays in the
	// process table until we ask for it. Asking does nothing otherwise.
	_, _ = syscall.Wait4(pm.pid, nil, syscall.WNOHANG, nil)
	err := syscall.Kill(pm.pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
