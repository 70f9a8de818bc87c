package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Finding is one thing that a check found.
type Finding struct {
	// Broken says that calls may pass without Holdpoint, or that no call passes at all. Otherwise it is something to know.
	Broken bool   `json:"broken"`
	File   string `json:"file,omitempty"`
	Text   string `json:"text"`
}

func (f Finding) String() string {
	if f.Broken {
		return "BROKEN: " + f.Line()
	}
	return "note: " + f.Line()
}

// Line returns the finding with its file, and without its weight.
func (f Finding) Line() string {
	if f.File != "" {
		return f.File + ": " + f.Text
	}
	return f.Text
}

// IsBroken reports whether any finding is that the guard does not hold.
func IsBroken(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Broken })
}

// checker collects findings.
type checker struct {
	*Guard
	m        *Machine
	findings []Finding
	// command is the command in the host's file.
	command string
}

func (c *checker) reportf(broken bool, file, format string, args ...any) {
	c.findings = append(c.findings, Finding{broken, file, fmt.Sprintf(format, args...)})
}

// Check reads every file that the host reads, and finds what takes the hook away: the hook is gone or altered, its file is invalid, or another
// setting turns hooks off. It runs nothing.
func (g *Guard) Check(m *Machine) []Finding {
	c := &checker{Guard: g, m: m}
	c.checkFiles()
	return c.findings
}

func (c *checker) checkFiles() {
	if err := c.CheckProgram(); err != nil {
		c.reportf(true, "", "%v", err)
	}
	c.checkKey()
	c.checkHook()
	switch c.Host {
	case ClaudeCode:
		c.checkClaudeCode()
	case Codex:
		c.checkCodex()
	case Gemini:
		c.checkGemini()
	case Copilot:
		c.checkCopilot()
	case OpenCode:
		if _, _, isNamed, err := c.m.readPluginList(); c.Managed && (err != nil || !isNamed) {
			c.reportf(true, c.m.pluginList(), "does not name the plugin, so OpenCode does not load it")
		}
		for _, variable := range []string{"OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION"} {
			if c.m.Getenv(variable) != "" {
				c.reportf(false, "", "%s is set: OpenCode may read other files", variable)
			}
		}
		c.reportf(false, "", "OpenCode runs tools without the plugin when it is started with --pure")
	case Cursor:
	}
}

func (c *checker) checkKey() {
	info, err := os.Stat(c.KeyFile)
	switch {
	case err != nil:
		c.reportf(true, c.KeyFile, "the key of agent %s cannot be read, so every call is refused: %v", c.Agent, err)
	case info.Mode().Perm()&0o077 != 0:
		c.reportf(true, c.KeyFile, "must be readable by its owner only, and has mode %04o", info.Mode().Perm())
	}
	if err == nil && c.Owner >= 0 {
		if owner, _ := ownerOf(info); owner >= 0 && owner != c.Owner {
			c.reportf(true, c.KeyFile, "must belong to user id %d, and belongs to %d: the hook cannot read it, and refuses every call", c.Owner, owner)
		}
	}
}

// checkHook compares the hook in the host's file with the one that the guard wrote.
func (c *checker) checkHook() {
	path := c.m.File(c.Host, c.Managed)
	text, err := readFile(path)
	if err != nil {
		c.reportf(true, path, "%v", err)
		return
	}
	if text == nil {
		c.reportf(true, path, "the hook is gone: the file does not exist")
		return
	}
	switch c.Host {
	case OpenCode:
		if !bytes.HasPrefix(text, []byte(pluginMark)) {
			c.reportf(true, path, "the hook is gone: this is another plugin")
			return
		}
		words := strings.TrimPrefix(string(encodeJSON(c.pluginWords(), "", "")), "[")
		if !strings.Contains(string(text), words) {
			c.reportf(true, path, "the hook is altered: it does not run %s", c.Program)
		}
		c.command = c.Command()
	case Codex:
		values, err := readTOML(text)
		if err != nil {
			c.reportf(true, path, "%v", err)
			return
		}
		c.compare(path, findTOMLHooks(values, "PreToolUse"), "command",
			map[string]any{"type": "command", "command": c.Command(), "timeout": int64(Timeout)})
	case ClaudeCode, Gemini, Copilot, Cursor:
		hooks := c.hostHooks()
		file, err := parseJSON(text, hooks.comments)
		if err != nil {
			c.reportf(true, path, "%v", err)
			return
		}
		entry := hooks.entries[0]
		var list []json.RawMessage
		if _, err := file.decode(&list, "hooks", entry.event); err != nil {
			c.reportf(true, path, "hooks.%s: must be a list", entry.event)
			return
		}
		var present []map[string]any
		for _, element := range list {
			group := map[string]any{}
			_ = json.Unmarshal(element, &group) // an element of another type has no hooks
			for _, hook := range hooks.listHooks(element) {
				if matcher, ok := group["matcher"]; ok && !hooks.flat {
					hook["matcher"] = matcher
				}
				present = append(present, hook)
			}
		}
		c.compare(path, present, hooks.command, entry.hook)
	}
}

