package cli_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
)

// guardHome makes a home folder and a program that stands in for holdpoint.
func guardHome(t *testing.T, script string) (home, program string) {
	t.Helper()
	dir := t.TempDir()
	home, program = filepath.Join(dir, "home"), filepath.Join(dir, "holdpoint")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	writeProgram(t, program, script)
	return home, program
}

// writeProgram writes a script. A process that is forked meanwhile would keep the file open, and it could not be run.
func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

const canaryRefused = `cat >/dev/null; echo '{"reason":"` + guard.CanaryMessage + `"}'; echo '` + guard.CanaryMessage + `' >&2; exit 2`

// One command sets up the server and the host. The operator's token is stored nowhere.
func TestGuardInstall(t *testing.T) {
	t.Parallel()
	home, program := guardHome(t, canaryRefused)
	f := newFake(t).setAnswer("GET /api/v1/assignments", `{"items":[]}`).setAnswer("POST /api/v1/assignments", `{"agent":"laptop","skill":"claude-code"}`).
		setAnswer("POST /api/v1/skills", `{}`).setAnswer("POST /api/v1/agents", `{}`).setAnswer("POST /api/v1/apply", `{"items":[]}`).
		setAnswer("GET /api/v1/rules", `{"items":[{"name":"guard-laptop-claude-code-read"}]}`).
		setAnswer("POST /api/v1/agents/laptop/keys", `{"agent":"laptop","id":"k1","key":"hp_agentkey"}`)
	env := f.env()
	env["HOME"] = home
	args := []string{"guard", "claude-code", "--scope", "user", "--agent", "laptop", "--program", program, "--project", "/src/app"}
	got := run(t, env, "", append(args, "--dry-run")...).wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "+++ b"+home+"/.claude/settings.json", `+  "hooks": {`, "(a key, mode 0400; not shown)")
	wantContains(t, "stderr", got.stderr, "These are settings of one user", "can approve itself", "Would create skill claude-code", "Would create rule guard-laptop-claude-code-glob")
	if _, err := os.Stat(filepath.Join(home, ".claude")); err == nil {
		t.Error("a dry run wrote files")
	}
	for _, asked := range f.asked {
		if strings.HasPrefix(asked, "POST") && asked != "POST /api/v1/apply" {
			t.Errorf("a dry run sent %s", asked)
		}
	}
	got = run(t, env, "", args...).wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "Wrote "+home+"/.claude/settings.json")
	wantContains(t, "stderr", got.stderr, "Created skill claude-code", "Created agent laptop", "Rule guard-laptop-claude-code-read exists and is not changed: its folders may differ from --project", "Assigned skill claude-code to agent laptop", "Created a key")
	bodies := strings.Join(f.bodies, "\n")
	wantContains(t, "the requests", bodies, `"transport":"gate"`, `"host":"claude-code"`, `guard-laptop-claude-code-canary`, `/src/app`)
	if strings.Contains(bodies, "guard-laptop-claude-code-read") {
		t.Error("a rule that exists was replaced")
	}
	key, err := os.ReadFile(filepath.Join(home, ".config/holdpoint/guard/claude-code.key"))
	if err != nil || string(key) != "hp_agentkey\n" {
		t.Errorf("the key is %q, %v", key, err)
	}
	err = filepath.Walk(home, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			text, _ := os.ReadFile(path)
			if strings.Contains(string(text), "t0ken") {
				t.Errorf("%s has the operator's token", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Again: nothing changes, and no second key is made.
	before := len(f.asked)
	got = run(t, env, "", args...).wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "Nothing to change.")
	if strings.Contains(strings.Join(f.asked[before:], "\n"), "keys") {
		t.Errorf("asked %v", f.asked)
	}
	delete(env, "HOLDPOINT_TOKEN")
	got = run(t, env, "", "guard", "show", "claude-code", "--scope", "user").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, program+" hook claude-code --url "+f.URL+" --agent laptop", "version 2")
	got = run(t, env, "", "guard", "status", "--scope", "user").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, ".claude/settings.json): works")
	reported := f.listReports()
	if len(reported) != 2 || reported[0] != reported[1] || !strings.Contains(reported[0], `"every":0,"problems":null,"removed":false`) {
		t.Errorf("reported %q", reported)
	}
	got = run(t, env, "", "guard", "remove", "claude-code", "--scope", "user").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "Removed "+home+"/.claude/settings.json")
	wantContains(t, "stderr", got.stderr, "Operators are alerted")
	wantContains(t, "the last report", f.listReports()[2], `"removed":true`)
	got = run(t, env, "", "guard", "status", "claude-code", "--scope", "user").wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, "no guard is installed here")
}

