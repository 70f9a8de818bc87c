package guard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
)

func wantFinding(t *testing.T, findings []guard.Finding, broken bool, want string) {
	t.Helper()
	for _, f := range findings {
		if f.Broken == broken && strings.Contains(f.String(), want) {
			return
		}
	}
	t.Errorf("no finding says %q (broken: %v): %v", want, broken, findings)
}

// Each way in which the hook can be taken away, or made to let calls pass, is found.
func TestCheckFindsWhatTurnsHooksOff(t *testing.T) {
	t.Parallel()
	const machine, user = true, false
	replace := func(old, now string) func(*world, string) {
		return func(w *world, path string) {
			w.Helper()
			text := w.read(path)
			if !strings.Contains(text, old) {
				w.Fatalf("%s has no %q:\n%s", path, old, text)
			}
			w.must(os.Chmod(path, 0o600))
			w.write(path, strings.Replace(text, old, now, 1))
		}
	}
	write := func(place func(*world) string, text string) func(*world, string) {
		return func(w *world, _ string) { w.write(place(w), text) }
	}
	home := func(name string) func(*world) string {
		return func(w *world) string { return filepath.Join(w.Home, name) }
	}
	project := func(name string) func(*world) string {
		return func(w *world) string { return filepath.Join(w.Work, name) }
	}
	root := func(name string) func(*world) string {
		return func(w *world) string { return filepath.Join(w.Root, name) }
	}
	setenv := func(name, value string) func(*world, string) {
		return func(w *world, _ string) { w.env[name] = value }
	}
	remove := func(w *world, path string) { w.Helper(); w.must(os.Remove(path)) }
	for _, c := range []struct {
		host    guard.Host
		managed bool
		do      func(w *world, path string)
		broken  bool
		want    string
	}{
		{guard.ClaudeCode, machine, remove, true, "the hook is gone: the file does not exist"},
		{guard.ClaudeCode, user, replace("PreToolUse", "PreToolUsed"), true, "the hook is gone"},
		{guard.ClaudeCode, user, replace("exit 2", "exit 0"), true, "the hook is altered: command must be"},
		{guard.ClaudeCode, user, replace(`"onFailure": "block"`, `"onFailure": "allow"`), true, "onFailure must be block, and is allow"},
		{guard.ClaudeCode, user, replace(`"timeout": 86400`, `"timeout": 0`), true, "timeout must be 86400, and is 0"},
		{guard.ClaudeCode, user, replace(`"timeout": 86400`, "\"timeout\": 86400,\n\"async\": true"), true, "it must have no async"},
		{guard.ClaudeCode, user, replace(`"PreToolUse": [`, `"PreToolUse": [{"matcher":"Bash","hooks":[]},`), false, ""},
		{guard.ClaudeCode, user, replace(`"PreToolUse": [`, `"PreToolUse": [{"hooks":[{"type":"command","command":"lint"}]},`), false, "1 other hooks"},
		{guard.ClaudeCode, user, replace(`{`, `{ "env": {"A": 1},`), true, "env must be texts by name"},
		{guard.ClaudeCode, user, replace(`{`, `{ "permissions": {"allow": "Bash"},`), true, "permissions.allow must be a list of texts"},
		{guard.ClaudeCode, user, replace(`{`, `{ "disableAllHooks": true,`), true, "disableAllHooks turns hooks off"},
		{guard.ClaudeCode, user, write(project(".claude/settings.local.json"), `{"disableAllHooks": true}`), true, "disableAllHooks turns hooks off"},
		{guard.ClaudeCode, machine, write(project(".claude/settings.json"), `{"disableAllHooks": true}`), false, "disableAllHooks"},
		{guard.ClaudeCode, machine, write(root("etc/claude-code/managed-settings.d/x.json"), `{"disableAllHooks": true}`), true, "disableAllHooks turns hooks off"},
		{guard.ClaudeCode, machine, write(root("etc/claude-code/managed-settings.d/x.json"), `{"allowManagedHooksOnly": false}`), true, "x.json: allowManagedHooksOnly must be true"},
		{guard.ClaudeCode, user, write(root("etc/claude-code/managed-settings.json"), `{"allowManagedHooksOnly": true}`), true, "install the guard as root"},
		{guard.ClaudeCode, user, func(w *world, _ string) { w.install(w.guard(guard.ClaudeCode, true)) }, false, "the machine's guard counts, so remove this one"},
		{guard.ClaudeCode, machine, replace("\"allowManagedHooksOnly\": true", "\"allowManagedHooksOnly\": false"), true, "allowManagedHooksOnly must be true"},
		{guard.ClaudeCode, machine, replace("\"allowManagedHooksOnly\": true", "\"model\": \"x\""), true, "allowManagedHooksOnly must be true"},
		{guard.ClaudeCode, machine, replace("2.1.295", "2.1.200"), true, "requiredMinimumVersion must be at least 2.1.295"},
		{guard.ClaudeCode, user, setenv("CLAUDE_CODE_SIMPLE", "1"), true, "CLAUDE_CODE_SIMPLE is set"},
		{guard.Codex, machine, replace("allow_managed_hooks_only = true", "allow_managed_hooks_only = false"), true, "allow_managed_hooks_only must be true"},
		{guard.Codex, machine, replace("unified_exec = false", "unified_exec = true"), true, "write_stdin fires no hook"},
		{guard.Codex, machine, replace("hooks = true", "hooks = false"), true, "features.hooks must be true"},
		{guard.Codex, machine, replace("timeout = 86400", "timeout = 1"), true, "timeout must be 86400, and is 1"},
		{guard.Codex, user, replace("[[hooks.PreToolUse]]", "[features]\nhooks = false\n[[hooks.PreToolUse]]"), true, "features.hooks turns hooks off"},
		{guard.Codex, user, replace("[[hooks.PreToolUse]]", "[[hooks.PreToolUse]]\nmatcher = \"Edit\""), true, "it must have no matcher"},
		{guard.Codex, user, write(root("etc/codex/requirements.toml"), "allow_managed_hooks_only = true"), true, "install the guard as root"},
		{guard.Codex, user, func(*world, string) {}, true, "no hook is trusted yet"},
		{guard.Gemini, machine, write(home(".gemini/settings.json"), `{"hooksConfig": {"disabled": ["holdpoint"]}}`), true, "hooksConfig.disabled turns the hook off"},
		{guard.Gemini, machine, write(project(".gemini/settings.json"), `{"hooksConfig": {"enabled": false}}`), true, "hooksConfig.enabled turns hooks off"},
		{guard.Gemini, machine, setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "/dev/null"), true, "Gemini reads /dev/null"},
		{guard.Gemini, user, replace(`"timeout": 86400000`, `"timeout": 86400000000`), true, "timeout must be"},
		{guard.Copilot, user, write(home(".copilot/config.json"), "// comment\n{\"disableAllHooks\": true}"), true, "disableAllHooks turns hooks off"},
		{guard.Copilot, machine, replace(`"timeoutSec": 86400`, `"timeoutSec": "1"`), true, "timeoutSec must be 86400"},
		{guard.OpenCode, user, replace("--url=https://holdpoint", "--url=https://evil"), true, "the hook is altered"},
		{guard.OpenCode, machine, remove, true, "the hook is gone"},
		{guard.Cursor, machine, replace(`"failClosed": true`, `"failClosed": false`), true, "failClosed must be true"},
	} {
		t.Run(fmt.Sprintf("%s %v %s", c.host, c.managed, c.want), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.guard(c.host, c.managed)
			w.install(g)
			c.do(w, w.File(c.host, c.managed))
			findings := g.Check(w.Machine)
			if c.want == "" {
				if isBroken(findings) {
					t.Errorf("broken: %v", findings)
				}
				return
			}
			wantFinding(t, findings, c.broken, c.want)
			if !c.broken && isBroken(findings) {
				t.Errorf("broken: %v", findings)
			}
		})
	}
}

func TestCheckKeyAndProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.guard(guard.ClaudeCode, true)
	w.install(g)
	w.must(os.Chmod(g.KeyFile, 0o644))
	w.must(os.Chmod(w.program, 0o777))
	w.must(os.Chmod(filepath.Dir(w.program), 0o777))
	findings := g.Check(w.Machine)
	wantFinding(t, findings, true, "must be readable by its owner only, and has mode 0644")
	wantFinding(t, findings, true, "must belong to root and be writable by root alone, because it decides")
	wantFinding(t, findings, true, "its folder "+filepath.Dir(w.program)+" must belong to root and be writable by root alone")
	link := filepath.Join(w.Work, "link")
	w.must(os.Symlink("/bin/sh", link))
	g.Program = link
	wantFinding(t, g.Check(w.Machine), true, "must be a path without links, such as /")
	w.must(os.Remove(g.KeyFile))
	wantFinding(t, g.Check(w.Machine), true, "every call is refused")
}

// The canary is the command from the host's file, run with the host's message. Only the server's own refusal counts.
func TestCanary(t *testing.T) {
	t.Parallel()
	refusal := `cat > message; echo '{"reason":"` + guard.CanaryMessage + `"}'; echo '` + guard.CanaryMessage + `' >&2; exit 2`
	for _, c := range []struct{ script, want string }{
		{refusal, ""},
		{"echo '{\"decision\":\"allow\"}'", "the canary passed"},
		{"echo 'the server is away' >&2; exit 2", "cannot ask the server: the server is away"},
		{"exit 1", "cannot ask the server: Holdpoint: hook failed"},
		{`echo '` + guard.CanaryMessage + `' >&2; exit 2`, "cannot ask the server"}, // nothing on the standard output
	} {
		for _, host := range guard.Hosts() {
			if host == guard.OpenCode && c.script != refusal {
				continue
			}
			w := newWorld(t)
			g := w.guard(host, false)
			w.install(g)
			w.setProgram(c.script)
			findings := g.Canary(t.Context(), w.Machine)
			if c.want != "" {
				wantFinding(t, findings, true, c.want)
				continue
			}
			if isBroken(findings) {
				t.Errorf("%s: %v", host, findings)
			}
			var message map[string]any
			w.must(json.Unmarshal([]byte(w.read(filepath.Join(w.Work, "message"))), &message))
			if text := fmt.Sprint(message); !strings.Contains(text, guard.CanaryText) || message["cwd"] != w.Work {
				t.Errorf("%s: the hook got %v", host, message)
			}
		}
	}
}

