package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// pluginMark is in the first line of Holdpoint's plugin for OpenCode.
const pluginMark = "// Holdpoint's plugin for OpenCode"

// readPlugin lets the program write OpenCode's plugin, so that the plugin always fits the hook that it runs.
func (g *Guard) readPlugin(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	words := append(g.Arguments(), "--plugin")
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // G204: the program that the hook runs
	command.Env = cleanEnvironment()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("let %s write the plugin: %w: %s", g.Program, err, strings.TrimSpace(stderr.String()))
	}
	if !strings.HasPrefix(stdout.String(), pluginMark) {
		return nil, fmt.Errorf("let %s write the plugin: the answer must begin with %q", g.Program, pluginMark)
	}
	return stdout.Bytes(), nil
}

// pluginList is OpenCode's settings of the machine. OpenCode loads a plugin of the machine only if they name it.
func (m *Machine) pluginList() string { return m.path("etc/opencode/opencode.json") }

// pluginURL is how OpenCode's settings name the guard's plugin of the machine.
func (m *Machine) pluginURL() string { return "file://" + m.File(OpenCode, true) }

// readPluginList reads OpenCode's settings of the machine, and whether they name the guard's plugin.
func (m *Machine) readPluginList() (old []byte, file *jsonFile, isNamed bool, err error) {
	if old, err = readFile(m.pluginList()); err != nil {
		return nil, nil, false, fmt.Errorf("read %s: %w", m.pluginList(), err)
	}
	var plugins []any
	if file, err = parseJSON(old, true); err == nil {
		_, err = file.decode(&plugins, "plugin")
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("%s: %w", m.pluginList(), err)
	}
	return old, file, slices.Contains(plugins, any(m.pluginURL())), nil
}

// editPluginList adds the guard's plugin to OpenCode's settings of the machine, or takes it out.
func editPluginList(m *Machine, isInstalled bool) (*Edit, error) {
	old, file, isNamed, err := m.readPluginList()
	if err != nil {
		return nil, err
	}
	edit := &Edit{Path: m.pluginList(), Old: old, New: old, Mode: 0o644, Owner: -1}
	switch {
	case isNamed == isInstalled:
		return edit, nil
	case isInstalled:
		if err := file.add(m.pluginURL(), "plugin"); err != nil {
			return nil, fmt.Errorf("%s: %w", edit.Path, err)
		}
	default:
		file.removeElements(func(element json.RawMessage) bool {
			var name string
			return json.Unmarshal(element, &name) == nil && name == m.pluginURL()
		}, "plugin")
	}
	if edit.New = file.text(); strings.TrimSpace(string(edit.New)) == "{}" {
		edit.New = nil
	}
	return edit, nil
}