// listReports returns the reports about guards, with the path of each.
func (f *fake) listReports() (reports []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, asked := range f.asked {
		if strings.HasPrefix(asked, "PUT /agents/laptop/guards/") {
			reports = append(reports, asked+" "+f.bodies[i])
		}
	}
	return reports
}

// Installing again keeps the settings whose flags are not given, and an empty flag takes one away.
func TestGuardInstallKeepsSettings(t *testing.T) {
	t.Parallel()
	home, program := guardHome(t, canaryRefused)
	env := map[string]string{"HOME": home, "HOLDPOINT_URL": "http://localhost:1"}
	install := []string{"guard", "gemini", "--scope", "user"}
	again := func(args ...string) string {
		t.Helper()
		run(t, env, "", append(install, args...)...).wantCode(t, 0)
		return run(t, env, "", "guard", "show", "gemini", "--scope", "user").wantCode(t, 0).stdout
	}
	run(t, env, "hp_key\n", append(install, "--agent", "laptop", "--skill", "tools", "--program", program, "--key-file", "-", "--proxy", "http://proxy:1",
		"--ca-file", "/ca.pem", "--wait", "7m")...).wantCode(t, 0)
	for _, args := range [][]string{nil, {"--agent", "laptop"}} {
		wantContains(t, "the guard", again(args...), program+" hook", "--agent laptop", "--skill tools", "--wait 7m0s", "--proxy http://proxy:1", "--ca-file /ca.pem")
	}
	if got := again("--proxy", "", "--wait", "8m"); strings.Contains(got, "--proxy") || !strings.Contains(got, "--wait 8m0s") {
		t.Errorf("with other flags:\n%s", got)
	}
}

// Installing again keeps the file of policies, and --policy=false removes it.
func TestGuardInstallKeepsPolicy(t *testing.T) {
	t.Parallel()
	home, _ := guardHome(t, canaryRefused)
	root := t.TempDir()
	program, err := filepath.EvalSymlinks("/bin/sh") // a program of root
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": home, "HOLDPOINT_URL": "http://localhost:1"}
	install := []string{"guard", "gemini", "--scope", "machine", "--root", root}
	run(t, env, "hp_key\n", append(install, "--agent", "laptop", "--program", program, "--key-file", "-", "--policy")...).wantCode(t, 0)
	policies := filepath.Join(root, "etc/gemini-cli/policies/holdpoint.toml")
	unit := filepath.Join(root, "etc/systemd/system/holdpoint-guard.service")
	if _, err := os.Stat(unit); err == nil {
		t.Error("a service of systemd is written where it does not run")
	}
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		kept bool
	}{{nil, true}, {[]string{"--policy=false"}, false}} {
		run(t, env, "", append(install, c.args...)...).wantCode(t, 0)
		if _, err := os.Stat(policies); (err == nil) != c.kept {
			t.Errorf("after installing again with %v: %v", c.args, err)
		}
		if text, err := os.ReadFile(unit); err != nil || !strings.Contains(string(text), "ExecStart=\""+program+"\" guard watch --scope machine\n") {
			t.Errorf("the watcher's service: %s, %v", text, err)
		}
	}
	watchKey, err := os.Stat(filepath.Join(root, "etc/holdpoint/guard/gemini.watch"))
	if err != nil || watchKey.Mode().Perm() != 0o400 {
		t.Errorf("the watch key: %v, %v", watchKey, err)
	}
	remove := []string{"guard", "remove", "gemini", "--scope", "machine", "--root", root}
	run(t, env, "", remove...).wantCode(t, 0)
	for _, path := range []string{unit, filepath.Join(root, "etc/holdpoint/guard/gemini.watch")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	wantContains(t, "stdout", run(t, env, "", remove...).wantCode(t, 0).stdout, "Nothing to change.")
}

// A skill that exists must be about the host's built-in tools. What lets calls pass without a person is said.
func TestGuardInstallChecksTheSkill(t *testing.T) {
	t.Parallel()
	home, program := guardHome(t, canaryRefused)
	for skill, want := range map[string]string{
		`{"transport":"http"}`:                                          "--skill claude-code: must be a skill with transport gate, and has http",
		`{"transport":"gate","host":"codex"}`:                           `must be a skill of host claude-code, and has "codex"`,
		`{"transport":"gate"}`:                                          `must be a skill of host claude-code, and has ""`,
		`{"transport":"gate","host":"claude-code","auto_approve":true}`: "Skill claude-code has auto_approve",
	} {
		f := newFake(t).setAnswer("GET /api/v1/skills/claude-code", skill)
		env := f.env()
		env["HOME"] = home
		got := run(t, env, "", "guard", "claude-code", "--scope", "user", "--agent", "laptop", "--program", program).wantCode(t, 1) // the fake knows no agents
		wantContains(t, "stderr", got.stderr, want)
	}
}

