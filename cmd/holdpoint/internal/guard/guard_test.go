package guard_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
)

// world is a machine with a folder as its root, and a program that stands in for holdpoint.
type world struct {
	*testing.T
	*guard.Machine
	env     map[string]string
	program string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{T: t, env: map[string]string{}, program: filepath.Join(dir, "holdpoint")}
	w.Machine = &guard.Machine{
		Root: filepath.Join(dir, "root"), Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work"),
		Getenv: func(name string) string { return w.env[name] },
	}
	for _, folder := range []string{w.Root, w.Home, w.Work} {
		w.must(os.MkdirAll(folder, 0o755))
	}
	w.setProgram("exit 1")
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// setProgram replaces the program with a script.
func (w *world) setProgram(script string) {
	w.Helper()
	syscall.ForkLock.RLock() // a process that is forked now would keep the file open, and it could not be run
	defer syscall.ForkLock.RUnlock()
	w.must(os.WriteFile(w.program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

func (w *world) write(path, text string) {
	w.Helper()
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(text), 0o640))
}

func (w *world) read(path string) string {
	w.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "(no file)"
	}
	w.must(err)
	return string(text)
}

func (w *world) guard(host guard.Host, managed bool) *guard.Guard {
	return &guard.Guard{
		Host: host, Managed: managed, Program: w.program, URL: "https://holdpoint.example.com", Agent: "laptop", Skill: string(host), Wait: "20m0s", Owner: -1,
		KeyFile: filepath.Join(w.Folder(managed), string(host)+".key"),
	}
}

// pluginScript stands in for holdpoint, which writes OpenCode's plugin.
const pluginScript = `shift; printf '// Holdpoint'"'"'s plugin for OpenCode, for tests\nconst command = ["holdpoint","hook"'
host=$1; shift; printf ',"%s"' "$host"
while [ $# -gt 1 ]; do printf ',"%s=%s"' "$1" "$2"; shift 2; done
printf ']\n'`

// install installs a guard with its key.
func (w *world) install(g *guard.Guard) {
	w.Helper()
	if g.Host == guard.OpenCode {
		w.setProgram(pluginScript)
	}
	edits, err := g.Install(w.Context(), w.Machine)
	w.must(err)
	key, err := g.EditKey("hp_key")
	w.must(err)
	for _, edit := range append(edits, key) {
		w.must(edit.Write())
	}
}

func (w *world) remove(host guard.Host, managed bool) {
	w.Helper()
	edits, err := guard.Remove(w.Machine, host, managed)
	w.must(err)
	for _, edit := range edits {
		w.must(edit.Write())
	}
}

// Whatever happens to the hook, the command ends with 0 or 2, and with 2 there is a reason.
func TestCommandFailsClosed(t *testing.T) {
	t.Parallel()
	const refused, failed = "Holdpoint: call refused\n", "Holdpoint: hook failed\nHoldpoint: call refused\n"
	for _, c := range []struct {
		name, script string
		code         int
		stderr       string
	}{
		{"allows", "echo '{}'; exit 0", 0, ""},
		{"refuses", "echo no >&2; exit 2", 2, "no\n" + refused},
		{"refuses without a word", "exit 2", 2, refused},
		{"fails", "exit 1", 2, failed},
		{"unknown code", "exit 77", 2, failed},
		{"is killed", "kill -9 $$", 2, failed},
		{"is missing", "", 2, failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.setProgram(c.script)
			if c.script == "" {
				w.must(os.Remove(w.program))
			}
			code, stderr := runShell(t, w.guard(guard.ClaudeCode, false).Command())
			// Shells say before it that a program was killed or is missing.
			if code != c.code || !strings.HasSuffix(stderr, c.stderr) || c.script != "" && c.name != "is killed" && stderr != c.stderr {
				t.Errorf("ended with %d and %q, want %d and %q", code, stderr, c.code, c.stderr)
			}
		})
	}
}

func runShell(t *testing.T, command string, env ...string) (int, string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	run.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	err := run.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return run.ProcessState.ExitCode(), stderr.String()
}

