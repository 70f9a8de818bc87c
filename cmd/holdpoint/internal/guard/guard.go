// Package guard puts Holdpoint's hook into the settings of coding agents: it knows each host's files, edits them without losing anything
// else, checks that the hook is still there and works, and has starter rules. The hook itself is the command `holdpoint hook`; this
// package only writes and runs it.
package guard

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Host is a coding agent.
type Host string

// The hosts.
const (
	ClaudeCode Host = host.ClaudeCode
	Codex      Host = host.Codex
	Gemini     Host = host.Gemini
	Copilot    Host = host.Copilot
	OpenCode   Host = host.OpenCode
	Cursor     Host = host.Cursor
)

// Hosts returns all hosts.
func Hosts() []Host {
	var hosts []Host
	for _, name := range tool.Hosts() {
		hosts = append(hosts, Host(name))
	}
	return hosts
}

// ParseHost finds a host by its name.
func ParseHost(name string) (Host, error) {
	if !slices.Contains(tool.Hosts(), name) {
		return "", fmt.Errorf("host %q: must be one of %s", name, strings.Join(tool.Hosts(), ", "))
	}
	return Host(name), nil
}

// Machine is the computer whose files are read and written.
type Machine struct {
	// Root is put before the paths of managed files. Empty: none; tests use a folder.
	Root string
	// Home is the folder of the user who runs the host.
	Home string
	// Work is the folder in which the host is started.
	Work string
	// Getenv reads the environment in which the host is started.
	Getenv func(string) string
}

// Guard is one installed hook: the host, where its settings are, and how the hook reaches the server.
type Guard struct {
	// ID is by which the server knows the guard. Empty: an earlier version installed it.
	ID   string `json:"id,omitempty"`
	Host Host   `json:"host"`
	// Managed says that the settings are those of the machine, which users cannot change, and not those of one user.
	Managed bool `json:"managed"`
	// Program is the absolute path of holdpoint.
	Program string `json:"program"`
	// URL, Agent, Skill and KeyFile are the hook's settings. They are arguments of the hook, because a variable could be changed by the agent.
	URL     string `json:"url"`
	Agent   string `json:"agent"`
	Skill   string `json:"skill"`
	KeyFile string `json:"key_file"`
	// Owner is the user id to whom the key belongs, because that user runs the host; negative: the one who installed the guard.
	Owner int `json:"owner"`
	// Wait is how long the hook waits for a decision before it refuses the call, such as 20m0s.
	Wait string `json:"wait"`
	// Proxy and CAFile are how the hook reaches the server. It reads no variables for them.
	Proxy  string `json:"proxy,omitempty"`
	CAFile string `json:"ca_file,omitempty"`
	// Policy says that a file of policies also takes Gemini's built-in tools away.
	Policy bool `json:"policy,omitempty"`
	// Local says that the server runs on this machine, for one developer.
	Local bool `json:"local,omitempty"`
	// Added are settings other than the hook that the guard added to a file without comments.
	Added []string `json:"added,omitempty"`
	// Rules is the version of the starter rules; 0: none.
	Rules int `json:"rules,omitempty"`
}

// The times in seconds for which a host waits: for the hook before a tool, whose own deadline is far below, and for the report after it.
const (
	Timeout      = 24 * 60 * 60
	afterTimeout = 60
)

// DefaultWait is how long a hook waits for a decision. Every host was seen to wait that long.
const DefaultWait = 20 * time.Minute

// refuse is the end of the command: it refuses the call unless the hook allowed it. Codex and Gemini CLI run the tool if a hook ends with 2 and
// prints nothing, so there is always a line.
const refuse = ` || { [ $? -eq 2 ] || echo 'Holdpoint: hook failed' >&2; echo 'Holdpoint: call refused' >&2; exit 2; }`

// Command returns the command that the host runs before a tool, for sh. Whatever happens to the hook, it ends with 0 or 2: a missing program,
// a crash and an unknown error all refuse the call.
func (g *Guard) Command() string { return g.bareCommand() + refuse }

// afterCommand returns the command that reports the outcome of a tool. It decides nothing, so its failure is none of the host.
func (g *Guard) afterCommand() string {
	if g.Host == Copilot { // whose messages name no event
		return g.bareCommand() + " --after || true"
	}
	return g.bareCommand() + " || true"
}

// bareCommand is the hook with an empty environment: an agent may set variables for its hooks.
func (g *Guard) bareCommand() string {
	var b strings.Builder
	b.WriteString(`/usr/bin/env -i PATH=/usr/bin:/bin HOME="$HOME"`)
	for _, word := range g.Arguments() {
		b.WriteString(" " + quoteShell(word))
	}
	return b.String()
}