// A key that an earlier guard stored goes to the server and the agent of that guard alone.
func TestGuardInstallKeepsKeysApart(t *testing.T) {
	t.Parallel()
	home, program := guardHome(t, canaryRefused)
	env := map[string]string{"HOME": home, "HOLDPOINT_URL": "http://localhost:1"}
	install := []string{"guard", "codex", "--scope", "user", "--program", program}
	run(t, env, "hp_key\n", append(install, "--agent", "laptop", "--key-file", "-")...).wantCode(t, 0)
	run(t, env, "", install...).wantCode(t, 0)
	for _, args := range [][]string{{"--url", "https://other.example.com"}, {"--agent", "other"}} {
		got := run(t, env, "", append(install, args...)...).wantCode(t, 1)
		wantContains(t, "stderr", got.stderr, "--key-file: must name a file with a key of agent")
	}
}

// After the hook was removed by hand, or the server is away, status fails and says so.
func TestGuardStatus(t *testing.T) {
	t.Parallel()
	home, program := guardHome(t, canaryRefused)
	env := map[string]string{"HOME": home, "HOLDPOINT_URL": "http://localhost:1"}
	run(t, env, "hp_key\n", "guard", "install", "copilot", "--scope", "user", "--agent", "laptop", "--program", program, "--key-file", "-").wantCode(t, 0)
	got := run(t, env, "", "guard", "status", "--scope", "user", "--json").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, `{"copilot":[]}`)
	writeProgram(t, program, "echo 'connection refused' >&2\nexit 2")
	got = run(t, env, "", "guard", "status", "--scope", "user").wantCode(t, 1)
	wantContains(t, "stdout", got.stdout, "copilot (", "): DOES NOT HOLD", "BROKEN: the hook refuses every call, because it cannot ask the server: connection refused")
	if err := os.Remove(filepath.Join(home, ".copilot/hooks/holdpoint.json")); err != nil {
		t.Fatal(err)
	}
	got = run(t, env, "", "guard", "status", "copilot", "--scope", "user").wantCode(t, 1)
	wantContains(t, "stdout", got.stdout, "BROKEN", "the hook is gone")
	got = run(t, env, "", "guard", "watch", "--scope", "user", "--until-broken").wantCode(t, 1)
	wantContains(t, "stdout", got.stdout, "hooks/holdpoint.json: DOES NOT HOLD", "the hook is gone")
}

// onText is a writer that runs a function when a text is written.
type onText struct {
	text string
	do   func()
}

func (o *onText) Write(b []byte) (int, error) {
	if strings.Contains(string(b), o.text) {
		o.do()
	}
	return len(b), nil
}

