//go:build hosts

package hosts_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// agent is a coding agent that a test runs in folders of its own.
type agent struct {
	name string
	// write is a call that runs `echo hi > file`.
	write step
	// edit are calls that change the file note.txt, if the agent's hooks see edits.
	edit []step
	// install writes the settings of the agent, with the hook.
	install func(r *run, hook installed)
	// command runs the agent in a mode of permissions; modes has all of them, the most permissive first.
	command func(r *run, mode string) (args, env []string)
	modes   []string
}

// installed says how a hook is installed.
type installed struct {
	command string
	timeout int // in seconds
	plugin  string
}

// day is the timeout of an installed hook.
const day = 86400

// run is one run of an agent.
type run struct {
	t       testing.TB
	agent   agent
	home    string
	project string
	model   *model
	output  bytes.Buffer
	process *exec.Cmd
	ended   chan error
	resume  []string // the command line that continues an earlier run
}

func newRun(t testing.TB, a agent, m *model) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{t: t, agent: a, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), model: m}
	for _, folder := range []string{r.home, r.project} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.writeFile(filepath.Join(r.project, "note.txt"), "old\n")
	return r
}

func (r *run) writeFile(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// ran reports whether the tool that writes the file ran.
func (r *run) ran() bool {
	_, err := os.Stat(filepath.Join(r.project, "file"))
	return err == nil
}

// edited reports whether the note was changed.
func (r *run) edited() bool {
	text, err := os.ReadFile(filepath.Join(r.project, "note.txt"))
	return err != nil || string(text) != "old\n"
}

// start starts the agent.
func (r *run) start(mode string) {
	r.t.Helper()
	args, env := r.agent.command(r, mode)
	if r.resume != nil {
		args = r.resume
	}
	r.process = exec.Command(filepath.Join(modules, ".bin", args[0]), args[1:]...)
	r.process.Dir = r.project
	r.process.Env = append([]string{
		"HOME=" + r.home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "NO_COLOR=1", "CI=1", "LANG=C.UTF-8", "XDG_CACHE_HOME=" + filepath.Join(r.home, ".cache"),
	}, env...)
	r.process.Stdout, r.process.Stderr = &r.output, &r.output
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.process.WaitDelay = 2 * time.Second // hooks that outlive the agent hold its output
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.ended = make(chan error, 1)
	go func() { r.ended <- r.process.Wait() }()
	r.t.Cleanup(r.kill)
}

// kill ends the agent and all that it started.
func (r *run) kill() {
	_ = syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL)
	for _, pid := range findProcesses(r.home) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// wait waits until the agent ends.
func (r *run) wait() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
			r.t.Errorf("%s: %v", r.agent.name, err)
		}
	case <-time.After(3 * time.Minute):
		r.t.Fatalf("%s does not end; it printed %s; its model: %v", r.agent.name, r.output.String(), r.model.log)
	}
}