// The agent may set variables for its hooks. None of them reaches the hook, and no text in the settings is read by the shell.
func TestCommandHidesTheEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := filepath.Join(w.Work, "out")
	w.setProgram(`{ env; printf '%s\n' "$@"; } > ` + out)
	g := w.guard(guard.Codex, false)
	g.Agent = `a'b $(touch ` + filepath.Join(w.Work, "ran") + `)`
	if code, stderr := runShell(t, g.Command(), "HOLDPOINT_URL=http://evil", "HTTPS_PROXY=http://evil", "LD_AUDIT=evil"); code != 0 {
		t.Fatalf("ended with %d: %s", code, stderr)
	}
	said := w.read(out)
	if strings.Contains(said, "evil") || !strings.Contains(said, g.Agent+"\n") || !strings.Contains(said, "--url\nhttps://holdpoint.example.com\n") {
		t.Errorf("the hook got:\n%s", said)
	}
	if w.read(filepath.Join(w.Work, "ran")) != "(no file)" {
		t.Error("a part of a setting was run")
	}
}

// isBroken is [guard.IsBroken], apart from what tests cannot have: trust of Codex in the hook of a user, folders of root alone, and, unless they
// run as root, a program that belongs to root.
func isBroken(findings []guard.Finding) bool {
	return guard.IsBroken(slices.DeleteFunc(slices.Clone(findings), func(f guard.Finding) bool {
		return strings.Contains(f.Text, "no hook is trusted yet") || strings.Contains(f.Text, "must belong to root") && (os.Geteuid() != 0 || !strings.Contains(f.Text, "because it decides"))
	}))
}

func allScopes(t *testing.T, run func(t *testing.T, host guard.Host, managed bool)) {
	t.Helper()
	for _, host := range guard.Hosts() {
		for scope, managed := range map[string]bool{"machine": true, "user": false} {
			t.Run(string(host)+" "+scope, func(t *testing.T) {
				t.Parallel()
				run(t, host, managed)
			})
		}
	}
}

// On a machine without files, installing makes them, installing again changes nothing, and removing leaves nothing.
func TestInstallAndRemove(t *testing.T) {
	t.Parallel()
	allScopes(t, func(t *testing.T, host guard.Host, managed bool) {
		w := newWorld(t)
		g := w.guard(host, managed)
		w.install(g)
		if findings := g.Check(w.Machine); isBroken(findings) {
			t.Errorf("after the installation: %v\n%s", findings, w.read(w.File(host, managed)))
		}
		again := *g
		edits, err := again.Install(w.Context(), w.Machine)
		w.must(err)
		for _, edit := range edits {
			if edit.Changes() {
				t.Errorf("installing again changes %s:\n%s", edit.Path, edit.Diff())
			}
		}
		w.remove(host, managed)
		if findings := g.Check(w.Machine); !isBroken(findings) {
			t.Error("nothing is broken after the hook was removed")
		}
		left := 0
		w.must(filepath.Walk(filepath.Dir(w.Root), func(path string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() && path != w.program {
				t.Logf("left: %s\n%s", path, w.read(path))
				left++
			}
			return err
		}))
		if left > 0 {
			t.Errorf("%d files are left", left)
		}
	})
}

// TestOpenCodeSettings adds the plugin to OpenCode's settings of the machine, which loads no others, and keeps the rest.
func TestOpenCodeSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.guard(guard.OpenCode, true)
	path := filepath.Join(w.Root, "etc/opencode/opencode.json")
	const before = "{\n  // mine\n  \"plugin\": [\"file:///opt/other.js\"],\n  \"share\": \"disabled\"\n}\n"
	w.write(path, before)
	w.install(g)
	if text := w.read(path); !strings.Contains(text, "file://"+w.File(guard.OpenCode, true)) || !strings.Contains(text, "/opt/other.js") {
		t.Errorf("installed: %s", text)
	}
	w.write(path, before)
	if !isBroken(g.Check(w.Machine)) {
		t.Error("nothing is broken although OpenCode does not load the plugin")
	}
	w.install(g)
	w.remove(guard.OpenCode, true)
	if text := w.read(path); text != before {
		t.Errorf("removed: %s", text)
	}
}

