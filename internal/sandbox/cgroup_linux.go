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

// cgroup is the control group of one program. A nil one is that none was delegated to this process: then resource limits
// and the keeper's watch are all there is.
type cgroup struct {
	path string
	dir  *os.File
}

// openGroup makes a control group (version 2) for a program, where somebody delegated one to this process.
func openGroup(l Limits) *cgroup {
	own, err := ownGroup("/proc/self/cgroup", "/proc/self/mountinfo")
	if err != nil || own == "" {
		return nil
	}
	// A group that has processes of its own cannot limit groups below it: then those beside it may.
	for _, above := range []string{own, filepath.Dir(own)} {
		var info unix.Statfs_t
		if unix.Statfs(above, &info) != nil || info.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		if g := makeGroup(above, l); g != nil {
			return g
		}
	}
	return nil
}

// set writes a file of a group. It makes none.
func set(dir, name, value string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// ownGroup is the folder of the control group that this process is in. Empty: there is none of version 2.
func ownGroup(membership, mounts string) (string, error) {
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

// makeGroup makes a group below another that hands on the control of memory and processes.
func makeGroup(above string, l Limits) *cgroup {
	_ = set(above, "cgroup.subtree_control", "+memory +pids") // refused where it is not ours to say
	text, err := os.ReadFile(filepath.Join(above, "cgroup.subtree_control"))
	if err != nil || !bytes.Contains(text, []byte("memory")) || !bytes.Contains(text, []byte("pids")) {
		return nil
	}
	g := &cgroup{path: filepath.Join(above, "holdpoint-"+rand.Text())}
	if err := os.Mkdir(g.path, 0o755); err != nil { //nolint:gosec // G301: as the kernel makes them
		return nil
	}
	for name, value := range map[string]string{
		"memory.max": strconv.FormatInt(l.Memory, 10), "memory.oom.group": "1", "pids.max": strconv.Itoa(l.Processes),
	} {
		if err := set(g.path, name, value); err != nil {
			g.remove()
			return nil
		}
	}
	_ = set(g.path, "memory.swap.max", "0") // a kernel without swap has none
	if g.dir, err = os.Open(g.path); err != nil {
		g.remove()
		return nil
	}
	return g
}

// kill ends every process of the group.
func (g *cgroup) kill() {
	if g != nil {
		_ = set(g.path, "cgroup.kill", "1") // since Linux 5.14; the keeper kills too
	}
}

// outOfMemory reports whether the kernel ended processes of the group for their memory.
func (g *cgroup) outOfMemory() bool {
	if g == nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(g.path, "memory.events"))
	return err == nil && strings.Contains(string(text), "oom_kill ") && !strings.Contains(string(text), "oom_kill 0")
}

// remove removes the group, which has no process any more.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	if g.dir != nil {
		_ = g.dir.Close()
	}
	_ = os.Remove(g.path)
}
