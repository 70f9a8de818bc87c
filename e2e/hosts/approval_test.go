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
	built := holdpoint.Program{Path: program}
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
	r := newRun(t, a, newModel(t))
	r.model.steps = inProject(steps, r.project)
	all := append([]string{"--url", s.URL, "--agent", "with-" + a.name, "--key-file", s.keys[a.name], "--wait", "5m", "--state-dir", filepath.Join(r.home, "state")}, flags...)
	h := installed{command: wrap(program, a.name, all), timeout: day}
	if a.name == host.OpenCode {
		h.plugin = pluginFor(t, program, all)
	}
	a.install(r, h)
	r.start(a.modes[0])
	return r
}

// pending waits for the approval of a call whose arguments contain a text, made in a run's folder.
func (s *server) pending(t *testing.T, r *run, text string) holdpoint.Approval {
	t.Helper()
	var found holdpoint.Approval
	eventually.Succeeds(t, 2*time.Minute, "a call of "+r.agent.name+" waits", func() error {
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
		return fmt.Errorf("%d calls wait, none with %s; the agent printed %s; its model: %v; it was told %s", len(list), text, r.output.String(), r.model.log, r.model.toldResults())
	})
	return found
}

// TestDecisions lets each agent want a shell command and an edit. They happen after an approval, and never without one.
func TestDecisions(t *testing.T) {
	s := startServer(t)
	for _, a := range agents() {
		for _, approve := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/shell/%t", a.name, approve), func(t *testing.T) {
				mark := fmt.Sprintf("# %s %t", a.name, approve)
				write := a.write
				write.arguments = object{}
				for name, value := range a.write.arguments {
					if text, ok := value.(string); ok && strings.HasPrefix(text, "echo") {
						value = text + " " + mark
					}
					write.arguments[name] = value
				}
				r := s.startAgent(t, a, []step{write})
				s.decide(t, r, s.pending(t, r, mark), approve, r.ran)
			})
			if a.edit == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/edit/%t", a.name, approve), func(t *testing.T) {
				r := s.startAgent(t, a, a.edit)
				if len(a.edit) > 1 { // it reads the file first
					shown := s.pending(t, r, r.project)
					if err := s.api().Approve(t.Context(), shown); err != nil {
						t.Fatal(err)
					}
				}
				shown := s.pending(t, r, "new")
				s.decide(t, r, shown, approve, r.edited)
			})
		}
	}
}

// decide checks that the tool did not run, decides, and checks what happens.
func (s *server) decide(t *testing.T, r *run, shown holdpoint.Approval, approve bool, happened func() bool) {
	t.Helper()
	if happened() {
		t.Fatalf("%s ran a call that waits", r.agent.name)
	}
	var err error
	if approve {
		err = s.api().Approve(t.Context(), shown)
	} else {
		err = s.api().Reject(t.Context(), shown, "not on a Thursday")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.wait()
	told := r.model.toldResults()
	if happened() != approve {
		t.Errorf("%s ran the call: %t, want %t; it printed %s; its model was told %s", r.agent.name, !approve, approve, r.output.String(), told)
	}
	if !approve && !strings.Contains(told, "not on a Thursday") {
		t.Errorf("the model of %s was told %s", r.agent.name, told)
	}
	if approve {
		eventually.Succeeds(t, time.Minute, "the outcome is reported", func() error {
			call, err := s.api().Call(t.Context(), shown.CallID)
			if err == nil && call.Status != "succeeded" {
				err = fmt.Errorf("the call is %s", call.Status)
			}
			return err
		})
	}
}

// TestDefer ends a headless run of Claude Code while a call waits, restarts the server, approves, and resumes: the call runs once. An equal
// command in the meantime waits for the same approval.
func TestDefer(t *testing.T) {
	s := startServer(t)
	a := claudeCode()
	add := step{tools: []string{"Bash"}, arguments: object{"command": "echo hi >> file # deferred", "description": "write"}}
	r := s.startAgent(t, a, []step{add}, "--defer")
	r.wait()
	var ended struct {
		SessionID  string `json:"session_id"`
		StopReason string `json:"stop_reason"`
	}
	if err := json.Unmarshal(r.output.Bytes(), &ended); err != nil || ended.StopReason != "tool_deferred" {
		t.Fatalf("it ended with %s (%v)", r.output.String(), err)
	}
	shown := s.pending(t, r, "deferred")
	s.Kill()
	s.AwaitKilled(t)
	s.options.Port = s.Port
	s.Process = holdpoint.Program{Path: program}.Serve(t, s.options)
	list, err := holdpoint.List[holdpoint.Approval](t.Context(), s.api(), "approvals", "status=pending")
	if err != nil || len(list) != 1 || list[0].ID != shown.ID {
		t.Fatalf("%d calls wait (%v)", len(list), err)
	}
	if err := s.api().Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	r.output.Reset()
	args, _ := a.command(r, "bypassPermissions")
	r.resume = append([]string{args[0], "-p", "--resume", ended.SessionID, ""}, args[3:]...)
	r.start("bypassPermissions")
	r.wait()
	text, err := os.ReadFile(filepath.Join(r.project, "file"))
	if err != nil || string(text) != "hi\n" {
		t.Errorf("the file has %q (%v); it printed %s", text, err, r.output.String())
	}
}
