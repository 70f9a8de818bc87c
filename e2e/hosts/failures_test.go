//go:build hosts

package hosts_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// gate is a fake of the gate with faults that the real one does not have.
type gate struct {
	*httptest.Server
	asked chan struct{} // closed by the first question about a call that is pending

	once sync.Once
	mu   sync.Mutex
	said []string // requests, and their bodies
}

// newGate starts a gate that answers questions with a function.
func newGate(t testing.TB, answer http.HandlerFunc) *gate {
	t.Helper()
	g := &gate{asked: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notes that a client left once it has read all of it
		g.mu.Lock()
		g.said = append(g.said, r.Method+" "+r.URL.Path)
		g.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/outcome") || strings.HasSuffix(r.URL.Path, "/leave") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if r.Method == http.MethodGet {
			g.once.Do(func() { close(g.asked) })
		}
		answer(w, r)
	}))
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *gate) got(request string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.said, request)
}

// say answers with a status and a body.
func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

const allow = `{"id":"c1","decision":"allow","message":"Approved by rita."}`

// hold answers that the call is pending: at once, and then after some time.
func hold(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		select {
		case <-r.Context().Done():
		case <-time.After(3 * time.Second):
		}
	}
	say(200, `{"id":"c1","decision":"pending"}`)(w, r)
}

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func cutOff(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// failure is one way in which a hook can fail.
type failure struct {
	name    string
	answer  http.HandlerFunc
	flags   []string
	program string // in place of holdpoint
	bare    bool   // without the wrapper
	timeout int    // of the host; zero: a day
	kill    string // what is killed while the call is held: hook, wrapper or host
	runs    []string
	none    []string // hosts that have no such case
}

func failures() []failure {
	all := []string{host.ClaudeCode, host.Codex, host.Gemini, host.Copilot, host.OpenCode}
	return []failure{
		{name: "allowed (the control)", answer: say(200, allow), runs: all},
		{name: "rejected", answer: say(200, `{"id":"c1","decision":"deny","message":"Rejected by rita: not today"}`)},
		{name: "pending until our deadline", answer: hold},
		{name: "server down", answer: hang, flags: []string{"--url", "http://127.0.0.1:1"}},
		{name: "server never answers", answer: hang},
		{name: "connection reset", answer: cutOff},
		{name: "HTTP 500", answer: say(500, allow)},
		{name: "HTTP 401, 403", answer: say(403, allow)},
		{name: "redirect", answer: say(302, allow)},
		{name: "HTTP 200, garbage", answer: say(200, "<html>"+allow)},
		{name: "HTTP 200, nothing or {}", answer: say(200, "{}")},
		{name: "unknown decision", answer: say(200, `{"id":"c1","decision":"ask"}`)},
		{name: "bad flag or setting", answer: say(200, allow), flags: []string{"--nonsense"}},
		{name: "no key", answer: say(200, allow), flags: []string{"--key-file", "/nonexistent"}},
		{name: "holdpoint is missing", answer: say(200, allow), program: "/nonexistent/holdpoint"},
		{name: "holdpoint crashes (exit 1, no output)", answer: say(200, allow), program: "false"},
		{name: "holdpoint is killed while it waits", answer: hold, kill: "hook"},
		{name: "wrapper and holdpoint are killed", answer: hold, kill: "wrapper", runs: []string{host.Codex, host.Gemini}, none: []string{host.OpenCode}},
		{name: "host is killed while it waits", answer: hold, kill: "host", flags: []string{"--wait", "5m"}},
		{name: "host's timeout passes", answer: hold, timeout: 2, flags: []string{"--wait", "20s"}, runs: []string{host.Codex, host.Gemini, host.Copilot}, none: []string{host.OpenCode}},
	}
}

// wrap makes the command that a host runs, as the docs say.
func wrap(program, name string, flags []string) string {
	return "'" + program + "' hook " + name + " '" + strings.Join(flags, "' '") + "' || { echo 'Holdpoint: hook failed; call refused' >&2; exit 2; }"
}

// runFailure runs an agent that wants a tool, whose hook fails. It reports whether the tool ran.
func runFailure(t *testing.T, a agent, f failure, mode string) bool {
	t.Helper()
	r := newRun(t, a, newModel(t, a.write))
	g := newGate(t, f.answer)
	key := filepath.Join(r.home, "holdpoint.key")
	r.writeFile(key, "hpa_key\n")
	flags := []string{"--url", g.URL, "--agent", "laptop", "--key-file", key, "--wait", "6s", "--state-dir", filepath.Join(r.home, "state")}
	flags = append(flags, f.flags...)
	hook := program
	if f.program != "" {
		hook = f.program
	}
	h := installed{command: wrap(hook, a.name, flags), timeout: day}
	if f.timeout != 0 {
		h.timeout = f.timeout
	}
	if a.name == host.OpenCode {
		h.plugin = pluginFor(t, hook, flags)
	}
	a.install(r, h)
	r.start(mode)
	if f.kill != "" {
		killWhileHeld(t, r, g, key, f.kill)
	}
	r.wait()
	if f.kill == "host" {
		eventually.Holds(t, "the hook reports that its caller left", func() bool { return g.got("POST /agents/laptop/gate/c1/leave") })
	}
	if ran := r.ran(); ran != slices.Contains(f.runs, a.name) {
		t.Logf("%s printed %s; its model was told %s; it did not understand %v; the gate got %v", a.name, r.output.String(), r.model.toldResults(), r.model.log, g.said)
	} else if !ran && f.kill != "host" && r.model.toldResults() == "" {
		t.Errorf("%s, %s: the model was not told of its call; printed %s; did not understand %v", a.name, f.name, r.output.String(), r.model.log)
	}
	return r.ran()
}

// pluginFor returns the plugin that runs a command. Flags that the command refuses are put in afterwards.
func pluginFor(t *testing.T, hook string, flags []string) string {
	t.Helper()
	text, err := host.OpenCodePlugin(append([]string{hook, "hook", "opencode"}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// killWhileHeld kills a part of the hook, or its host, while the gate holds the call.
func killWhileHeld(t *testing.T, r *run, g *gate, key, part string) {
	t.Helper()
	select {
	case <-g.asked:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not ask; it printed %s", r.agent.name, r.output.String())
	}
	if part == "host" {
		descendants := findDescendants(r.process.Process.Pid)
		_ = syscall.Kill(r.process.Process.Pid, syscall.SIGKILL)
		for _, pid := range descendants { // the agent's own processes, but not its hook
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && !strings.Contains(string(line), key) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return
	}
	for _, pid := range findProcesses(key) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		isHook := err == nil && strings.HasPrefix(string(line), program)
		if isHook || part == "wrapper" {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestFailures runs each agent with every failure of the hook. The table in docs/coding-agents.md has the results.
func TestFailures(t *testing.T) {
	list, all := failures(), agents()
	ran := make([][]string, len(list))
	t.Run("all", func(t *testing.T) {
		for i, f := range list {
			ran[i] = make([]string, len(all))
			for j, a := range all {
				t.Run(a.name+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					if slices.Contains(f.none, a.name) {
						ran[i][j] = "–"
						return
					}
					ran[i][j] = "no"
					if got, want := runFailure(t, a, f, a.modes[0]), slices.Contains(f.runs, a.name); got != want {
						t.Errorf("%s, %s: the tool ran: %t, want %t", a.name, f.name, got, want)
					} else if got {
						ran[i][j] = "RUNS"
					}
				})
			}
		}
	})
	compareTable(t, list, all, ran)
}

// compareTable compares the results with the table in the docs.
func compareTable(t *testing.T, list []failure, all []agent, ran [][]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("| the hook |")
	for _, a := range all {
		fmt.Fprintf(&b, " %s |", a.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for i, f := range list {
		fmt.Fprintf(&b, "| %s | %s |\n", f.name, strings.Join(ran[i], " | "))
	}
	const path, begin, end = "../../docs/coding-agents.md", "<!-- hosts -->\n", "<!-- end of hosts -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		t.Errorf("%s has no table of hosts:\n%s", path, b.String())
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case shown != b.String():
		t.Errorf("%s does not show the results: go test -tags hosts ./e2e/hosts -run TestFailures -update\n%s", path, b.String())
	}
}

// TestModes rejects calls in every mode of permissions of each agent.
func TestModes(t *testing.T) {
	rejected := failures()[1]
	for _, a := range agents() {
		for _, mode := range a.modes[1:] {
			t.Run(a.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				if runFailure(t, a, rejected, mode) {
					t.Errorf("%s in mode %s ran a rejected call", a.name, mode)
				}
			})
		}
	}
}