// pluginWords is the command in OpenCode's plugin after the program, as the program writes it.
func (g *Guard) pluginWords() []string {
	all := g.Arguments()
	words := slices.Clone(all[1:3])
	for i := 3; i+1 < len(all); i += 2 {
		words = append(words, all[i]+"="+all[i+1])
	}
	return words
}

// compare finds the guard's hook in a list of hooks.
func (c *checker) compare(path string, present []map[string]any, name string, want map[string]any) {
	others := 0
	for _, hook := range present {
		command, _ := hook[name].(string)
		if !isOurCommand(c.Host, command) {
			others++
			continue
		}
		if c.command != "" {
			c.reportf(true, path, "the hook is there twice: each call is asked twice. Install the guard again")
			continue
		}
		c.command = command
		for member, value := range want {
			if !isSame(hook[member], value) {
				c.reportf(true, path, "the hook is altered: %s must be %v, and is %v", member, value, hook[member])
			}
		}
		for member := range hook {
			if _, ok := want[member]; !ok {
				c.reportf(true, path, "the hook is altered: it must have no %s, and has %v", member, hook[member])
			}
		}
	}
	if c.command == "" {
		c.reportf(true, path, "the hook is gone")
	}
	if others > 0 {
		c.reportf(false, path, "there are %d other hooks for the same event: one that answers with changed arguments changes them after Holdpoint saw them", others)
	}
}

// readSettings reads a file of JSON settings that need not exist.
func (c *checker) readSettings(path string, comments bool) *jsonFile {
	text, err := readFile(path)
	if err == nil && text == nil {
		return nil
	}
	if err == nil {
		var file *jsonFile
		if file, err = parseJSON(text, comments); err == nil {
			return file
		}
	}
	c.reportf(path == c.m.File(c.Host, c.Managed), path, "cannot be read: %v", err)
	return nil
}

// flag reads a member that turns something on or off. A value of another type counts as set.
func (f *jsonFile) flag(path ...string) (value, found bool) {
	if f == nil {
		return false, false
	}
	found, err := f.decode(&value, path...)
	return value || err != nil, found
}

// managedDropIns is the pattern of the files that Claude Code adds to its managed settings.
func (m *Machine) managedDropIns() string {
	return filepath.Join(filepath.Dir(m.File(ClaudeCode, true)), "managed-settings.d", "*.json")
}

