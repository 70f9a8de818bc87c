package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// minimumClaudeCode is the first version of Claude Code that knows onFailure.
const minimumClaudeCode = "2.1.295"

// minimumSetting is the managed setting that makes older versions refuse to start.
const minimumSetting = "requiredMinimumVersion"

// managedOnlySetting is the managed setting that leaves out the hooks of users and projects, which could change arguments after Holdpoint saw them.
const managedOnlySetting = "allowManagedHooksOnly"

// hostHooks says how a host's JSON file has its hooks.
type hostHooks struct {
	comments bool // the host reads comments
	// flat says that a hook is an element of the list itself; else an element has a list of hooks.
	flat bool
	// command is the member with the command.
	command string
	// head are members that a new file needs.
	head map[string]any
	// entries are the guard's hooks; the first one decides, the others report outcomes.
	entries []hookEntry
}

type hookEntry struct {
	event string
	hook  map[string]any
}

func (g *Guard) hostHooks() hostHooks {
	before, after := g.Command(), g.afterCommand()
	version := map[string]any{"version": 1}
	switch g.Host {
	case Gemini:
		return hostHooks{comments: true, command: "command", entries: []hookEntry{
			{"BeforeTool", map[string]any{"name": "holdpoint", "type": "command", "command": before, "timeout": Timeout * 1000}},
			{"AfterTool", map[string]any{"name": "holdpoint-outcome", "type": "command", "command": after, "timeout": afterTimeout * 1000}},
		}}
	case Copilot:
		return hostHooks{flat: true, command: "bash", head: version, entries: []hookEntry{
			{"preToolUse", map[string]any{"type": "command", "bash": before, "timeoutSec": Timeout}},
			{"postToolUse", map[string]any{"type": "command", "bash": after, "timeoutSec": afterTimeout}},
		}}
	case Cursor:
		report := map[string]any{"command": after, "timeout": afterTimeout}
		return hostHooks{flat: true, command: "command", head: version, entries: []hookEntry{
			{"preToolUse", map[string]any{"command": before, "timeout": Timeout, "failClosed": true}},
			{"postToolUse", report},
			{"postToolUseFailure", report},
		}}
	case ClaudeCode, Codex, OpenCode:
	}
	report := map[string]any{"type": "command", "command": after, "timeout": afterTimeout}
	return hostHooks{command: "command", entries: []hookEntry{
		{"PreToolUse", map[string]any{"type": "command", "command": before, "timeout": Timeout, "onFailure": "block"}},
		{"PostToolUse", report},
		{"PostToolUseFailure", report},
	}}
}

// element returns an entry as an element of the list.
func (h *hostHooks) element(entry hookEntry) any {
	if h.flat {
		return entry.hook
	}
	return map[string]any{"hooks": []any{entry.hook}}
}

// listHooks returns the hooks of an element of the list.
func (h *hostHooks) listHooks(element json.RawMessage) []map[string]any {
	var one map[string]any
	if json.Unmarshal(element, &one) != nil {
		return nil
	}
	if h.flat {
		return []map[string]any{one}
	}
	inner, _ := one["hooks"].([]any)
	var hooks []map[string]any
	for _, hook := range inner {
		if members, ok := hook.(map[string]any); ok {
			hooks = append(hooks, members)
		}
	}
	return hooks
}

// isOurElement returns a function that reports whether an element of the list is the guard's alone.
func (h *hostHooks) isOurElement(host Host) func(json.RawMessage) bool {
	return func(element json.RawMessage) bool {
		hooks := h.listHooks(element)
		for _, hook := range hooks {
			if command, ok := hook[h.command].(string); !ok || !isOurCommand(host, command) {
				return false
			}
		}
		return len(hooks) > 0
	}
}