// What is run is the command in the host's file, and not the one that the guard would write.
func TestCanaryRunsTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.guard(guard.ClaudeCode, false)
	w.install(g)
	path := w.File(guard.ClaudeCode, false)
	w.write(path, strings.ReplaceAll(w.read(path), w.program+" hook", "true holdpoint hook"))
	wantFinding(t, g.Canary(t.Context(), w.Machine), true, "the canary passed")
}

// Root's watcher reads files of users. None of them keeps it from reading, or makes it take much memory.
func TestCheckReadsFilesOfUsers(t *testing.T) {
	t.Parallel()
	for want, replace := range map[string]func(path string) error{
		"must be a regular file":              func(path string) error { return os.Symlink(os.DevNull, path) },
		"must have at most 1048576 bytes":     func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 4<<20)) },
		"parsing comment: unexpected EOF":     func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("/*["), 300_000), 0o600) },
		"must nest lists and objects at most": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte(`[/*"]*/`), 2000), 0o600) },
	} {
		w := newWorld(t)
		g := w.guard(guard.Gemini, true)
		w.install(g)
		path := filepath.Join(w.Home, ".gemini", "settings.json")
		w.must(os.MkdirAll(filepath.Dir(path), 0o700))
		w.must(replace(path))
		wantFinding(t, g.Check(w.Machine), false, want)
	}
}

// A hook that someone altered does not get the token of the operator who checks it.
func TestCanaryHasNoToken(t *testing.T) {
	t.Setenv("HOLDPOINT_TOKEN", "s3cret")
	w := newWorld(t)
	g := w.guard(guard.ClaudeCode, false)
	w.install(g)
	path := w.File(guard.ClaudeCode, false)
	w.write(path, strings.Replace(w.read(path), "/usr/bin/env -i", "/usr/bin/env", 1))
	w.setProgram(`echo "token: $HOLDPOINT_TOKEN." >&2; exit 2`)
	wantFinding(t, g.Canary(t.Context(), w.Machine), true, "token: .")
}
