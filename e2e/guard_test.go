package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// guardedHost is a coding agent's settings on this machine, with a guard.
type guardedHost struct {
	t     testing.TB
	cli   holdpoint.CLI
	scope []string // the flags of all commands
	file  string   // of the host's settings
	work  string
}

// newGuardedHost installs the guard of Claude Code. The settings of the machine are below a folder that root alone can change.
func newGuardedHost(t testing.TB, p *holdpoint.Process, scope string) *guardedHost {
	t.Helper()
	home := t.TempDir()
	h := &guardedHost{t: t, cli: newCLI(p, bootstrapToken), scope: []string{"--scope", scope}, file: filepath.Join(home, ".claude/settings.json"), work: t.TempDir()}
	install := []string{"guard", "claude-code", "--agent", "coder", "--project", h.work}
	if scope == "machine" {
		root, err := os.MkdirTemp("/", "holdpoint-e2e-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(root) })
		copied := filepath.Join(root, "holdpoint")
		text, err := os.ReadFile(program.Path)
		if err == nil {
			err = os.WriteFile(copied, text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.scope, h.file = append(h.scope, "--root", root), filepath.Join(root, "etc/claude-code/managed-settings.json")
		h.cli.Program.Path = copied
		h.cli.Env = append(h.cli.Env, "SUDO_USER=")
	}
	h.cli.Env = append(h.cli.Env, "HOME="+home)
	h.cli.Must(t, append(install, h.scope...)...)
	h.cli.Token = "" // the machine has the agent's key only
	return h
}

// guard runs a command about the guard.
func (h *guardedHost) guard(words ...string) holdpoint.Ran {
	h.t.Helper()
	return h.cli.Run(h.t, append(append([]string{"guard"}, words...), h.scope...)...)
}

// runHook runs the command of an event from the host's file as the host runs it.
func (h *guardedHost) runHook(event, command string) (code int, said string) {
	h.t.Helper()
	var settings struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Command string `json:"command"`
			} `json:"hooks"`
		} `json:"hooks"`
	}
	text, err := os.ReadFile(h.file)
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil || len(settings.Hooks[event]) != 1 {
		h.t.Fatalf("%s: %v: %s", h.file, err, text)
	}
	hook := exec.CommandContext(h.t.Context(), "/bin/sh", "-c", settings.Hooks[event][0].Hooks[0].Command)
	hook.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":%q,"tool_name":"Bash","tool_input":{"command":%q},"tool_use_id":"toolu_1","tool_response":"x"}`,
		h.work, event, command))
	hook.Env = append(os.Environ(), h.cli.Env...)
	output, err := hook.CombinedOutput()
	if hook.ProcessState == nil {
		h.t.Fatal(err)
	}
	return hook.ProcessState.ExitCode(), string(output)
}

// startWatcher starts a watcher that runs until the test ends.
func (h *guardedHost) startWatcher() {
	h.t.Helper()
	watcher := exec.CommandContext(h.t.Context(), h.cli.Program.Path, append([]string{"guard", "watch", "--interval", "100ms"}, h.scope...)...)
	watcher.Env = append(os.Environ(), h.cli.Env...)
	if err := watcher.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = watcher.Wait() }) // it is killed with the test's context
}

// listedGuard returns the guard in the server's list.
func listedGuard(t testing.TB, p *holdpoint.Process) client.Guard {
	t.Helper()
	var list client.List[client.Guard]
	if err := operatorAPI(p).Do(t.Context(), http.MethodGet, "guards", nil, &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d guards, %v", len(list.Items), err)
	}
	return list.Items[0]
}

