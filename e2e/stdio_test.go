package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestStdioEnvironment: a child gets its skill's variables and none of Holdpoint's.
func TestStdioEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.serverOptions()
	o.Env = []string{
		"HOLDPOINT_BOOTSTRAP_TOKEN=" + bootstrapToken, "SECRET_OF_THE_SERVER=shown-to-nobody", "HOME=" + t.TempDir(),
	}
	p := program.Serve(t, o)
	w.applyManifest(p, stdioSkill(t, t.TempDir()+"/arrivals"))
	agent := newStubborn(w.newAgent(p, "worker"), p)
	done := agent.beginCall(t.Context(), "local__environ", `{}`)
	if err := <-approveUntilDecided(t, "", agent); err != nil {
		t.Fatal(err)
	}
	got := <-done
	var environ []string
	if err := json.Unmarshal([]byte(got.answer.Text()), &environ); err != nil {
		t.Fatalf("the child answered %s, %v: %v", got.answer.Raw, got.err, err)
	}
	values := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
		if !slices.Contains([]string{"PATH", "LANG", "HOME", "TMPDIR", "GIVEN"}, name) {
			t.Errorf("the child has %s", variable)
		}
	}
	for _, secret := range []string{bootstrapToken, "shown-to-nobody", w.databaseURL} {
		if strings.Contains(got.answer.Text(), secret) {
			t.Errorf("the child knows %q", secret)
		}
	}
	if values["GIVEN"] != "a value" {
		t.Errorf("GIVEN is %q", values["GIVEN"])
	}
	if home := values["HOME"]; home == "" || home == os.Getenv("HOME") || !strings.HasPrefix(home, w.dataDir) {
		t.Errorf("HOME is %q, want a private one below the data directory", home)
	}
}

// TestStdioAttacker: a skill's malicious program cannot read from, kill or trace the server, and can exhaust only its
// own resources.
func TestStdioAttacker(t *testing.T) {
	t.Parallel()
	t.Run("as I am", func(t *testing.T) { attackServer(t, newEmbeddedWorld(t)) })
	t.Run("as an ordinary user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Log("the tests run as an ordinary user: the case above was this one")
			return
		}
		attackServer(t, ordinaryWorld(t))
	})
}

// attackServer attacks a server from one skill while another one works.
func attackServer(t *testing.T, w *world) {
	o := w.serverOptions()
	o.Env = append(o.Env, "SECRET_OF_THE_SERVER=shown-to-nobody")
	p := program.Serve(t, o)
	command := skill.StdioCommand(t, t.TempDir()+"/arrivals")
	declared := fmt.Sprintf(`{transport: stdio, auto_approve: true, call_timeout: 10m, command: [%q, %q, %q]`, command[0], command[1], command[2])
	w.applyManifest(p, fmt.Sprintf("skills:\n  - %s, name: local}\n  - %s, name: calm}\nagents:\n  - {name: worker, wait_budget: 10m, skills: [local, calm]}\n",
		declared, declared))
	agent := w.newAgent(p, "worker")
	said := func(tool, arguments string) string {
		t.Helper()
		answer, err := agent.CallTool(t.Context(), tool, arguments)
		if err != nil || answer.Text() == "" {
			t.Fatalf("%s %s: %s, %v", tool, arguments, answer.Raw, err)
		}
		return answer.Text()
	}
	shell := func(script string) string { return said("local__shell", fmt.Sprintf(`{"script":%q}`, script)) }
	if got := shell("echo hello > file && cat file"); !strings.HasPrefix(got, "hello") {
		t.Fatalf("it cannot work: %s", got)
	}

	server, database := strconv.Itoa(p.PID()), w.dataDir+"/postgres"
	for _, path := range []string{"secret.keyset.json", "postgres/password", "postgres/data/PG_VERSION", "postgres/run/.s.PGSQL.5432"} {
		if _, err := os.Lstat(filepath.Join(w.dataDir, path)); err != nil {
			t.Fatalf("there is nothing to attack: %v", err)
		}
	}
	for _, script := range []string{
		"cat " + w.dataDir + "/secret.keyset.json", "ls " + w.dataDir, "cat " + database + "/password", "ls " + database + "/data",
		"cat /proc/" + server + "/environ", "cat /proc/" + server + "/cmdline", "head -c1 /proc/" + server + "/mem",
		"cat /proc/" + server + "/maps", "ls /proc/" + server + "/fd", "ls /proc/" + server + "/task",
		"kill -9 " + server, "kill -STOP " + server, "kill -9 " + strconv.Itoa(mustRun(t, w.dataDir)),
		"chmod 777 " + w.dataDir, "chmod 777 " + w.dataDir + "/secret.keyset.json", "chmod 777 " + database + "/data",
		"echo > " + w.dataDir + "/secret.keyset.json", "rm -r " + w.dataDir, "ls " + filepath.Dir(w.dataDir), "ls ..", "echo > " + program.Path,
	} {
		if got := shell("(" + script + ") && echo succeeded"); strings.Contains(got, "succeeded") {
			t.Errorf("%s: %s", script, got)
		}
	}
	for act, targets := range map[string][]string{
		"connect": {
			"host=" + database + "/run user=holdpoint password=guessed", "host=127.0.0.1 user=holdpoint password=guessed",
			"host=" + database + "/run user=postgres dbname=template1 password=guessed",
		},
		"trace": {server}, "take a file": {server}, "limit": {server},
	} {
		for _, target := range targets {
			if got := said("local__attack", fmt.Sprintf(`{"act":%q,"target":%q}`, act, target)); !strings.HasPrefix(got, "refused: ") {
				t.Errorf("%s %s: %s", act, target, got)
			}
		}
	}
	if err := p.Ready(); err != nil {
		t.Errorf("the server: %v", err)
	}
	// Other accounts on the machine must not see it either.
	shown, err := os.ReadFile("/proc/" + server + "/environ")
	switch info, statErr := os.Stat("/proc/" + server + "/environ"); {
	case os.Geteuid() != 0 && err == nil:
		t.Errorf("the server's account reads its environment: %s", shown)
	case err != nil && errors.Is(err, os.ErrPermission): // in many containers not even root may
	case os.Geteuid() == 0 && (err != nil || !strings.Contains(string(shown), "PATH=")):
		t.Errorf("the environment is %q, %v", shown, err)
	case strings.Contains(string(shown), "shown-to-nobody"), strings.Contains(string(shown), bootstrapToken):
		t.Errorf("the environment shows %s", shown)
	case statErr != nil || info.Sys().(*syscall.Stat_t).Uid != 0: // then only root may read it
		t.Errorf("the environment belongs to %v, %v", info, statErr)
	}

	// The marks identify leftover processes by their command lines.
	mark := fmt.Sprintf("%d.%d", 100_000, p.Port)
	testWaste(t, agent, p, mark, "while :; do sleep "+mark+" & done", "processes and threads")
	testWaste(t, agent, p, mark, "for i in 1 2 3 4 5 6 7 8 9 10; do (head -c 1073741824 /dev/zero | tail; sleep "+mark+") & done; wait", "MiB of memory")
	eventually.Succeeds(t, patience, "the program, started again", func() error {
		if got := shell("echo hello"); !strings.HasPrefix(got, "hello") {
			return errors.New(got)
		}
		return nil
	})
}