// present are files that hosts may have already, written as people write them.
var present = map[guard.Host]string{
	guard.ClaudeCode: "{\n    \"model\": \"opus\",\n    \"zeta\": 1e2,\n    \"hooks\": {\n        \"Stop\": [],\n        \"PreToolUse\": [\n            {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"lint\"}]}\n        ]\n    },\n    \"alpha\": \"<&>\"\n}\n",
	guard.Codex:      "# mine\nmodel = \"o9\" # a comment\n\n[features]\nweb = true\n\n[[hooks.PreToolUse]]\nmatcher = \"Bash\"\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"lint\"\n\n[mcp_servers.x]\nurl = \"https://x\"\n",
	guard.Gemini:     "{\n  // mine\n  \"theme\": \"dark\", /* keep */\n  \"hooks\": {\n    // before\n    \"BeforeTool\": [\n      { \"hooks\": [{ \"type\": \"command\", \"command\": \"lint\" }] } // last\n    ]\n  }\n}\n",
	guard.Cursor:     "{\"version\": 1, \"hooks\": {\"preToolUse\": [{\"command\": \"lint\"}]}}\n",
}

// Everything else in a file stays as it was, byte for byte, also after the guard was removed.
func TestInstallKeepsTheRest(t *testing.T) {
	t.Parallel()
	allScopes(t, func(t *testing.T, host guard.Host, managed bool) {
		text, ok := present[host]
		if !ok {
			return
		}
		w := newWorld(t)
		path := w.File(host, managed)
		w.write(path, text)
		g := w.guard(host, managed)
		w.install(g)
		installed := w.read(path)
		if findings := g.Check(w.Machine); isBroken(findings) {
			t.Errorf("after the installation: %v\n%s", findings, installed)
		}
		for line := range strings.SplitSeq(strings.NewReplacer("{", "\n", "}", "\n", ",", "\n", "[", "\n", "]", "\n").Replace(text), "\n") {
			if line = strings.TrimSpace(line); !strings.Contains(installed, line) {
				t.Errorf("%q is gone:\n%s", line, installed)
			}
		}
		info, err := os.Stat(path)
		w.must(err)
		if info.Mode().Perm() != 0o640 {
			t.Errorf("the mode is now %v", info.Mode())
		}
		changed := *g
		changed.URL = "https://other.example.com"
		w.install(&changed)
		if strings.Contains(w.read(path), "holdpoint.example.com") {
			t.Errorf("the earlier hook is still there:\n%s", w.read(path))
		}
		w.remove(host, managed)
		if left := w.read(path); left != text {
			t.Errorf("removing leaves\n%s\nwant\n%s", left, text)
		}
	})
}

// A file that the host would ignore or refuse is not touched.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host       guard.Host
		managed    bool
		text, want string
	}{
		{guard.ClaudeCode, false, "{\n  // a comment\n}\n", "must have no comments"},
		{guard.ClaudeCode, false, `{"a": 1,}`, "must have no comments and no comma"},
		{guard.ClaudeCode, false, `{"a": 1`, "unexpected EOF"},
		{guard.ClaudeCode, false, `{"hooks": {}, "hooks": {}}`, `must have the name "hooks" once`},
		{guard.ClaudeCode, false, `{"env": {"A": 1}}`, "env must be texts by name"},
		{guard.ClaudeCode, false, `{"hooks": {"Stop": [{"hooks": [{"type": "comand"}]}]}}`, "hooks.Stop[0].hooks[0].type must be command"},
		{guard.ClaudeCode, false, `[]`, "must be a JSON object"},
		{guard.ClaudeCode, false, `{"hooks": []}`, "hooks"},
		{guard.ClaudeCode, false, `{"hooks": {"PreToolUse": {}}}`, "hooks.PreToolUse: must be a list"},
		{guard.ClaudeCode, true, `{"allowManagedHooksOnly": false}`, "allowManagedHooksOnly: must be true, and is false"},
		{guard.ClaudeCode, true, `{"requiredMinimumVersion": "2.1.197"}`, "requiredMinimumVersion: must be at least 2.1.295, and is 2.1.197"},
		{guard.Gemini, false, `{"a": 1, /* no */}`, "no comma before a closing brace"},
		{guard.Codex, false, "a = [", "line 1"},
		{guard.Codex, false, `hooks = { PreToolUse = [] }`, "its hooks as [[hooks.EVENT]], not inline"},
		{guard.Codex, true, "allow_managed_hooks_only = false", "allow_managed_hooks_only: must be true, and is false"},
		{guard.Codex, true, "[features]\nunified_exec = true", "features.unified_exec: must be false, and is true"},
		{guard.Codex, true, "features = { web = true }", "must have its tables as [name]"},
		{guard.Copilot, false, `{"version": 1, "hooks": 3}`, "hooks"},
		{guard.OpenCode, false, "export const Other = async () => ({})\n", "must be the guard's plugin"},
	} {
		w := newWorld(t)
		path := w.File(c.host, c.managed)
		w.write(path, c.text)
		g := w.guard(c.host, c.managed)
		edits, err := g.Install(t.Context(), w.Machine)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s %q: edits %v, error %v, want %q", c.host, c.text, edits, err, c.want)
		}
		if w.read(path) != c.text {
			t.Errorf("%s: the file changed", c.host)
		}
	}
}