// Install returns the edits that put the hook into the host's files. They include the record of the guard, and take out what an earlier guard
// of the same host wrote. Nothing is written yet.
func (g *Guard) Install(ctx context.Context, m *Machine) ([]*Edit, error) {
	path := m.File(g.Host, g.Managed)
	old, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	edit := &Edit{Path: path, Old: old, Mode: 0o644, Owner: -1}
	if !g.Managed {
		edit.Mode = 0o600
	}
	earlier, err := ReadRecord(m, g.Host, g.Managed)
	if err != nil {
		return nil, err
	}
	if earlier != nil {
		g.Added = earlier.Added
	}
	switch g.Host {
	case Codex:
		var settings []tomlSetting
		if g.Managed {
			settings = []tomlSetting{
				{"", "allow_managed_hooks_only", true},
				{"features", "hooks", true},
				{"features", "unified_exec", false},
				{"hooks", "managed_dir", m.Folder(true)},
			}
		}
		edit.New, err = editTOML(old, settings, []tomlHook{{"PreToolUse", g.Command(), Timeout}, {"PostToolUse", g.afterCommand(), afterTimeout}})
	case OpenCode:
		if old != nil && !strings.Contains(string(old), pluginMark) {
			return nil, fmt.Errorf("%s: must be the guard's plugin, and is another one: move it", path)
		}
		edit.New, err = g.readPlugin(ctx)
	case ClaudeCode, Gemini, Copilot, Cursor:
		edit.New, err = g.installJSON(old)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	record, err := g.editRecord(m)
	if err != nil {
		return nil, err
	}
	edits := []*Edit{record, edit} // in this order: without the hook, status says that it is gone
	if g.Host == Gemini && g.Managed {
		policy, err := g.editPolicy(m)
		if err != nil {
			return nil, err
		}
		edits = append(edits, policy)
	}
	if g.Host == OpenCode && g.Managed {
		list, err := editPluginList(m, true)
		if err != nil {
			return nil, err
		}
		edits = append(edits, list)
	}
	watchKey, err := g.editWatchKey(m, earlier == nil || earlier.ID != g.ID)
	if err != nil {
		return nil, err
	}
	return g.appendUnit(m, append(edits, watchKey), false)
}

// appendUnit adds the edit of the watcher's service, if there is one.
func (g *Guard) appendUnit(m *Machine, edits []*Edit, isRemoved bool) ([]*Edit, error) {
	unit, err := g.editUnit(m, isRemoved)
	if unit != nil {
		edits = append(edits, unit)
	}
	return edits, err
}

func (g *Guard) installJSON(old []byte) ([]byte, error) {
	hooks := g.hostHooks()
	file, err := parseJSON(old, hooks.comments)
	if err != nil {
		return nil, err
	}
	for name, value := range hooks.head {
		if file.find(name) == nil {
			if err := file.put(value, name); err != nil {
				return nil, err
			}
		}
	}
	if g.Host == ClaudeCode && g.Managed {
		if err := g.requireVersion(file); err != nil {
			return nil, err
		}
		if err := g.requireManagedOnly(file); err != nil {
			return nil, err
		}
	}
	for _, entry := range hooks.entries {
		list := []string{"hooks", entry.event}
		same, err := g.hasExactly(file, &hooks, entry)
		if err != nil {
			return nil, err
		}
		if same {
			continue
		}
		file.removeElements(hooks.isOurElement(g.Host), list...)
		if err := file.add(hooks.element(entry), list...); err != nil {
			return nil, err
		}
	}
	if g.Host == ClaudeCode {
		if problems := file.checkClaudeCode(); len(problems) > 0 {
			return nil, fmt.Errorf("%s: with an invalid value, Claude Code drops all hooks of the file, or does not start", strings.Join(problems, "; "))
		}
	}
	text := file.text()
	if _, err := parseJSON(text, hooks.comments); err != nil {
		return nil, fmt.Errorf("after the edit: %w", err)
	}
	return text, nil
}

// requireVersion makes versions of Claude Code refuse to start that run tools when a hook fails.
func (g *Guard) requireVersion(file *jsonFile) error {
	var present string
	found, err := file.decode(&present, minimumSetting)
	switch {
	case err != nil:
		return err
	case found && compareVersions(present, minimumClaudeCode) < 0:
		return fmt.Errorf("%s: must be at least %s, and is %s: older versions run tools when a hook fails", minimumSetting, minimumClaudeCode, present)
	case !found:
		return g.addSetting(file, minimumClaudeCode, minimumSetting)
	}
	return nil
}

// requireManagedOnly leaves out the hooks of users and projects.
func (g *Guard) requireManagedOnly(file *jsonFile) error {
	var present bool
	found, err := file.decode(&present, managedOnlySetting)
	switch {
	case err != nil:
		return err
	case found && !present:
		return fmt.Errorf("%s: must be true, and is false: a hook of a user could change arguments after Holdpoint saw them", managedOnlySetting)
	case !found:
		return g.addSetting(file, true, managedOnlySetting)
	}
	return nil
}

// addSetting adds a setting, which removing the guard takes out again.
func (g *Guard) addSetting(file *jsonFile, value any, name string) error {
	if !slices.Contains(g.Added, name) {
		g.Added = append(slices.Clone(g.Added), name)
	}
	return file.put(value, name)
}

// hasExactly reports whether a list has the guard's hook once, as it is written now.
func (g *Guard) hasExactly(file *jsonFile, hooks *hostHooks, entry hookEntry) (bool, error) {
	var present []json.RawMessage
	if _, err := file.decode(&present, "hooks", entry.event); err != nil {
		return false, fmt.Errorf("hooks.%s: must be a list", entry.event)
	}
	want := file.makeValue(hooks.element(entry), 0)
	want.Minimize()
	ours, same := 0, false
	for _, one := range present {
		if hooks.isOurElement(g.Host)(one) {
			ours++
			same = equalJSON(one, want.Pack())
		}
	}
	return ours == 1 && same, nil
}

// Remove returns the edits that take out what the guard wrote, and nothing else. The key goes too.
func Remove(m *Machine, host Host, managed bool) ([]*Edit, error) {
	record, err := ReadRecord(m, host, managed)
	if err != nil {
		return nil, err
	}
	path := m.File(host, managed)
	old, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	edit := &Edit{Path: path, Old: old, New: old}
	g := &Guard{Host: host, Managed: managed}
	if record != nil {
		g = record
	}
	switch {
	case old == nil:
	case host == Codex:
		if edit.New, err = removeTOML(old); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	case host == OpenCode:
		if strings.Contains(string(old), pluginMark) {
			edit.New = nil
		}
	default:
		if edit.New, err = g.removeJSON(old); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	edits := []*Edit{edit}
	if host == OpenCode && managed {
		list, err := editPluginList(m, false)
		if err != nil {
			return nil, err
		}
		edits = append(edits, list)
	}
	remove := func(path string, secret bool) error {
		text, err := readFile(path)
		if err != nil || text == nil {
			return err
		}
		edits = append(edits, &Edit{Path: path, Old: text, Secret: secret})
		return nil
	}
	if host == Gemini && managed {
		if text, err := readFile(m.policyFile()); err != nil {
			return nil, err
		} else if strings.Contains(string(text), policyMark) {
			edits = append(edits, &Edit{Path: m.policyFile(), Old: text})
		}
	}
	if record != nil && filepath.Dir(record.KeyFile) == m.Folder(managed) {
		if err := remove(record.KeyFile, true); err != nil {
			return nil, err
		}
	}
	if err := remove(watchKeyFile(m, host, managed), true); err != nil {
		return nil, err
	}
	if err := remove(recordFile(m, host, managed), false); err != nil {
		return nil, err
	}
	return g.appendUnit(m, edits, true)
}

func (g *Guard) removeJSON(old []byte) ([]byte, error) {
	hooks := g.hostHooks()
	file, err := parseJSON(old, hooks.comments)
	if err != nil {
		return nil, err
	}
	removed := 0
	for _, entry := range hooks.entries {
		removed += file.removeElements(hooks.isOurElement(g.Host), "hooks", entry.event)
	}
	for _, name := range g.Added {
		var present any
		if found, err := file.decode(&present, name); found && err == nil && (present == minimumClaudeCode || present == true) {
			file.remove(name)
			removed++
		}
	}
	for _, entry := range hooks.entries {
		var left []json.RawMessage
		if _, err := file.decode(&left, "hooks", entry.event); err != nil {
			continue // no list
		}
		for _, element := range left {
			for _, hook := range hooks.listHooks(element) {
				if command, _ := hook[hooks.command].(string); isOurCommand(g.Host, command) {
					return nil, fmt.Errorf("hooks.%s: has the guard's hook in one group with another hook: take it out yourself", entry.event)
				}
			}
		}
	}
	if removed == 0 {
		return old, nil
	}
	if object, ok := file.root.Value.(*hujson.Object); ok && file.find("hooks") == nil && len(object.Members) <= len(hooks.head) && len(bytes.TrimSpace(object.AfterExtra)) == 0 { // only what a new file has
		return nil, nil
	}
	return file.text(), nil
}

func recordFile(m *Machine, host Host, managed bool) string {
	return filepath.Join(m.Folder(managed), string(host)+".json")
}

// ReadRecord reads what the guard wrote down about itself. Without a record it returns nil.
func ReadRecord(m *Machine, host Host, managed bool) (*Guard, error) {
	path := recordFile(m, host, managed)
	text, err := readFile(path)
	if err != nil || text == nil {
		return nil, err
	}
	g := &Guard{}
	if err := json.Unmarshal(text, g); err != nil {
		return nil, fmt.Errorf("%s: must be the record of a guard: %w", path, err)
	}
	if g.Host != host || g.Managed != managed {
		return nil, fmt.Errorf("%s: must be the record of the guard of %s", path, host)
	}
	return g, nil
}

func (g *Guard) editRecord(m *Machine) (*Edit, error) {
	path := recordFile(m, g.Host, g.Managed)
	old, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	return &Edit{Path: path, Old: old, New: append(text, '\n'), Mode: 0o644, Owner: -1}, nil
}

// EditKey returns the edit that stores the agent's key for the user alone who runs the host.
func (g *Guard) EditKey(key string) (*Edit, error) {
	old, err := readFile(g.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", g.KeyFile, err)
	}
	return &Edit{Path: g.KeyFile, Old: old, New: []byte(key + "\n"), Mode: 0o400, Owner: g.Owner, Secret: true}, nil
}

// CheckProgram refuses a program that the user who runs the host could replace.
func (g *Guard) CheckProgram() error {
	if !filepath.IsAbs(g.Program) {
		return fmt.Errorf("program %s: must be an absolute path", g.Program)
	}
	info, err := os.Stat(g.Program)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("program %s: must be executable", g.Program)
	}
	if !g.Managed {
		return nil
	}
	var problems []string
	if !isRootAlone(info) {
		problems = append(problems, "must belong to root and be writable by root alone, because it decides about calls")
	}
	straight, err := filepath.EvalSymlinks(g.Program)
	if err != nil {
		return err
	}
	if straight != g.Program {
		problems = append(problems, "must be a path without links, such as "+straight)
	}
	for folder := filepath.Dir(straight); ; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if err != nil {
			return err
		}
		if !isRootAlone(info) {
			problems = append(problems, "its folder "+folder+" must belong to root and be writable by root alone")
		}
		if folder == filepath.Dir(folder) {
			break
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("program %s: %s", g.Program, strings.Join(problems, "; "))
	}
	return nil
}

// isRootAlone reports whether root alone can change a file or folder.
func isRootAlone(info fs.FileInfo) bool {
	owner, _ := ownerOf(info)
	return owner <= 0 && info.Mode().Perm()&0o022 == 0
}

// The mark in the guard's file of policies for Gemini.
const policyMark = "# Holdpoint guard"

// editPolicy writes or removes the policies that take Gemini's built-in tools away.
func (g *Guard) editPolicy(m *Machine) (*Edit, error) {
	path := m.policyFile()
	old, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	edit := &Edit{Path: path, Old: old, New: old, Mode: 0o644, Owner: -1}
	switch {
	case old != nil && !strings.Contains(string(old), policyMark):
		return nil, fmt.Errorf("%s: must be the guard's file, and is another one: move it", path)
	case g.Policy:
		edit.New = []byte(policyMark + `: Gemini does not offer these tools to its model.
[[rule]]
toolName = ["run_shell_command", "write_file", "replace", "web_fetch"]
decision = "deny"
priority = 999
`)
	default:
		edit.New = nil
	}
	return edit, nil
}

// equalJSON reports whether two texts are the same JSON value.
func equalJSON(a, b []byte) bool {
	var one, other any
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return false
	}
	left, err := json.Marshal(one)
	right, otherErr := json.Marshal(other)
	return errors.Join(err, otherErr) == nil && string(left) == string(right)
}

// compareVersions compares versions such as 2.1.295 by their numbers. What is no number counts as 0.
func compareVersions(a, b string) int {
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(left), len(right)) {
		var x, y int
		if i < len(left) {
			_, _ = fmt.Sscanf(left[i], "%d", &x)
		}
		if i < len(right) {
			_, _ = fmt.Sscanf(right[i], "%d", &y)
		}
		if x != y {
			return x - y
		}
	}
	return 0
}
