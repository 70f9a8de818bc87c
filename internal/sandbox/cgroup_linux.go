package sandbox

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroup is the control group of one program. It is nil if none was delegated to this process: then only resource limits and
// the keeper limit the program.
type cgroup struct {
	path string
	dir  *os.File
}

// serverGroup is the group that a server's own processes move to: a group with processes cannot limit groups below it.
const serverGroup = "holdpoint-server"

// openGroup makes a control group (version 2) for a program, if one was delegated to this process.
func openGroup(l Limits) *cgroup {
	own, err := findOwnGroup("/proc/self/cgroup", "/proc/self/mountinfo")
	if err != nil || own == "" {
		return nil
	}
	above := filepath.Dir(own) // if the processes have moved already
	if !isDelegated(above) {
		above = own
	}
	if !isDelegated(above) {
		return nil
	}
	for range 10 { // a process may start another one meanwhile
		if above == own {
			moveProcesses(own)
		}
		if err := writeGroupFile(above, "cgroup.subtree_control", "+memory +pids"); !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return makeGroup(above, l)
}

// isDelegated reports whether systemd has delegated a group to the processes in it.
func isDelegated(group string) bool {
	value := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(group, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// moveProcesses moves all processes of a group into [serverGroup] below it.
func moveProcesses(group string) {
	below := filepath.Join(group, serverGroup)
	_ = os.Mkdir(below, 0o755) //nolint:gosec // G301: as the kernel makes them. It may exist
	text, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return
	}
	for pid := range strings.FieldsSeq(string(text)) {
		_ = writeGroupFile(below, "cgroup.procs", pid) // it may have ended
	}
}

// writeGroupFile writes a file of a group, which must exist.
func writeGroupFile(dir, name, value string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// findOwnGroup returns the folder of this process's control group, or "" if there is none of version 2.
func findOwnGroup(membership, mounts string) (string, error) {
	text, err := os.ReadFile(membership)
	if err != nil {
		return "", err
	}
	below, found := "", false
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			below, found = path, true
		}
	}
	if text, err = os.ReadFile(mounts); err != nil || !found {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		about, kind, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(about); strings.HasPrefix(kind, "cgroup2 ") && len(fields) > 4 {
			return filepath.Join(fields[4], below), nil
		}
	}
	return "", nil
}

// makeGroup makes a group below another, if that one delegates the control of memory and processes.
func makeGroup(above string, l Limits) *cgroup {
	text, err := os.ReadFile(filepath.Join(above, "cgroup.subtree_control"))
	if err != nil || !bytes.Contains(text, []byte("memory")) || !bytes.Contains(text, []byte("pids")) {
		return nil
	}
	g := &cgroup{path: filepath.Join(above, "holdpoint-"+rand.Text())}
	if err := os.Mkdir(g.path, 0o755); err != nil { //nolint:gosec // G301: as the kernel makes them
		return nil
	}
	for name, value := range map[string]string{
		"memory.max": strconv.FormatInt(l.Memory, 10), "memory.oom.group": "1", "pids.max": strconv.Itoa(l.Processes + moreProcesses),
	} {
		if err := writeGroupFile(g.path, name, value); err != nil {
			g.remove()
			return nil
		}
	}
	_ = writeGroupFile(g.path, "memory.swap.max", "0") // a kernel without swap has none
	if g.dir, err = os.Open(g.path); err != nil {
		g.remove()
		return nil
	}
	return g
}

// killAll ends every process of the group.
func (g *cgroup) killAll() {
	if g != nil {
		_ = writeGroupFile(g.path, "cgroup.kill", "1") // since Linux 5.14; the keeper kills too
	}
}

// outOfMemory reports whether the kernel killed processes of the group because memory ran out.
func (g *cgroup) outOfMemory() bool {
	if g == nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(g.path, "memory.events"))
	return err == nil && strings.Contains(string(text), "oom_kill ") && !strings.Contains(string(text), "oom_kill 0")
}

// remove removes the group, which must be empty.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	if g.dir != nil {
		_ = g.dir.Close()
	}
	_ = os.Remove(g.path)
}