func (c *checker) checkClaudeCode() {
	own := c.m.File(ClaudeCode, c.Managed)
	managed, _ := filepath.Glob(c.m.managedDropIns())
	managed = append(managed, c.m.File(ClaudeCode, true))
	users := []string{c.m.File(ClaudeCode, false), filepath.Join(c.m.Work, ".claude", "settings.json"), filepath.Join(c.m.Work, ".claude", "settings.local.json")}
	for i, path := range append(slices.Clone(managed), users...) {
		file := c.readSettings(path, false)
		if file == nil {
			continue
		}
		isManaged := i < len(managed)
		if off, _ := file.flag("disableAllHooks"); off {
			c.reportf(isManaged || !c.Managed, path, "disableAllHooks turns hooks off; managed hooks survive it in the settings of users and projects")
		}
		for _, problem := range file.checkClaudeCode() {
			c.reportf(path == own || isManaged, path, "%s: one invalid value turns off all hooks of a user's file, and a managed file with one stops Claude Code from starting", problem)
		}
		only, found := file.flag(managedOnlySetting)
		if found && !only && isManaged && c.Managed && path != own {
			c.reportf(true, path, "%s must be true: a hook of a user could change arguments after Holdpoint saw them", managedOnlySetting)
		}
		if only && isManaged && !c.Managed {
			advice, isHeld := "install the guard as root", file.hasClaudeCodeGuard()
			if isHeld {
				advice = "the machine's guard counts, so remove this one"
			}
			c.reportf(!isHeld, path, "%s turns off the hooks of users: %s", managedOnlySetting, advice)
		}
	}
	if c.Managed {
		file := c.readSettings(own, false)
		var minimum string
		if file != nil {
			_, _ = file.decode(&minimum, minimumSetting) // a value of another type is none
		}
		if compareVersions(minimum, minimumClaudeCode) < 0 {
			c.reportf(true, own, "%s must be at least %s: older versions run tools when a hook fails, and start without managed hooks", minimumSetting, minimumClaudeCode)
		}
		if only := false; file != nil {
			if _, err := file.decode(&only, managedOnlySetting); err != nil || !only {
				c.reportf(true, own, "%s must be true: a hook of a user could change arguments after Holdpoint saw them", managedOnlySetting)
			}
		}
		return
	}
	for _, variable := range []string{"CLAUDE_CODE_SIMPLE", "CLAUDE_CONFIG_DIR"} {
		if c.m.Getenv(variable) != "" {
			c.reportf(variable == "CLAUDE_CODE_SIMPLE", "", "%s is set: Claude Code starts without the hooks of the user's usual settings", variable)
		}
	}
	c.reportf(false, "", "claude --settings, --setting-sources, --bare and --safe-mode start it without this hook, and the agent can change the file while it runs")
}

// hasClaudeCodeGuard reports whether a file has a hook of Holdpoint before tools.
func (f *jsonFile) hasClaudeCodeGuard() bool {
	hooks := (&Guard{Host: ClaudeCode}).hostHooks()
	var list []json.RawMessage
	_, err := f.decode(&list, "hooks", hooks.entries[0].event)
	return err == nil && slices.ContainsFunc(list, hooks.isOurElement(ClaudeCode))
}

