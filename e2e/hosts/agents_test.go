//go:build hosts

package hosts_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// agent is a coding agent that a test runs in folders of its own.
type agent struct {
	name string
	// prepare are calls that the agent makes first, so that it has the other tools.
	prepare []step
	// shell runs a command, edit replaces a line of note.txt, save saves a note with the MCP server of the run, and delegate starts a subagent.
	shell    func(command string) step
	edit     func(before, after string) step
	save     func(text string) step
	delegate func(prompt string) []step
	// install writes the settings of the agent's user: its model, the MCP server of the run, and a hook unless its command is empty.
	install func(r *run, hook installed)
	// command runs the agent in a mode of permissions.
	command func(r *run, m mode) (args, env []string)
	// modes are all modes of permissions, the most permissive first.
	modes []mode
}

// mode is a mode of permissions.
type mode struct {
	name string
	args []string
}

// installed says how a hook is installed in the settings of a user.
type installed struct {
	command string
	plugin  string
}

// day is the timeout of an installed hook, in seconds.
const day = 86400

// run is one run of an agent.
type run struct {
	t       testing.TB
	agent   agent
	home    string
	project string
	model   *model
	notes   *notes
	etc     string // takes the place of /etc; empty: none
	number  int64
	output  bytes.Buffer
	process *exec.Cmd
	ended   chan error
	resume  []string // the command line that continues an earlier run
}

var runs atomic.Int64

func newRun(t testing.TB, a agent, m *model) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{t: t, agent: a, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), model: m, notes: newNotes(t), number: runs.Add(1)}
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

// hasFile reports whether a file of the project exists.
func (r *run) hasFile(name string) bool {
	_, err := os.Stat(filepath.Join(r.project, name))
	return err == nil
}

// note returns the text of note.txt.
func (r *run) note() string {
	text, err := os.ReadFile(filepath.Join(r.project, "note.txt"))
	if err != nil {
		r.t.Error(err)
	}
	return string(text)
}

// start starts the agent.
func (r *run) start(m mode) {
	r.t.Helper()
	args, env := r.agent.command(r, m)
	if r.resume != nil {
		args = r.resume
	}
	args[0] = filepath.Join(modules, ".bin", args[0])
	if r.etc != "" {
		args = append(inMachine(r.etc), args...)
	}
	r.process = exec.Command(args[0], args[1:]...)
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
	for _, pid := range append(findProcesses(r.home), findProcesses("\x00"+r.caller()+"\x00")...) {
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
	case <-time.After(30 * time.Minute):
		r.t.Fatalf("%s does not end; it printed %s; its model: %v", r.agent.name, r.output.String(), r.model.log)
	}
}

// hasEnded reports whether the agent has ended.
func (r *run) hasEnded() bool {
	select {
	case err := <-r.ended:
		r.ended <- err
		return true
	default:
		return false
	}
}

// listProcesses returns the ids of all processes.
func listProcesses() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parentOf returns the parent of a process; 0 if it has ended.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var state string
	var parent int
	_, after, _ := strings.Cut(string(text), ") ")
	if _, err := fmt.Sscan(after, &state, &parent); err != nil {
		return 0
	}
	return parent
}

// readCommand returns the command line of a process, with NUL between its words; "" if it has ended.
func readCommand(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return string(line)
}