// Arguments returns the words of the hook's own command.
func (g *Guard) Arguments() []string {
	words := []string{g.Program, "hook", string(g.Host), "--url", g.URL, "--agent", g.Agent, "--key-file", g.KeyFile, "--skill", g.Skill, "--wait", g.Wait}
	if g.ID != "" {
		words = append(words, "--guard", g.ID)
	}
	if g.Proxy != "" {
		words = append(words, "--proxy", g.Proxy)
	}
	if g.CAFile != "" {
		words = append(words, "--ca-file", g.CAFile)
	}
	return words
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// quoteShell quotes a word for sh.
func quoteShell(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// isOurCommand reports whether a command is a hook of Holdpoint for a host, also one that was altered.
func isOurCommand(host Host, command string) bool {
	return strings.Contains(strings.ToLower(command), "holdpoint") && strings.Contains(strings.ReplaceAll(command, "'", ""), " hook "+string(host))
}

// Validate refuses a machine whose settings cannot be written safely.
func (m *Machine) Validate(managed bool) error {
	if runtime.GOOS == "windows" {
		return errors.New("guards are for Linux and macOS: the hook is a command for sh")
	}
	if !filepath.IsAbs(m.Home) {
		return errors.New("HOME: must be an absolute path")
	}
	info, err := os.Stat(m.Home)
	if err != nil || managed || os.Geteuid() != 0 {
		return nil //nolint:nilerr // a missing home folder is made
	}
	if owner, _ := ownerOf(info); owner > 0 {
		return fmt.Errorf("HOME: %s must belong to root, or run this command as its owner: links in it could lead anywhere", m.Home)
	}
	return nil
}

// path returns the place of a managed file.
func (m *Machine) path(managed string) string { return filepath.Join(cmp.Or(m.Root, "/"), managed) }

// config returns the folder of the user's settings.
func (m *Machine) config() string {
	return cmp.Or(m.Getenv("XDG_CONFIG_HOME"), filepath.Join(m.Home, ".config"))
}

// Folder returns the folder of the guard's own files: keys and records.
func (m *Machine) Folder(managed bool) string {
	if managed {
		return m.path("etc/holdpoint/guard")
	}
	return filepath.Join(m.config(), "holdpoint", "guard")
}

// File returns the file of the host's settings that has the hook.
func (m *Machine) File(host Host, managed bool) string {
	if managed && host == ClaudeCode && runtime.GOOS == "darwin" {
		return m.path("Library/Application Support/ClaudeCode/managed-settings.json")
	}
	if managed {
		return m.path(map[Host]string{
			ClaudeCode: "etc/claude-code/managed-settings.json", Codex: "etc/codex/requirements.toml", Gemini: "etc/gemini-cli/settings.json",
			Copilot: "etc/github-copilot/policy.d/holdpoint.json", OpenCode: "etc/opencode/plugins/holdpoint.js", Cursor: "etc/cursor/hooks.json",
		}[host])
	}
	home := func(variable, folder string) string { return cmp.Or(m.Getenv(variable), filepath.Join(m.Home, folder)) }
	switch host {
	case ClaudeCode:
		return filepath.Join(home("CLAUDE_CONFIG_DIR", ".claude"), "settings.json")
	case Codex:
		return filepath.Join(home("CODEX_HOME", ".codex"), "config.toml")
	case Gemini:
		return filepath.Join(m.Home, ".gemini", "settings.json")
	case Copilot:
		return filepath.Join(home("COPILOT_HOME", ".copilot"), "hooks", "holdpoint.json")
	case OpenCode:
		return filepath.Join(m.config(), "opencode", "plugins", "holdpoint.js")
	case Cursor:
	}
	return filepath.Join(m.Home, ".cursor", "hooks.json")
}

// policyFile is Gemini's file of policies.
func (m *Machine) policyFile() string { return m.path("etc/gemini-cli/policies/holdpoint.toml") }

// Limits says first what the guard of a host does not hold, and then what does.
func Limits(host Host, managed bool) []string {
	var limits []string
	switch host {
	case ClaudeCode:
		if managed {
			limits = []string{"Holds, with Claude Code 2.1.295 or later; managed settings make older versions refuse to start. Files that a person names with @ are read without a hook."}
		}
	case Codex:
		if managed {
			limits = []string{
				"Codex fires no hook for write_stdin, so unified_exec is turned off: with it, one approved shell could be fed any command.",
				"A hook that passes its timeout, or whose shell is killed, lets the call run. Requirements with allow_managed_hooks_only hold against everything else.",
			}
		} else {
			limits = []string{
				"Codex skips a user's hook until you trust it: open codex and run /hooks. `codex --disable hooks` turns it off.",
				"Codex fires no hook for write_stdin: once a shell is approved, all that is typed into it runs. The machine's requirements.toml holds: run as root.",
			}
		}
	case Gemini:
		limits = []string{
			"Gemini's hooks do not bind, not even those of the system settings: hooksConfig.disabled in the settings of a user or a project, and GEMINI_CLI_SYSTEM_SETTINGS_PATH, drop them. A killed hook, and one that passes its timeout, lets the call run.",
			"Policy files hold: `sudo holdpoint guard gemini --policy` takes Gemini's own shell, write and network tools away. Offer the work as tools of Holdpoint instead.",
		}
	case Copilot:
		limits = []string{"A hook that passes its timeout of 24 hours lets the call run; Holdpoint refuses long before. The policy file survives --yolo, disableAllHooks and COPILOT_HOME."}
		if !managed {
			limits = []string{"disableAllHooks and COPILOT_HOME drop a user's hook. A policy file of the machine holds: run as root."}
		}
	case OpenCode:
		limits = []string{
			"OpenCode's plugins do not bind: `opencode --pure` starts without them, and one that does not load is skipped silently. Nothing that a machine can set holds.",
			"Run opencode without its own shell and edit tools, and offer the work as tools of Holdpoint, or in a container whose command line is fixed.",
		}
	case Cursor:
		limits = []string{"Cursor's hooks are set up by its documentation; they were not tried. Try one call: holdpoint guard test cursor"}
	}
	if !managed {
		limits = append(limits, "These are settings of one user. Everything that runs as this user, an approved shell command too, can change them. As root, holdpoint guard writes those of the machine.")
	}
	return append([]string{"An agent that may run any shell command as a user who can decide can approve itself. Keep tokens, passwords and browsers of reviewers away from the agent's user."}, limits...)
}
