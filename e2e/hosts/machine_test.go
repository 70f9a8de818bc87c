//go:build hosts

package hosts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// The guards under test are those of the machine. Each run has its own copy of /etc, in a mount namespace of its own.

// inMachine returns the words before a command that run it with another folder in place of /etc.
func inMachine(etc string) []string {
	flags := "-m"
	if os.Geteuid() != 0 {
		flags = "-rm" // a user namespace too
	}
	return []string{"unshare", flags, "sh", "-c", `mount --bind "$0" /etc && exec "$@"`, etc}
}

// Paths of the program in the machine of a run: the one that hosts start, and holdpoint itself.
const (
	hookProgram = "/etc/holdpoint/bin/holdpoint"
	realProgram = "/etc/holdpoint/bin/real"
)

// guard installs the guard of the machine, as the documentation says. Then a script takes the place of holdpoint.
func (r *run) guard(url, script string, flags ...string) {
	r.t.Helper()
	r.copyEtc()
	key := filepath.Join(r.home, "holdpoint.key")
	r.writeFile(key, "hpa_key\n")
	installed := r.inEtc(hookProgram)
	words := append(inMachine(r.etc), hookProgram, "guard", r.agent.name, "--scope", "machine", "--no-rules", "--program", hookProgram,
		"--agent", r.caller(), "--key-file", key, "--url", url, "--wait", "30m")
	r.mustRun(append(words, flags...)...)
	if err := os.Rename(installed, r.inEtc(realProgram)); err != nil {
		r.t.Fatal(err)
	}
	r.writeFile(installed, script)
	if err := os.Chmod(installed, 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// copyEtc makes the copy of /etc, with holdpoint in it.
func (r *run) copyEtc() {
	r.t.Helper()
	r.etc = filepath.Join(filepath.Dir(r.home), "etc")
	r.mustRun("sh", "-c", `mkdir "$0" && cp -a /etc/. "$0"; cd "$0" && test -e passwd && mkdir -p holdpoint/bin && { ln "$1" "$2" || cp "$1" "$2"; }`,
		r.etc, built.Path, r.inEtc(hookProgram))
}

// settingsFile returns the place of the file in the run's machine that has the hook.
func (r *run) settingsFile() string {
	return r.inEtc(map[string]string{
		host.ClaudeCode: "/etc/claude-code/managed-settings.json", host.Codex: "/etc/codex/requirements.toml", host.Gemini: "/etc/gemini-cli/settings.json",
		host.Copilot: "/etc/github-copilot/policy.d/holdpoint.json", host.OpenCode: "/etc/opencode/plugins/holdpoint.js",
	}[r.agent.name])
}

// inEtc returns the place of a file below /etc of the run's machine.
func (r *run) inEtc(path string) string {
	return filepath.Join(r.etc, strings.TrimPrefix(path, "/etc"))
}

// caller is the name of Holdpoint's agent. The command lines of the run's hooks contain it.
func (r *run) caller() string { return fmt.Sprintf("%s-%d", r.agent.name, r.number) }

func (r *run) mustRun(words ...string) {
	r.t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Env = []string{"HOME=" + r.home, "PATH=" + os.Getenv("PATH")}
	if out, err := command.CombinedOutput(); err != nil {
		r.t.Fatalf("%q: %v: %s", words, err, out)
	}
}