// findDescendants returns the processes that a process started, and those that these started.
func findDescendants(of int) []int {
	children := map[int][]int{}
	for _, pid := range listProcesses() {
		parent := parentOf(pid)
		children[parent] = append(children[parent], pid)
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
	return slices.DeleteFunc(listProcesses(), func(pid int) bool { return !strings.Contains(readCommand(pid), text) })
}

func agents() []agent {
	return []agent{claudeCode(), codex(), gemini(), copilot(), openCode()}
}

// mainPrompt is what the agent is asked; helperPrompt is what its subagent is asked.
const (
	mainPrompt   = "you are the main agent: go"
	helperPrompt = "you are the helper"
)

func claudeCode() agent {
	return agent{
		name:    host.ClaudeCode,
		prepare: []step{{tools: []string{"Read"}, arguments: object{"file_path": "PROJECT/note.txt"}}},
		shell: func(command string) step {
			return step{tools: []string{"Bash"}, arguments: object{"command": command, "description": "write"}}
		},
		edit: func(before, after string) step {
			return step{tools: []string{"Edit"}, arguments: object{"file_path": "PROJECT/note.txt", "old_string": before, "new_string": after}}
		},
		save: func(text string) step {
			return step{tools: []string{"mcp__notes__save"}, arguments: object{"text": text}}
		},
		delegate: func(prompt string) []step {
			return []step{{tools: []string{"Agent"}, arguments: object{"description": "help", "prompt": prompt, "subagent_type": "general-purpose"}}}
		},
		install: func(r *run, h installed) {
			r.writeFile(filepath.Join(r.home, "mcp.json"), encode(object{"mcpServers": object{"notes": object{"type": "http", "url": r.notes.URL}}}))
			if h.command == "" {
				return
			}
			hook := object{"hooks": []any{object{"type": "command", "command": h.command, "timeout": day, "onFailure": "block"}}}
			after := object{"hooks": []any{object{"type": "command", "command": h.command}}}
			r.writeFile(filepath.Join(r.home, ".claude/settings.json"), encode(object{"hooks": object{
				"PreToolUse": []any{hook}, "PostToolUse": []any{after}, "PostToolUseFailure": []any{after},
			}}))
		},
		command: func(r *run, m mode) ([]string, []string) {
			args := []string{"claude", "-p", mainPrompt, "--output-format", "json", "--mcp-config", filepath.Join(r.home, "mcp.json")}
			return append(args, m.args...), []string{
				"ANTHROPIC_BASE_URL=" + r.model.URL, "ANTHROPIC_API_KEY=sk-ant-x", "IS_SANDBOX=1", "DISABLE_AUTOUPDATER=1",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ENABLE_TOOL_SEARCH=false",
			}
		},
		modes: modesOf("--permission-mode", "bypassPermissions", "acceptEdits", "default", "dontAsk", "plan", "auto"),
	}
}

// modesOf returns modes that are the values of a flag.
func modesOf(flag string, names ...string) []mode {
	var modes []mode
	for _, name := range names {
		modes = append(modes, mode{name, []string{flag, name}})
	}
	return modes
}

func codex() agent {
	return agent{
		name: host.Codex,
		prepare: []step{
			{tools: []string{"tool_search"}, arguments: object{"query": "save note spawn wait agent multi agent", "limit": 20}},
		},
		shell: func(command string) step {
			return step{tools: []string{"shell_command", "exec_command", "shell"}, arguments: object{"command": command, "cmd": command}}
		},
		edit: func(before, after string) step {
			return step{tools: []string{"apply_patch"}, input: "*** Begin Patch\n*** Update File: note.txt\n@@\n-" + before + "\n+" + after + "\n*** End Patch\n"}
		},
		save: func(text string) step {
			return step{tools: []string{"mcp__notes/save"}, arguments: object{"text": text}}
		},
		delegate: func(prompt string) []step {
			return []step{
				{tools: []string{"multi_agent_v1/spawn_agent"}, arguments: object{"message": prompt}},
				{tools: []string{"multi_agent_v1/wait_agent"}, arguments: object{"targets": []string{"AGENT"}, "timeout_ms": 3600000}},
			}
		},
		install: func(r *run, h installed) {
			var config strings.Builder
			fmt.Fprintf(&config, `model = "gpt-5.5"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "%s/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
[mcp_servers.notes]
url = "%s"
[features]
hooks = true
`, r.model.URL, r.notes.URL)
			if h.command != "" {
				for _, event := range []string{"PreToolUse", "PostToolUse"} {
					fmt.Fprintf(&config, "[[hooks.%s]]\n[[hooks.%s.hooks]]\ntype = \"command\"\ncommand = %s\ntimeout = %d\n", event, event, encode(h.command), day)
				}
			}
			r.writeFile(filepath.Join(r.home, ".codex/config.toml"), config.String())
		},
		command: func(r *run, m mode) ([]string, []string) {
			args := append([]string{"codex", "exec", "--skip-git-repo-check"}, m.args...)
			if r.etc == "" {
				args = append(args, "--dangerously-bypass-hook-trust")
			}
			return append(args, mainPrompt), []string{"FAKE_KEY=x"}
		},
		modes: slices.Concat(
			[]mode{{"--dangerously-bypass-approvals-and-sandbox", []string{"--dangerously-bypass-approvals-and-sandbox"}}},
			modesOf("--sandbox", "danger-full-access", "workspace-write", "read-only"),
			[]mode{{"--approve-for-me", []string{"--approve-for-me"}}},
		),
	}
}

func gemini() agent {
	return agent{
		name: host.Gemini,
		shell: func(command string) step {
			return step{tools: []string{"run_shell_command"}, arguments: object{"command": command, "description": "write"}}
		},
		edit: func(before, after string) step {
			return step{tools: []string{"replace"}, arguments: object{
				"file_path": "PROJECT/note.txt", "instruction": "change it", "old_string": before, "new_string": after,
			}}
		},
		save: func(text string) step {
			return step{tools: []string{"mcp_notes_save"}, arguments: object{"text": text}}
		},
		delegate: func(prompt string) []step {
			return []step{{tools: []string{"invoke_agent"}, arguments: object{"agent_name": "generalist", "prompt": prompt}}}
		},
		install: func(r *run, h installed) {
			settings := object{
				"security": object{"auth": object{"selectedType": "gemini-api-key"}}, "privacy": object{"usageStatisticsEnabled": false},
				"general": object{"enableAutoUpdate": false}, "model": object{"disableLoopDetection": true},
				"mcpServers": object{"notes": object{"httpUrl": r.notes.URL, "trust": true}},
			}
			if h.command != "" {
				hook := []any{object{"hooks": []any{object{"name": "holdpoint", "type": "command", "command": h.command, "timeout": day * 1000}}}}
				settings["hooks"] = object{"BeforeTool": hook, "AfterTool": hook}
			}
			r.writeFile(filepath.Join(r.home, ".gemini/settings.json"), encode(settings))
		},
		command: func(r *run, m mode) ([]string, []string) {
			args := append([]string{"gemini", "-m", "gemini-2.5-flash"}, m.args...)
			return append(args, "-p", mainPrompt), []string{
				"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + r.model.URL, "GEMINI_CLI_TRUST_WORKSPACE=true",
			}
		},
		modes: modesOf("--approval-mode", "yolo", "auto_edit", "default", "plan"),
	}
}

func copilot() agent {
	return agent{
		name: host.Copilot,
		shell: func(command string) step {
			return step{tools: []string{"bash"}, arguments: object{"command": command, "description": "write", "mode": "sync", "initial_wait": 30}}
		},
		edit: func(before, after string) step {
			return step{tools: []string{"edit"}, arguments: object{"path": "PROJECT/note.txt", "old_str": before, "new_str": after}}
		},
		save: func(text string) step { return step{tools: []string{"notes-save"}, arguments: object{"text": text}} },
		delegate: func(prompt string) []step {
			return []step{{tools: []string{"task"}, arguments: object{
				"description": "help", "prompt": prompt, "agent_type": "general-purpose", "name": "helper", "mode": "sync",
			}}}
		},
		install: func(r *run, h installed) {
			r.writeFile(filepath.Join(r.home, ".copilot/mcp-config.json"), encode(object{"mcpServers": object{
				"notes": object{"type": "http", "url": r.notes.URL, "tools": []string{"*"}},
			}}))
			if h.command == "" {
				return
			}
			hook := func(command string) []any {
				return []any{object{"type": "command", "bash": command, "timeoutSec": day}}
			}
			r.writeFile(filepath.Join(r.home, ".copilot/hooks/holdpoint.json"), encode(object{"version": 1, "hooks": object{
				"preToolUse": hook(h.command), "postToolUse": hook(strings.Replace(h.command, "' hook copilot ", "' hook copilot --after ", 1)),
			}}))
		},
		command: func(r *run, m mode) ([]string, []string) {
			return append([]string{"copilot", "-p", mainPrompt}, m.args...), []string{
				"COPILOT_PROVIDER_BASE_URL=" + r.model.URL + "/v1", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_API_KEY=x", "COPILOT_MODEL=gpt-5",
				"COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false",
			}
		},
		modes: []mode{
			{"--yolo", []string{"--yolo"}},
			{"--allow-all-tools", []string{"--allow-all-tools"}},
			{"--autopilot", []string{"--autopilot", "--allow-all-tools"}},
			{"--plan", []string{"--plan", "--allow-all-tools"}},
			{"--assisted-approval", []string{"--assisted-approval", "--experimental", "--allow-all-tools"}},
			{"default", nil},
		},
	}
}

func openCode() agent {
	return agent{
		name:    host.OpenCode,
		prepare: []step{{tools: []string{"read"}, arguments: object{"filePath": "PROJECT/note.txt"}}},
		shell: func(command string) step {
			return step{tools: []string{"bash"}, arguments: object{"command": command, "description": "write"}}
		},
		edit: func(before, after string) step {
			return step{tools: []string{"edit"}, arguments: object{"filePath": "PROJECT/note.txt", "oldString": before, "newString": after}}
		},
		save: func(text string) step { return step{tools: []string{"notes_save"}, arguments: object{"text": text}} },
		delegate: func(prompt string) []step {
			return []step{{tools: []string{"task"}, arguments: object{"description": "help", "prompt": prompt, "subagent_type": "general"}}}
		},
		install: func(r *run, h installed) {
			r.writeFile(filepath.Join(r.home, ".config/opencode/opencode.json"), encode(object{
				"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled", "model": "fake/fake", "small_model": "fake/fake",
				"mcp": object{"notes": object{"type": "remote", "url": r.notes.URL}},
				"provider": object{"fake": object{
					"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": object{"baseURL": r.model.URL + "/v1", "apiKey": "x"},
					"models": object{"fake": object{"name": "fake", "tool_call": true, "limit": object{"context": 10000000, "output": 4096}}},
				}},
			}))
			if h.plugin != "" {
				r.writeFile(filepath.Join(r.home, ".config/opencode/plugins/holdpoint.js"), h.plugin)
			}
			r.copyModules(filepath.Join(r.home, ".config/opencode"))
		},
		command: func(_ *run, m mode) ([]string, []string) {
			return append(append([]string{"opencode", "run"}, m.args...), mainPrompt), []string{
				"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
			}
		},
		modes: []mode{{"--auto", []string{"--auto"}}, {"default", nil}, {"--agent plan", []string{"--agent", "plan"}}},
	}
}

// copyModules puts the packages into a folder of OpenCode's settings that it would install from npm at its first start.
func (r *run) copyModules(folder string) {
	r.t.Helper()
	prepared := filepath.Join(filepath.Dir(modules), "opencode")
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(prepared, name))
		if err != nil {
			r.t.Fatal(err)
		}
		r.writeFile(filepath.Join(folder, name), string(text))
	}
	from := filepath.Join(prepared, "node_modules")
	out, err := exec.Command("cp", "-al", from, folder).CombinedOutput()
	if err != nil { // another file system, which hard links do not reach
		_ = os.RemoveAll(filepath.Join(folder, "node_modules"))
		out, err = exec.Command("cp", "-a", from, folder).CombinedOutput()
	}
	if err != nil {
		r.t.Fatalf("copy packages: %v: %s", err, out)
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