// The settings of Codex's requirements stay those of an administrator: only the guard's own lines go.
func TestCodexRequirements(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.File(guard.Codex, true)
	w.write(path, "allow_managed_hooks_only = true\n\n[features]\nhooks = true # ours\n")
	w.install(w.guard(guard.Codex, true))
	installed := w.read(path)
	for _, want := range []string{"hooks = true # ours\n", "unified_exec = false # Holdpoint guard\n", "managed_dir = ", "timeout = 86400\n"} {
		if !strings.Contains(installed, want) {
			t.Errorf("there is no %q:\n%s", want, installed)
		}
	}
	if strings.Count(installed, "allow_managed_hooks_only") != 1 {
		t.Errorf("twice:\n%s", installed)
	}
	// Someone adds a setting below a table that the guard made.
	w.write(path, strings.Replace(installed, "managed_dir =", "windows_managed_dir = 'C:\\x'\nmanaged_dir =", 1))
	w.remove(guard.Codex, true)
	if left := w.read(path); left != "allow_managed_hooks_only = true\n\n[features]\nhooks = true # ours\n\n[hooks]\nwindows_managed_dir = 'C:\\x'\n" {
		t.Errorf("removing leaves:\n%s", left)
	}
}

// A file that changed in the meantime is not overwritten, a link stays a link, and a key is for its owner alone.
func TestWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.Work, "settings.json")
	target := filepath.Join(w.Home, "target.json")
	w.write(target, "old")
	w.must(os.Symlink(target, path))
	edit := &guard.Edit{Path: path, Old: []byte("old"), New: []byte("new"), Mode: 0o600, Owner: -1}
	w.must(edit.Write())
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 || w.read(target) != "new" {
		t.Errorf("the link: %v %v, the target %q", info, err, w.read(target))
	}
	if err := edit.Write(); err == nil || !strings.Contains(err.Error(), "changed while it was being edited") || w.read(target) != "new" {
		t.Errorf("a second time: %v", err)
	}
	key, err := w.guard(guard.Codex, true).EditKey("hp_key")
	w.must(err)
	w.must(key.Write())
	info, err := os.Stat(key.Path)
	w.must(err)
	if info.Mode().Perm() != 0o400 || strings.Contains(key.Diff(), "hp_key") {
		t.Errorf("mode %v, shown as %s", info.Mode(), key.Diff())
	}
	files, err := os.ReadDir(w.Work)
	w.must(err)
	if len(files) != 1 {
		t.Errorf("files are left: %v", files)
	}
}

// The program that writes the plugin gets none of Holdpoint's variables, such as an operator's token.
func TestPluginWithoutVariables(t *testing.T) {
	t.Setenv("HOLDPOINT_TOKEN", "t0ken")
	w := newWorld(t)
	w.setProgram(`[ -z "$HOLDPOINT_TOKEN" ] || exit 7` + "\n" + pluginScript)
	if _, err := w.guard(guard.OpenCode, false).Install(t.Context(), w.Machine); err != nil {
		t.Error(err)
	}
}