// checkClaudeCode returns the problems of those settings whose form is known.
func (f *jsonFile) checkClaudeCode() []string {
	var problems []string
	check := func(v any, expected string, path ...string) {
		if _, err := f.decode(v, path...); err != nil {
			problems = append(problems, strings.Join(path, ".")+" must be "+expected)
		}
	}
	for _, name := range []string{"disableAllHooks", managedOnlySetting, "allowManagedPermissionRulesOnly", "includeCoAuthoredBy", "enableAllProjectMcpServers"} {
		check(new(bool), "true or false", name)
	}
	for _, name := range []string{"model", "apiKeyHelper", minimumSetting} {
		check(new(string), "a text", name)
	}
	for _, name := range []string{"allow", "ask", "deny", "additionalDirectories"} {
		check(new([]string), "a list of texts", "permissions", name)
	}
	check(new(map[string]string), "texts by name", "env")
	var events map[string][]struct {
		Matcher *string `json:"matcher"`
		Hooks   []struct {
			Type      string   `json:"type"`
			Command   *string  `json:"command"`
			Timeout   *float64 `json:"timeout"`
			OnFailure *string  `json:"onFailure"`
		} `json:"hooks"`
	}
	if _, err := f.decode(&events, "hooks"); err != nil {
		return append(problems, "hooks must be lists of {matcher, hooks} by event")
	}
	for event, groups := range events {
		for i, group := range groups {
			for j, hook := range group.Hooks {
				at := fmt.Sprintf("hooks.%s[%d].hooks[%d]", event, i, j)
				if !slices.Contains([]string{"command", "http", "mcp_tool", "prompt", "agent"}, hook.Type) {
					problems = append(problems, at+".type must be command, http, mcp_tool, prompt or agent")
				}
				if hook.Type == "command" && (hook.Command == nil || *hook.Command == "") {
					problems = append(problems, at+".command must be a command")
				}
				if hook.Timeout != nil && *hook.Timeout <= 0 {
					problems = append(problems, at+".timeout must be more than 0")
				}
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func (c *checker) checkCodex() {
	path := c.m.File(Codex, c.Managed)
	text, err := readFile(path)
	if err != nil || text == nil {
		return // reported with the hook
	}
	values, err := readTOML(text)
	if err != nil {
		return
	}
	features, _ := values["features"].(map[string]any)
	hooks, _ := values["hooks"].(map[string]any)
	if c.Managed {
		if values["allow_managed_hooks_only"] != true {
			c.reportf(true, path, "allow_managed_hooks_only must be true: a hook of a user could change arguments")
		}
		if features["hooks"] != true {
			c.reportf(true, path, "features.hooks must be true: else codex --disable hooks turns the hook off")
		}
		if features["unified_exec"] != false {
			c.reportf(true, path, "features.unified_exec must be false: write_stdin fires no hook")
		}
		folder, _ := hooks["managed_dir"].(string)
		if info, err := os.Stat(folder); folder == "" || err != nil || !info.IsDir() {
			c.reportf(true, path, "hooks.managed_dir must be a folder that exists")
		}
		return
	}
	for _, name := range []string{"hooks", "codex_hooks"} {
		if features[name] == false {
			c.reportf(true, path, "features.%s turns hooks off", name)
		}
	}
	if required, err := readFile(c.m.File(Codex, true)); err == nil && required != nil {
		if values, err := readTOML(required); err == nil && values["allow_managed_hooks_only"] == true {
			managed := slices.ContainsFunc(findTOMLHooks(values, "PreToolUse"), func(hook map[string]any) bool {
				command, _ := hook["command"].(string)
				return isOurCommand(Codex, command)
			})
			advice := "install the guard as root"
			if managed {
				advice = "the machine's guard counts, so remove this one"
			}
			c.reportf(!managed, c.m.File(Codex, true), "allow_managed_hooks_only turns off the hooks of users: %s", advice)
		}
	}
	if c.m.Getenv("CODEX_HOME") != "" {
		c.reportf(false, "", "CODEX_HOME is set: without it Codex reads another file")
	}
	if state, _ := hooks["state"].(map[string]any); len(state) == 0 {
		c.reportf(true, path, "no hook is trusted yet, so Codex skips it silently and runs tools: open codex and run /hooks")
	}
}

func (c *checker) checkGemini() {
	system := c.m.path("etc/gemini-cli/settings.json")
	for _, path := range []string{
		filepath.Join(c.m.Home, ".gemini", "settings.json"), filepath.Join(c.m.Work, ".gemini", "settings.json"), system,
	} {
		file := c.readSettings(path, true)
		if file == nil {
			continue
		}
		for _, name := range [][]string{{"hooksConfig", "enabled"}, {"tools", "enableHooks"}} {
			if on, found := file.flag(name...); found && !on {
				c.reportf(true, path, "%s turns hooks off", strings.Join(name, "."))
			}
		}
		for _, name := range [][]string{{"hooksConfig", "disabled"}, {"hooks", "disabled"}} {
			var disabled []string
			if _, err := file.decode(&disabled, name...); err != nil {
				c.reportf(true, path, "%s must be a list of texts", strings.Join(name, "."))
			}
			for _, one := range disabled {
				if one == "holdpoint" || isOurCommand(Gemini, one) {
					c.reportf(true, path, "%s turns the hook off", strings.Join(name, "."))
				}
			}
		}
	}
	if other := c.m.Getenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH"); other != "" && c.Managed {
		c.reportf(true, "", "GEMINI_CLI_SYSTEM_SETTINGS_PATH is set: Gemini reads %s and not %s", other, system)
	}
	text, err := readFile(c.m.policyFile())
	if c.Policy && (err != nil || !strings.Contains(string(text), policyMark)) {
		c.reportf(true, c.m.policyFile(), "the file of policies is gone, so Gemini has its own shell and write tools again")
	}
}

func (c *checker) checkCopilot() {
	if c.Managed {
		return // it survives all settings of users
	}
	for _, path := range []string{
		filepath.Join(filepath.Dir(filepath.Dir(c.m.File(Copilot, false))), "config.json"), filepath.Join(c.m.Work, ".github", "copilot", "settings.json"),
		filepath.Join(filepath.Dir(filepath.Dir(c.m.File(Copilot, false))), "settings.json"),
	} {
		if file := c.readSettings(path, true); file != nil {
			if off, _ := file.flag("disableAllHooks"); off {
				c.reportf(true, path, "disableAllHooks turns hooks off")
			}
		}
	}
	if c.m.Getenv("COPILOT_HOME") != "" {
		c.reportf(false, "", "COPILOT_HOME is set: without it Copilot reads another file")
	}
}

// CanaryText is the command of the call that tries the guard. A rule of every guard denies it with CanaryMessage.
const (
	CanaryText    = "holdpoint guard canary"
	CanaryMessage = "Holdpoint guard: the canary was refused, as it must be."
)

// canaryWait is how long the server may take to refuse the canary.
const canaryWait = 30 * time.Second

// Canary checks the files, and then runs the command from the host's file with a call that a rule denies. It is run as the host runs it: by a
// shell, in the folder of the project, with the host's message on its standard input. Only a refusal that came from the server counts; what the
// wrapper says when the hook fails does not.
func (g *Guard) Canary(ctx context.Context, m *Machine) []Finding {
	c := &checker{Guard: g, m: m}
	c.checkFiles()
	if c.command == "" {
		return c.findings
	}
	ctx, cancel := context.WithTimeout(ctx, canaryWait)
	defer cancel()
	shell := "/bin/sh"
	if g.Host == Gemini || g.Host == Copilot {
		shell = "bash"
	}
	command := exec.CommandContext(ctx, shell, "-c", c.command) //nolint:gosec // G204: the hook is a command for a shell
	command.Stdin, command.Dir, command.Env = bytes.NewReader(encodeJSON(g.canaryMessage(m.Work), "", "")), m.Work, cleanEnvironment()
	command.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	said := strings.TrimSpace(stderr.String())
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		c.reportf(true, "", "the canary was not refused within %s: the server does not answer, or has no rule for it. `holdpoint guard rules %s` prints the rule", canaryWait, g.Host)
	case err == nil:
		c.reportf(true, "", "the canary passed: the hook allows calls that a rule denies. It said: %s", strings.TrimSpace(stdout.String()))
	case !errors.As(err, &exit):
		c.reportf(true, "", "the hook could not be run: %v", err)
	case exit.ExitCode() != 2:
		c.reportf(true, "", "the hook ended with %d, and only 2 refuses a call in every host: %s", exit.ExitCode(), said)
	case !strings.Contains(said, CanaryMessage) || !strings.Contains(stdout.String(), CanaryMessage):
		c.reportf(true, "", "the hook refuses every call, because it cannot ask the server: %s", said)
	}
	return c.findings
}

// canaryCall is the tool and the arguments of the canary.
func (g *Guard) canaryCall() (tool string, arguments map[string]any) {
	switch g.Host {
	case Gemini:
		return "run_shell_command", map[string]any{"command": CanaryText}
	case Copilot, OpenCode:
		return "bash", map[string]any{"command": CanaryText, "description": "Try the guard"}
	case Cursor:
		return "Shell", map[string]any{"command": CanaryText}
	case ClaudeCode, Codex:
	}
	return "Bash", map[string]any{"command": CanaryText}
}

// canaryMessage is the host's message about the canary.
func (g *Guard) canaryMessage(folder string) map[string]any {
	tool, arguments := g.canaryCall()
	if g.Host == Copilot {
		text := string(encodeJSON(arguments, "", ""))
		return map[string]any{"sessionId": "guard", "timestamp": time.Now().UnixMilli(), "cwd": folder, "toolName": tool, "toolArgs": text}
	}
	event := map[Host]string{Gemini: "BeforeTool", OpenCode: "before", Cursor: "preToolUse"}[g.Host]
	if event == "" {
		event = "PreToolUse"
	}
	return map[string]any{
		"session_id": "guard", "cwd": folder, "hook_event_name": event, "tool_name": tool, "tool_input": arguments, "tool_use_id": "guard",
		"transcript_path": "", "permission_mode": "default",
	}
}

// isSame reports whether two values are the same JSON.
func isSame(a, b any) bool {
	left, err := json.Marshal(a)
	right, otherErr := json.Marshal(b)
	return errors.Join(err, otherErr) == nil && bytes.Equal(left, right)
}
