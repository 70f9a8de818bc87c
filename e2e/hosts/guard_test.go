//go:build hosts

package hosts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuard installs the guard of each agent in the settings of the machine. The agent itself, which the guard starts, and the status prove that it
// holds. Both fail after its file was taken away by hand.
func TestGuard(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, a, newModel(t, a.shell("holdpoint guard canary")))
			a.install(r, installed{})
			r.copyEtc()
			_, env := a.command(r, a.modes[0])
			env = append(env, "HOME="+r.home, "PATH="+filepath.Join(modules, ".bin")+":"+os.Getenv("PATH"), "NO_COLOR=1", "CI=1")
			guard := func(holds bool, env []string, words ...string) {
				t.Helper()
				words = append(append(inMachine(r.etc), hookProgram, "guard"), words...)
				command := exec.Command(words[0], words[1:]...)
				command.Dir, command.Env = r.project, env
				out, err := command.CombinedOutput()
				if (err == nil) != holds {
					t.Errorf("%q: %v: %s; its model was told %s and did not understand %v", words, err, out, r.model.toldResults(), r.model.log)
				}
			}
			guard(true, append(env, "HOLDPOINT_URL="+s.URL, "HOLDPOINT_TOKEN="+bootstrapToken),
				a.name, "--scope", "machine", "--agent", "guarded-"+a.name, "--project", r.project, "--program", hookProgram)
			guard(true, env, "status", a.name)
			guard(true, env, "test", a.name, "--timeout", "30m")
			if told := r.model.toldResults(); !strings.Contains(told, "the canary was refused") {
				t.Errorf("its model was told %s", told)
			}
			if err := os.Remove(r.settingsFile()); err != nil {
				t.Fatal(err)
			}
			guard(false, env, "status", a.name)
			guard(false, env, "test", a.name, "--timeout", "30m")
		})
	}
}
