package guard

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A machine with systemd runs `holdpoint guard watch` as a service, which reports to the server. The reports have a key that only the one who
// installed the guard can read. In the settings of one user, the coding agent can read it too.

// watchKeyFile has the key of the reports about a guard.
func watchKeyFile(m *Machine, host Host, managed bool) string {
	return filepath.Join(m.Folder(managed), string(host)+".watch")
}

// ReadWatchKey reads the key of the reports about the guard; "" if there is none.
func (g *Guard) ReadWatchKey(m *Machine) (string, error) {
	text, err := readFile(watchKeyFile(m, g.Host, g.Managed))
	return strings.TrimSpace(string(text)), err
}

// editWatchKey returns the edit that stores a key for the reports: the present one, or a new one if isNew.
func (g *Guard) editWatchKey(m *Machine, isNew bool) (*Edit, error) {
	path := watchKeyFile(m, g.Host, g.Managed)
	old, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	edit := &Edit{Path: path, Old: old, New: old, Mode: 0o400, Owner: -1, Secret: true}
	if isNew || len(old) == 0 {
		edit.New = []byte(rand.Text() + rand.Text() + "\n")
	}
	return edit, nil
}

// UnitName is the service of the watcher.
const UnitName = "holdpoint-guard.service"

// UnitFile is the file of the watcher's service.
func (m *Machine) UnitFile() string { return m.path("etc/systemd/system/" + UnitName) }

// HasSystemd reports whether systemd runs the machine's services.
func (m *Machine) HasSystemd() bool {
	info, err := os.Stat(m.path("run/systemd/system"))
	return err == nil && info.IsDir()
}

// editUnit returns the edit that writes the watcher's service, or removes it with the last guard of the machine. Nil: nothing is to be done.
func (g *Guard) editUnit(m *Machine, isRemoved bool) (*Edit, error) {
	old, err := readFile(m.UnitFile())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", m.UnitFile(), err)
	}
	edit := &Edit{Path: m.UnitFile(), Old: old, Mode: 0o644, Owner: -1}
	switch {
	case !g.Managed || isRemoved && old == nil || !isRemoved && !m.HasSystemd():
		return nil, nil
	case !isRemoved:
		edit.New = []byte(fmt.Sprintf(unitText, quoteUnit(g.Program)))
		return edit, nil
	}
	for _, other := range Hosts() {
		record, err := ReadRecord(m, other, true)
		if err != nil {
			return nil, err
		}
		if other != g.Host && record != nil {
			return nil, nil
		}
	}
	return edit, nil
}

// unitText is the watcher's service. Its home folder is where guards of root are.
const unitText = `# Holdpoint guard: watches the hooks in the settings of coding agents.
[Unit]
Description=Watch the guards of coding agents for Holdpoint
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=%s guard watch --scope machine
Environment=HOME=/root
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
`

// quoteUnit quotes a word for a command in a unit of systemd.
func quoteUnit(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(word) + `"`
}