// testWaste runs a script that exhausts a resource. The script is killed with its children for that reason, while
// another skill answers.
func testWaste(t *testing.T, agent holdpoint.Agent, p *holdpoint.Process, mark, script, reason string) {
	t.Helper()
	type outcome struct {
		answer holdpoint.Answer
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := agent.CallTool(t.Context(), "local__shell", fmt.Sprintf(`{"script":%q}`, script))
		done <- outcome{answer, err}
	}()
	for ended := false; !ended; {
		eventually.Succeeds(t, patience, "an answer of another skill meanwhile", func() error { // a connection may be lost on a stalled machine
			answer, err := agent.CallTool(t.Context(), "calm__environ", `{}`)
			if err == nil && !strings.Contains(answer.Text(), "HOME=") {
				err = errors.New(string(answer.Raw))
			}
			return err
		})
		select {
		case got := <-done:
			if ended = true; got.err != nil || !strings.Contains(got.answer.Text(), reason) {
				t.Errorf("%s: %s, %v; want a failure for its %s", script, got.answer.Raw, got.err, reason)
			}
		default:
		}
	}
	eventually.Succeeds(t, patience, "the end of what it started", func() error {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, line := range lines {
			if text, _ := os.ReadFile(line); strings.Contains(string(text), "sleep\x00"+mark) {
				return fmt.Errorf("%s is %q", line, text)
			}
		}
		return err
	})
	eventually.Succeeds(t, patience, "a server that is ready", p.Ready)
}

// TestRefusedAfterUpgrade: serve and doctor list refused skills, with the flags that allow them again.
func TestRefusedAfterUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := t.TempDir() + "/arrivals"
	before := w.startServer()
	w.applyManifest(before, stdioSkill(t, file))
	if err := before.Interrupt(t); err != nil {
		t.Fatal(err)
	}

	o := w.serverOptions()
	o.Programs, o.Only = nil, true
	refused := program.Serve(t, o)
	if log := refused.Output(); !strings.Contains(log, "skill is refused") || !strings.Contains(log, "--stdio-allow") {
		t.Errorf("serve says nothing of it:\n%s", log)
	}
	probe := newCLI(refused, bootstrapToken).Run(t, "skill", "probe", "local")
	if said := probe.Stdout + probe.Stderr; !strings.Contains(said, "stdio is switched off on this server: start it with --stdio-allow") {
		t.Errorf("the probe says %s", said)
	}
	if err := refused.Interrupt(t); err != nil {
		t.Fatal(err)
	}

	doctor := newCLI(refused, "")
	doctor.Env = w.databaseEnv()
	said := doctor.Run(t, "doctor", "--data-dir", w.dataDir).Stdout
	_, advice, found := strings.Cut(said, "start serve with ")
	flags, err := tool.SplitWords(strings.Split(advice, "\n")[0])
	if !found || err != nil {
		t.Fatalf("doctor: %v\n%s", err, said)
	}
	if said := doctor.Run(t, append([]string{"doctor", "--data-dir", w.dataDir}, flags...)...).Stdout; strings.Contains(said, "is not run") {
		t.Errorf("with the flags, doctor says\n%s", said)
	}
	o.Args = append(o.Args, flags...)
	after := program.Serve(t, o)
	newCLI(after, bootstrapToken).Must(t, "skill", "probe", "local")
	if err := os.Chmod(filepath.Dir(file), 0o500); err != nil {
		t.Fatal(err)
	}
	if said := newCLI(after, bootstrapToken).Must(t, "skill", "probe", "local"); !strings.Contains(said, "file permissions, not the sandbox, refuse writing of "+filepath.Dir(file)) {
		t.Errorf("the probe does not say who refuses the folder: %s", said)
	}
}
