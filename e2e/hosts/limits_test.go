//go:build hosts

package hosts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// attempt is an attempt of an agent's user to switch the guard of the machine off, which docs/coding-agents.md names.
type attempt struct {
	host string
	name string
	args []string // of the agent
	env  []string
	file string // below the home folder, or the project
	text string
	// flags are of the guard.
	flags []string
	runs  bool
	// removed is a tool that the agent must not have.
	removed string
}

func attempts() []attempt {
	const noHooks = `{"disableAllHooks":true}`
	return []attempt{
		{host: host.ClaudeCode, name: "--bare", args: []string{"--bare"}},
		{host: host.ClaudeCode, name: "--safe-mode", args: []string{"--safe-mode"}},
		{host: host.ClaudeCode, name: "--settings", args: []string{"--settings", noHooks}},
		{host: host.ClaudeCode, name: "--setting-sources", args: []string{"--setting-sources", "local"}},
		{host: host.ClaudeCode, name: "CLAUDE_CODE_SIMPLE", env: []string{"CLAUDE_CODE_SIMPLE=1"}},
		{host: host.ClaudeCode, name: "CLAUDE_CONFIG_DIR", env: []string{"CLAUDE_CONFIG_DIR=HOME/elsewhere"}},
		{host: host.ClaudeCode, name: "project settings", file: "project/.claude/settings.json", text: noHooks},
		{host: host.ClaudeCode, name: "invalid user settings", file: "home/.claude/settings.json", text: `{"hooks":{"PreToolUse":5}}`},
		{host: host.Codex, name: "--disable hooks", args: []string{"--disable", "hooks"}},
		{host: host.Codex, name: "--enable unified_exec", args: []string{"--enable", "unified_exec"}, removed: "write_stdin"},
		{host: host.Copilot, name: "COPILOT_HOME", env: []string{"COPILOT_HOME=HOME/elsewhere"}},
		{host: host.Copilot, name: "user settings", file: "home/.copilot/config.json", text: noHooks},
		{host: host.Gemini, name: "hooksConfig.disabled", file: "project/.gemini/settings.json", text: `{"hooksConfig":{"disabled":["holdpoint"]}}`, runs: true},
		{host: host.Gemini, name: "GEMINI_CLI_SYSTEM_SETTINGS_PATH", env: []string{"GEMINI_CLI_SYSTEM_SETTINGS_PATH=HOME/elsewhere"}, runs: true},
		{
			host: host.Gemini, name: "hooksConfig.disabled with --policy", file: "project/.gemini/settings.json",
			text: `{"hooksConfig":{"disabled":["holdpoint"]}}`, flags: []string{"--policy"}, removed: "run_shell_command",
		},
		{host: host.OpenCode, name: "--pure", args: []string{"--pure"}, runs: true},
	}
}

// TestLimits tries to switch the guards of the machine off. It proves what docs/coding-agents.md says holds, and what does not.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, try := range attempts() {
		t.Run(try.host+"/"+try.name, func(t *testing.T) {
			t.Parallel()
			all := agents()
			a := all[slices.IndexFunc(all, func(a agent) bool { return a.name == try.host })]
			plain := a.command
			a.command = func(r *run, m mode) ([]string, []string) {
				args, env := plain(r, m)
				for _, variable := range try.env {
					env = append(env, strings.ReplaceAll(variable, "HOME/", r.home+"/"))
				}
				return slices.Insert(args, flagsAt(args), try.args...), env
			}
			r := newRun(t, a, newModel(t, a.shell("echo hi > "+markOf(0, kindShell))))
			list := []failure{{answer: failures()[rejection].answer}}
			g := newGate(t, list)
			a.install(r, installed{})
			if try.file != "" {
				r.writeFile(filepath.Join(filepath.Dir(r.home), try.file), try.text)
			}
			r.guard(g.URL, script(list), try.flags...)
			r.start(a.modes[0])
			r.wait()
			if ran := r.has(kindShell, 0); ran != try.runs {
				t.Errorf("the tool ran: %t, want %t", ran, try.runs)
			}
			if told := r.model.toldResults(); !try.runs && try.removed == "" && !strings.Contains(told, "Rejected by rita") {
				t.Errorf("the model was told %s", told)
			}
			if try.removed != "" && (len(r.model.offered) == 0 || slices.Contains(r.model.offered, try.removed)) {
				t.Errorf("the model must have tools other than %s; it has %v", try.removed, r.model.offered)
			}
			if t.Failed() {
				t.Logf("it printed %s\nits model was told %s\nit did not understand %v\nthe gate got %v", r.output.String(), r.model.toldResults(), r.model.log, g.said)
			}
		})
	}
}

// flagsAt returns where flags may be inserted into a command line: before the prompt, or behind the words that are no flags.
func flagsAt(args []string) int {
	for i, arg := range args {
		if i > 0 && strings.HasPrefix(arg, "-") {
			return i
		}
	}
	return len(args) - 1
}