// TestGuardJourney: a guard is installed and tried. Its watcher reports to the server. A call that bypasses it, the hook's removal by hand, and the
// removal by the command each alert a chat.
func TestGuardJourney(t *testing.T) {
	t.Parallel()
	scopes := []string{"user"}
	if os.Geteuid() == 0 { // only root writes settings of the machine
		scopes = append(scopes, "machine")
	}
	for _, scope := range scopes {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			chat := make(chan string, 100)
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				message, _ := io.ReadAll(r.Body) // a message that was cut does not have the words
				chat <- string(message)
			}))
			t.Cleanup(receiver.Close)
			w := newWorld(t)
			w.args = []string{"--trusted-hosts", "127.0.0.1"} // the chat runs on this machine
			p := w.startServer()
			newCLI(p, bootstrapToken).Must(t, "webhooks", "create", "chat", "--to-file", writeFile(t, "url", receiver.URL))
			h := newGuardedHost(t, p, scope)
			wantChat := func(words ...string) {
				t.Helper()
				message := <-chat
				for _, word := range append(words, p.URL+"/guards") {
					if !strings.Contains(message, word) {
						t.Errorf("the chat got %s, want %s", message, word)
					}
				}
			}
			if g := listedGuard(t, p); g.State != "unwatched" || g.Agent != "coder" || g.Scope != scope || g.Files[0] != h.file {
				t.Errorf("after the installation: %+v", g)
			}
			if ran := h.guard("status"); ran.Code != 0 || !strings.Contains(ran.Stdout, "works: the server refused a call") {
				t.Fatalf("status: %+v", ran)
			}
			if g := listedGuard(t, p); g.AskedAt == nil || g.BypassedAt != nil {
				t.Errorf("after the canary: %+v", g)
			}
			h.startWatcher()
			eventually.Holds(t, "the watcher's report", func() bool { return listedGuard(t, p).State == "holds" })

			if code, said := h.runHook("PostToolUse", "touch /nowhere"); code != 0 || !strings.Contains(said, "did not release this call") {
				t.Errorf("the report of a call that bypassed the guard: %d %s", code, said)
			}
			wantChat("Call ran without a release", "claude-code: Bash (coder)")

			if err := os.WriteFile(h.file, []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
			if ran := h.guard("status"); ran.Code != 1 || !strings.Contains(ran.Stdout, "the hook is gone") {
				t.Errorf("status without the hook: %+v", ran)
			}
			wantChat("Guard no longer holds", "claude-code: ")
			if g := listedGuard(t, p); g.State != "broken" || !strings.Contains(g.Problems[0], "the hook is gone") || g.Bypasses != 1 {
				t.Errorf("without the hook: %+v", g)
			}

			h.cli.Must(t, append([]string{"guard", "install", "claude-code"}, h.scope...)...)
			eventually.Holds(t, "the report that it holds again", func() bool { return listedGuard(t, p).State == "holds" })
			if ran := h.guard("remove", "claude-code"); ran.Code != 0 {
				t.Fatalf("remove: %+v", ran)
			}
			wantChat("Guard no longer holds")
			if g := listedGuard(t, p); g.State != "removed" {
				t.Errorf("removed: %+v", g)
			}
			newCLI(p, bootstrapToken).Must(t, "guard", "forget", listedGuard(t, p).ID)
		})
	}
}

// TestGuardLocal: one command starts a server for a developer and guards a coding agent with it. The developer decides with the token that the
// command named; the agent's key decides nothing.
func TestGuardLocal(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	home, work, data := t.TempDir(), t.TempDir(), clusterDir(t)
	h := &guardedHost{
		t: t, cli: holdpoint.CLI{Program: program, URL: address, Env: []string{"HOME=" + home}}, scope: []string{"--scope", "user"},
		file: filepath.Join(home, ".claude/settings.json"), work: work,
	}
	install := []string{"claude-code", "--local", "--data-dir", data, "--agent", "coder", "--project", work}
	ran := h.guard(install...)
	if started := regexp.MustCompile(`runs as process (\d+)`).FindStringSubmatch(ran.Stderr); started != nil {
		t.Cleanup(func() { stopLocalServer(t, started[1], data) })
	}
	if ran.Code != 0 || !strings.HasPrefix(ran.Stderr, "The server runs as the user of the coding agent: an agent that may run any shell command can") {
		t.Fatalf("install: %+v", ran)
	}
	if again := h.guard(install...); again.Code != 0 || strings.Contains(again.Stderr, "Starting the local server") {
		t.Errorf("install again: %+v", again)
	}
	status := h.guard("status")
	if status.Code != 0 || !strings.HasPrefix(status.Stderr, "The server runs as the user of the coding agent") {
		t.Errorf("status: %+v", status)
	}
	named := regexp.MustCompile(`with the token in (\S+)\.`).FindStringSubmatch(ran.Stderr)
	if named == nil {
		t.Fatalf("no token is named: %s", ran.Stderr)
	}
	token, err := os.ReadFile(named[1])
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(home, ".config/holdpoint/guard/claude-code.key"))
	if err != nil {
		t.Fatal(err)
	}
	developer := holdpoint.API{URL: address, Token: strings.TrimSpace(string(token))}
	type outcome struct {
		code int
		said string
	}
	asked := make(chan outcome, 1)
	go func() {
		code, said := h.runHook("PreToolUse", "echo hi > file")
		asked <- outcome{code, said}
	}()
	var shown holdpoint.Approval
	eventually.Succeeds(t, patience, "a call that waits", func() error {
		waiting, err := holdpoint.List[holdpoint.Approval](t.Context(), developer, "approvals", "status=pending")
		if err == nil && len(waiting) == 0 {
			return errors.New("none waits")
		}
		if err == nil {
			shown = waiting[0]
		}
		return err
	})
	if err := (holdpoint.API{URL: address, Token: strings.TrimSpace(string(key))}).Approve(t.Context(), shown); err == nil {
		t.Error("the agent's key decided")
	}
	if err := developer.Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got.code != 0 || !strings.Contains(got.said, `"permissionDecision":"allow"`) {
		t.Errorf("the hook answered %d %s", got.code, got.said)
	}
}

// stopLocalServer stops the server that a command left running.
func stopLocalServer(t testing.TB, process, dataDir string) {
	pid, err := strconv.Atoi(process)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err != nil {
		t.Error(err)
		return
	}
	err = eventually.Poll(context.WithoutCancel(t.Context()), patience, func() error {
		if _, runs := findPostmaster(dataDir); runs {
			return errors.New("its database still runs")
		}
		return nil
	})
	if err != nil {
		t.Errorf("stop the local server: %v", err)
	}
}