// findDescendants returns the processes that a process started, and those that these started.
func findDescendants(of int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var state string
		_, after, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(string(text), &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscan(after, &state, &parent); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	found := []int{}
	for next := []int{of}; len(next) > 0; next = next[1:] {
		found = append(found, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return found
}

// findProcesses returns the processes whose command line contains a text.
func findProcesses(text string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscanf(entry.Name(), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, pid)
		}
	}
	return found
}

func agents() []agent {
	return []agent{claudeCode(), codex(), gemini(), copilot(), openCode()}
}

func claudeCode() agent {
	return agent{
		name:  host.ClaudeCode,
		write: step{tools: []string{"Bash"}, arguments: object{"command": "echo hi > file", "description": "write"}},
		edit: []step{
			{tools: []string{"Read"}, arguments: object{"file_path": "PROJECT/note.txt"}},
			{tools: []string{"Edit"}, arguments: object{"file_path": "PROJECT/note.txt", "old_string": "old", "new_string": "new"}},
		},
		install: func(r *run, h installed) {
			hook := object{"hooks": []any{object{"type": "command", "command": h.command, "timeout": h.timeout, "onFailure": "block"}}}
			after := object{"hooks": []any{object{"type": "command", "command": h.command}}}
			r.writeFile(filepath.Join(r.home, ".claude/settings.json"), encode(object{"hooks": object{
				"PreToolUse": []any{hook}, "PostToolUse": []any{after}, "PostToolUseFailure": []any{after},
			}}))
		},
		command: func(r *run, mode string) ([]string, []string) {
			return []string{"claude", "-p", "you are the main agent: go", "--permission-mode", mode, "--output-format", "json"}, []string{
				"ANTHROPIC_BASE_URL=" + r.model.URL, "ANTHROPIC_API_KEY=sk-ant-x", "IS_SANDBOX=1", "DISABLE_AUTOUPDATER=1",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			}
		},
		modes: []string{"bypassPermissions", "acceptEdits", "default", "dontAsk", "plan"},
	}
}

func codex() agent {
	return agent{
		name:  host.Codex,
		write: step{tools: []string{"shell_command", "exec_command", "shell"}, arguments: object{"command": "echo hi > file", "cmd": "echo hi > file"}},
		edit:  []step{{tools: []string{"apply_patch"}, input: "*** Begin Patch\n*** Update File: note.txt\n@@\n-old\n+new\n*** End Patch\n"}},
		install: func(r *run, h installed) {
			config := fmt.Sprintf(`model = "gpt-5.5"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "%s/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
[features]
hooks = true
unified_exec = false
`, r.model.URL)
			for _, event := range []string{"PreToolUse", "PostToolUse"} {
				config += fmt.Sprintf("[[hooks.%s]]\n[[hooks.%s.hooks]]\ntype = \"command\"\ncommand = %s\ntimeout = %d\n", event, event, encode(h.command), h.timeout)
			}
			r.writeFile(filepath.Join(r.home, ".codex/config.toml"), config)
		},
		command: func(_ *run, mode string) ([]string, []string) {
			args := []string{"codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"}
			if mode == "yolo" {
				args = append(args, "--dangerously-bypass-approvals-and-sandbox")
			} else {
				args = append(args, "--sandbox", mode)
			}
			return append(args, "go"), []string{"FAKE_KEY=x"}
		},
		modes: []string{"yolo", "danger-full-access"},
	}
}

func gemini() agent {
	return agent{
		name:  host.Gemini,
		write: step{tools: []string{"run_shell_command"}, arguments: object{"command": "echo hi > file", "description": "write"}},
		edit: []step{{tools: []string{"replace"}, arguments: object{
			"file_path": "PROJECT/note.txt", "instruction": "change it", "old_string": "old", "new_string": "new",
		}}},
		install: func(r *run, h installed) {
			hook := []any{object{"hooks": []any{object{"name": "holdpoint", "type": "command", "command": h.command, "timeout": h.timeout * 1000}}}}
			r.writeFile(filepath.Join(r.home, ".gemini/settings.json"), encode(object{
				"security": object{"auth": object{"selectedType": "gemini-api-key"}}, "privacy": object{"usageStatisticsEnabled": false},
				"general": object{"enableAutoUpdate": false}, "hooks": object{"BeforeTool": hook, "AfterTool": hook},
			}))
		},
		command: func(r *run, mode string) ([]string, []string) {
			return []string{"gemini", "-m", "gemini-2.5-flash", "--approval-mode", mode, "-p", "go"}, []string{
				"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + r.model.URL, "GEMINI_CLI_TRUST_WORKSPACE=true",
			}
		},
		modes: []string{"yolo"},
	}
}

func copilot() agent {
	return agent{
		name:  host.Copilot,
		write: step{tools: []string{"bash"}, arguments: object{"command": "echo hi > file", "description": "write", "mode": "sync", "sessionId": "s", "initial_wait": 10}},
		install: func(r *run, h installed) {
			hook := func(command string) []any {
				return []any{object{"type": "command", "bash": command, "timeoutSec": h.timeout}}
			}
			r.writeFile(filepath.Join(r.home, ".copilot/hooks/holdpoint.json"), encode(object{"version": 1, "hooks": object{
				"preToolUse": hook(h.command), "postToolUse": hook(strings.Replace(h.command, "' hook copilot ", "' hook copilot --after ", 1)),
			}}))
		},
		command: func(r *run, mode string) ([]string, []string) {
			return []string{"copilot", "-p", "go", mode}, []string{
				"COPILOT_PROVIDER_BASE_URL=" + r.model.URL + "/v1", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_API_KEY=x", "COPILOT_MODEL=gpt-5",
				"COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false",
			}
		},
		modes: []string{"--yolo", "--allow-all-tools"},
	}
}

func openCode() agent {
	return agent{
		name:  host.OpenCode,
		write: step{tools: []string{"bash"}, arguments: object{"command": "echo hi > file", "description": "write"}},
		edit: []step{
			{tools: []string{"read"}, arguments: object{"filePath": "PROJECT/note.txt"}},
			{tools: []string{"edit"}, arguments: object{"filePath": "PROJECT/note.txt", "oldString": "old", "newString": "new"}},
		},
		install: func(r *run, h installed) {
			r.writeFile(filepath.Join(r.home, ".config/opencode/opencode.json"), encode(object{
				"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled", "model": "fake/fake", "small_model": "fake/fake",
				"provider": object{"fake": object{
					"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": object{"baseURL": r.model.URL + "/v1", "apiKey": "x"},
					"models": object{"fake": object{"name": "fake", "tool_call": true, "limit": object{"context": 100000, "output": 4096}}},
				}},
			}))
			r.writeFile(filepath.Join(r.home, ".config/opencode/plugins/holdpoint.js"), h.plugin)
			// What it would install from npm at its first start.
			prepared := filepath.Join(filepath.Dir(modules), "opencode")
			for _, name := range []string{"package.json", "package-lock.json"} {
				text, err := os.ReadFile(filepath.Join(prepared, name))
				if err != nil {
					r.t.Fatal(err)
				}
				r.writeFile(filepath.Join(r.home, ".config/opencode", name), string(text))
			}
			from, to := filepath.Join(prepared, "node_modules"), filepath.Join(r.home, ".config/opencode")
			out, err := exec.Command("cp", "-al", from, to).CombinedOutput()
			if err != nil { // another file system, which hard links do not reach
				_ = os.RemoveAll(filepath.Join(to, "node_modules"))
				out, err = exec.Command("cp", "-a", from, to).CombinedOutput()
			}
			if err != nil {
				r.t.Fatalf("copy packages: %v: %s", err, out)
			}
		},
		command: func(_ *run, _ string) ([]string, []string) {
			return []string{"opencode", "run", "go"}, []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
		},
		modes: []string{""},
	}
}

// inProject puts the folder of a run into the arguments of steps.
func inProject(steps []step, project string) []step {
	var replaced []step
	for _, s := range steps {
		arguments := object{}
		for name, value := range s.arguments {
			if text, ok := value.(string); ok {
				value = strings.ReplaceAll(text, "PROJECT", project)
			}
			arguments[name] = value
		}
		s.arguments = arguments
		replaced = append(replaced, s)
	}
	return replaced
}