// A guard that is watched and then removed by hand, with its record, is told as gone.
func TestGuardWatch(t *testing.T) {
	t.Parallel()
	home, program := guardHome(t, canaryRefused)
	f := newFake(t)
	env := map[string]string{"HOME": home, "HOLDPOINT_URL": f.URL}
	run(t, env, "hp_key\n", "guard", "install", "gemini", "--scope", "user", "--agent", "laptop", "--program", program, "--key-file", "-").wantCode(t, 0)
	var gone strings.Builder
	e := &cli.Env{
		Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(""), Stderr: &bytes.Buffer{}, Now: time.Now,
		Stdout: io.MultiWriter(&gone, &onText{": holds", func() {
			if err := os.RemoveAll(filepath.Join(home, ".config")); err != nil {
				t.Error(err)
			}
		}}),
	}
	if code := cli.Run(t.Context(), e, []string{"guard", "watch", "--scope", "user", "--until-broken", "--interval", "100ms"}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	wantContains(t, "stdout", gone.String(), "settings.json: holds", "settings.json: DOES NOT HOLD", "the guard is gone")
	reports := f.listReports()
	if len(reports) != 3 {
		t.Fatalf("reported %q", reports)
	}
	wantContains(t, "the installation", reports[0], `"every":0`, `"host":"gemini"`, `"scope":"user"`, `"watch_key":"`)
	wantContains(t, "the first report", reports[1], `"every":15,"problems":null,"removed":false`)
	wantContains(t, "the last report", reports[2], `"every":15,"problems":["the guard is gone"],"removed":true`)
}

func TestGuardRefusesBadSettings(t *testing.T) {
	t.Parallel()
	home, program := guardHome(t, "exit 1")
	env := map[string]string{"HOME": home}
	for args, want := range map[string]string{
		"guard":       "accepts 1 arg",
		"guard emacs": `host "emacs": must be one of claude-code, codex`,
		"guard codex": "--agent: must name the agent",
		"guard codex --agent a --program " + program:                          "--key-file: must name a file with a key of agent a",
		"guard codex --agent a --program /nowhere":                            "--program",
		"guard codex --agent a --url http://example.com --program " + program: "must begin with https",
		"guard codex --agent a --url http://x.localhost --program " + program: "must begin with https",
		"guard codex --agent a --wait 24h --program " + program:               "--wait 24h0m0s: must be between 5s and 12h",
		"guard codex --agent a --wait 4s --program " + program:                "--wait 4s: must be between 5s and 12h",
		"guard codex --agent a --policy --program " + program:                 "--policy: must be used with gemini",
		"guard codex --agent a --key-file /nowhere --program " + program:      "--key-file",
		"guard codex --data-dir /x":                                           "--data-dir: must be used with --local",
		"guard codex --local --dry-run":                                       "--local: must be used without --dry-run",
		"guard codex --local --url http://10.0.0.1:8080":                      `--url "http://10.0.0.1:8080": must be an http:// address of this machine`,
		"guard codex --local --scope machine --url http://127.0.0.1:8080/x":   "must have a port below 1024 with --scope machine",
		"guard rules claude-code":                                             `--agent "": must be`,
		"guard rules claude-code --project /":                                 "--project /: must be a folder below",
		"guard import gemini":                                                 "must be claude-code or codex",
		"guard status --scope nobody":                                         `--scope "nobody": must be machine or user`,
		"guard watch --interval 1ms":                                          "--interval 1ms: must be between",
	} {
		words := strings.Fields(args)
		if len(words) > 1 && !strings.Contains(args, "--scope") && words[1] != "rules" && words[1] != "import" {
			words = append(words, "--scope", "user")
		}
		got := run(t, env, "", words...).wantCode(t, 1)
		wantContains(t, args, got.stderr, want)
	}
	if _, err := os.Stat(filepath.Join(home, ".codex")); err == nil {
		t.Error("files were written")
	}
}

func TestGuardRulesAndImport(t *testing.T) {
	t.Parallel()
	home, _ := guardHome(t, "exit 1")
	settings := filepath.Join(home, ".claude", "settings.json")
	if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, []byte(`{"permissions":{"allow":["Bash(git status)","Bash"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t).setAnswer("POST /api/v1/apply", `{"items":[{"action":"create","kind":"rule","name":"x"}]}`)
	env := f.env()
	env["HOME"] = home
	got := run(t, env, "", "guard", "rules", "claude-code", "--project", "/src/app", "--agent", "a", "--skill", "laptop").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "version 2", "name: guard-a-laptop-read", `within(args.file_path, "/src/app")`)
	got = run(t, env, "", "guard", "import", "claude-code", settings, "--agent", "laptop").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "rules:", `args.command == "git status"`)
	wantContains(t, "stderr", got.stderr, "Bash: left out: it would allow every command")
	run(t, env, "", "guard", "import", "claude-code", settings, "--agent", "laptop", "--apply").wantCode(t, 0)
	wantContains(t, "the request", f.getLastBody(), `"agents":["laptop"]`, `"effect":"allow"`, `git status`)
}

// The test passes only if the server's refusal reaches the model of the host itself.
func TestGuardTestStartsTheHost(t *testing.T) {
	home, program := guardHome(t, canaryRefused)
	env := map[string]string{"HOME": home, "HOLDPOINT_URL": "http://localhost:1"}
	run(t, env, "hp_key\n", "guard", "install", "claude-code", "--scope", "user", "--agent", "laptop", "--program", program, "--key-file", "-").wantCode(t, 0)
	host := filepath.Join(filepath.Dir(program), "claude")
	t.Setenv("PATH", filepath.Dir(program)+":"+os.Getenv("PATH"))
	t.Setenv("HOLDPOINT_TOKEN", "t0ken")
	for script, want := range map[string]string{
		`[ -z "$HOLDPOINT_TOKEN" ] || exit 7; case "$2" in *"` + guard.CanaryText + `"*) echo '{"tool_result":"` + guard.CanaryMessage + `"}';; esac`: "",
		"echo done":                  "the server's refusal did not reach its model",
		"echo not signed in; exit 1": "exit status 1",
	} {
		writeProgram(t, host, script)
		code := 0
		if want != "" {
			code = 1
		}
		got := run(t, env, "", "guard", "test", "claude-code", "--scope", "user").wantCode(t, code)
		wantContains(t, "stderr", got.stderr, want)
	}
}
