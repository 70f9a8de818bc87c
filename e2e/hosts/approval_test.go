//go:build hosts

package hosts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/runtime/host"
)

const bootstrapToken = "hosts-bootstrap-token-of-32-letters"

// server is a real Holdpoint with a skill and an agent for each host.
type server struct {
	*holdpoint.Process
	options holdpoint.Options
	keys    map[string]string // files, by host
}

func (s *server) api() holdpoint.API { return holdpoint.API{URL: s.URL, Token: bootstrapToken} }

func startServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{keys: map[string]string{}, options: holdpoint.Options{
		DatabaseURL: postgrestest.New(t).URL(), DataDir: filepath.Join(dir, "data"), Token: bootstrapToken,
	}}
	s.Process = built.Serve(t, s.options)
	var manifest strings.Builder
	manifest.WriteString("skills:\n")
	for _, a := range agents() {
		fmt.Fprintf(&manifest, "  - {name: %s, transport: gate, host: %s, approval_timeout: 30m}\n", a.name, a.name)
	}
	manifest.WriteString("agents:\n")
	for _, a := range agents() {
		fmt.Fprintf(&manifest, "  - {name: with-%s, skills: [%s]}\n", a.name, a.name)
	}
	path := filepath.Join(dir, "holdpoint.yaml")
	if err := os.WriteFile(path, []byte(manifest.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cli := holdpoint.CLI{Program: built, URL: s.URL, Token: bootstrapToken}
	cli.Must(t, "apply", "-f", path)
	// A person who invited another one decides no calls of agents whose keys that one made, and the other way around.
	invitation := cli.Must(t, "invitation", "create", "--name", "keeper", "--role", "operator")
	keeper := holdpoint.CLI{Program: built, URL: s.URL}
	keeper.Token = strings.TrimSpace(keeper.Must(t, "invitation", "redeem", strings.TrimSpace(invitation)))
	for _, a := range agents() {
		s.keys[a.name] = filepath.Join(dir, a.name+".key")
		if err := os.WriteFile(s.keys[a.name], []byte(keeper.Must(t, "agent", "key", "create", "with-"+a.name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// startAgent starts an agent with the hook of the server.
func (s *server) startAgent(t *testing.T, a agent, steps []step, flags ...string) *run {
	t.Helper()
	return s.startRun(t, newRun(t, a, newModel(t)), steps, flags...)
}

func (s *server) startRun(t *testing.T, r *run, steps []step, flags ...string) *run {
	t.Helper()
	a := r.agent
	r.model.steps = inProject(steps, r.project)
	all := append([]string{"--url", s.URL, "--agent", "with-" + a.name, "--key-file", s.keys[a.name], "--wait", "30m", "--state-dir", filepath.Join(r.home, "state")}, flags...)
	h := installed{command: wrap(built.Path, a.name, all)}
	if a.name == host.OpenCode {
		h.plugin = pluginFor(t, built.Path, all)
	}
	a.install(r, h)
	r.start(a.modes[0])
	return r
}

// pending waits for the approval of a call whose arguments contain a text, made in a run's folder.
func (s *server) pending(t *testing.T, r *run, text string) holdpoint.Approval {
	t.Helper()
	var found holdpoint.Approval
	eventually.Succeeds(t, 20*time.Minute, "a call of "+r.agent.name+" waits", func() error {
		list, err := holdpoint.List[holdpoint.Approval](t.Context(), s.api(), "approvals", "status=pending")
		if err != nil {
			return err
		}
		for _, a := range list {
			if strings.Contains(string(a.Arguments), text) {
				found = a
				return nil
			}
		}
		err = fmt.Errorf("%d calls wait, none with %s; the agent printed %s; its model: %v; it was told %s", len(list), text, r.output.String(), r.model.log, r.model.toldResults())
		if r.hasEnded() {
			t.Fatal(err)
		}
		return err
	})
	return found
}

// TestDecisions lets each agent want a shell command and an edit. They happen after an approval, and never without one.
func TestDecisions(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, a := range agents() {
		for _, approve := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", a.name, approve), func(t *testing.T) {
				t.Parallel()
				name, text := fmt.Sprintf("file-%s-%t", a.name, approve), fmt.Sprintf("new-%s-%t", a.name, approve)
				steps, reads := []step{a.shell("echo hi > " + name)}, a.name == host.ClaudeCode || a.name == host.OpenCode
				if reads { // before it may edit
					steps = append(steps, a.prepare...)
				}
				r := s.startAgent(t, a, append(steps, a.edit("old", text)))
				command := &decided{s.pending(t, r, name), approve, "no commands on a Thursday", func() bool { return r.hasFile(name) }}
				s.decide(t, r, command)
				if reads {
					if err := s.api().Approve(t.Context(), s.pending(t, r, r.project)); err != nil {
						t.Fatal(err)
					}
				}
				edit := &decided{s.pending(t, r, text), approve, "no edits on a Thursday", func() bool { return r.note() != "old\n" }}
				s.decide(t, r, edit)
				s.wantDecided(t, r, command, edit)
			})
		}
	}
}

// decided is a call that a person decides.
type decided struct {
	holdpoint.Approval

	approve  bool
	reason   string      // of a rejection
	happened func() bool // reports whether the tool ran
}

// decide checks that the tool did not run, and decides.
func (s *server) decide(t *testing.T, r *run, d *decided) {
	t.Helper()
	if d.happened() {
		t.Fatalf("%s ran a call that waits", r.agent.name)
	}
	var err error
	if d.approve {
		err = s.api().Approve(t.Context(), d.Approval)
	} else {
		err = s.api().Reject(t.Context(), d.Approval, d.reason)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantDecided waits until the agent ends, and checks what happened.
func (s *server) wantDecided(t *testing.T, r *run, all ...*decided) {
	t.Helper()
	r.wait()
	told := r.model.toldResults()
	for _, d := range all {
		if d.happened() != d.approve {
			t.Errorf("%s ran the call: %t, want %t; it printed %s; its model was told %s", r.agent.name, !d.approve, d.approve, r.output.String(), told)
		}
		if !d.approve && !strings.Contains(told, d.reason) {
			t.Errorf("the model of %s was told %s, want %s", r.agent.name, told, d.reason)
		}
		if !d.approve {
			continue
		}
		eventually.Succeeds(t, time.Minute, "the outcome is reported", func() error {
			call, err := s.api().Call(t.Context(), d.CallID)
			if err == nil && call.Status != "succeeded" {
				err = fmt.Errorf("the call is %s", call.Status)
			}
			return err
		})
	}
}

// deferCall runs Claude Code until a call waits that adds a line to a file. It returns the words that resume the run.
func (s *server) deferCall(t *testing.T) (*run, []string) {
	t.Helper()
	a := claudeCode()
	r := s.startAgent(t, a, []step{addLine()}, "--defer")
	r.wait()
	var ended struct {
		SessionID  string `json:"session_id"`
		StopReason string `json:"stop_reason"`
	}
	if err := json.Unmarshal(r.output.Bytes(), &ended); err != nil || ended.StopReason != "tool_deferred" {
		t.Fatalf("it ended with %s (%v)", r.output.String(), err)
	}
	r.output.Reset()
	args, _ := a.command(r, a.modes[0])
	return r, append([]string{args[0], "-p", "--resume", ended.SessionID, ""}, args[3:]...)
}

func addLine() step { return claudeCode().shell("echo hi >> file # deferred") }

// wantOneLine checks that the call ran once.
func wantOneLine(t *testing.T, r *run) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.project, "file"))
	if err != nil || string(text) != "hi\n" {
		t.Errorf("the file has %q (%v); it printed %s", text, err, r.output.String())
	}
}

func (s *server) listApprovals(t *testing.T, query string) []holdpoint.Approval {
	t.Helper()
	list, err := holdpoint.List[holdpoint.Approval](t.Context(), s.api(), "approvals", query)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDefer ends a headless run of Claude Code while a call waits, restarts the server, approves, and resumes: the call runs once.
func TestDefer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r, resume := s.deferCall(t)
	shown := s.pending(t, r, "deferred")
	s.Kill()
	s.AwaitKilled(t)
	s.options.Port = s.Port
	s.Process = built.Serve(t, s.options)
	if list := s.listApprovals(t, "status=pending"); len(list) != 1 || list[0].ID != shown.ID {
		t.Fatalf("%d calls wait", len(list))
	}
	if err := s.api().Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	r.resume = resume
	r.start(r.agent.modes[0])
	r.wait()
	wantOneLine(t, r)
}

// TestDeferAndRepeat lets a second run of Claude Code want the deferred command: it waits for the same approval, which lets it run once.
func TestDeferAndRepeat(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r, resume := s.deferCall(t)
	shown := s.pending(t, r, "deferred")
	second := newRun(t, r.agent, newModel(t))
	second.project = r.project
	s.startRun(t, second, []step{addLine()})
	if err := s.api().Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	second.wait()
	wantOneLine(t, r)
	if list := s.listApprovals(t, ""); len(list) != 1 {
		t.Errorf("%d calls were parked", len(list))
	}
	r.resume = resume
	r.start(r.agent.modes[0])
	r.wait()
	wantOneLine(t, r)
}

// wrap makes the command that a host runs, as the docs say.
func wrap(program, name string, flags []string) string {
	return "'" + program + "' hook " + name + " '" + strings.Join(flags, "' '") + "' || { [ $? -eq 2 ] || echo 'Holdpoint: hook failed' >&2; echo 'Holdpoint: call refused' >&2; exit 2; }"
}

// pluginFor returns the plugin that runs a command.
func pluginFor(t *testing.T, hook string, flags []string) string {
	t.Helper()
	text, err := host.OpenCodePlugin(append([]string{hook, "hook", "opencode"}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
