//go:build hosts

package hosts_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// aloneFailure is a failure that takes a run of its own.
type aloneFailure struct {
	name string
	// timeout takes the place of the hook's timeout in the settings. Empty: it stays.
	timeout  string
	answer   http.HandlerFunc
	killHost bool
	runs     []string
	none     []string // hosts that have no such case
}

func aloneFailures() []aloneFailure {
	rejected := failures()[rejection].answer
	runsWithoutTimeout := []string{host.ClaudeCode, host.Gemini, host.Copilot}
	return []aloneFailure{
		{name: "host is killed while it waits", answer: hold, killHost: true},
		{name: "host's timeout passes", answer: hold, timeout: "2", runs: []string{host.Codex, host.Gemini, host.Copilot}, none: []string{host.OpenCode}},
		{name: "host's timeout is 0", answer: rejected, timeout: "0", runs: runsWithoutTimeout, none: []string{host.OpenCode}},
		{name: "host's timeout is negative", answer: rejected, timeout: "-1", runs: runsWithoutTimeout, none: []string{host.OpenCode}},
		{name: "host's timeout is a text", answer: rejected, timeout: `"soon"`, runs: runsWithoutTimeout, none: []string{host.OpenCode}},
	}
}

// runAlone runs an agent that wants one shell command, whose hook fails. It returns the cell of the table.
func runAlone(t *testing.T, a agent, f aloneFailure) string {
	t.Helper()
	if slices.Contains(f.none, a.name) {
		return "–"
	}
	r := newRun(t, a, newModel(t, a.shell("echo hi > "+markOf(0, kindShell))))
	list := []failure{{answer: f.answer}}
	if f.timeout != "" { // a hook that outlives the timeout is waited for, and has to end
		list[0].script = `ask "$@" --wait 30s`
	}
	g := newGate(t, list)
	held := make(chan struct{})
	g.held = func(string, *failure) { close(held) }
	a.install(r, installed{})
	r.guard(g.URL, script(list))
	if f.timeout != "" {
		r.changeTimeout(f.timeout)
	}
	r.start(a.modes[0])
	if f.killHost {
		select {
		case <-held:
		case <-time.After(30 * time.Minute):
			t.Fatalf("%s does not ask; it printed %s", a.name, r.output.String())
		}
		r.killHost()
	}
	r.wait()
	if f.killHost {
		eventually.Holds(t, "the hook reports that its caller left", func() bool { return g.has("POST /leave " + markOf(0, kindShell)) })
	}
	ran := r.has(kindShell, 0)
	if want := slices.Contains(f.runs, a.name); ran != want {
		t.Errorf("%s, %s: the tool ran: %t, want %t", a.name, f.name, ran, want)
		t.Logf("it printed %s; its model was told %s; the gate got %v", r.output.String(), r.model.toldResults(), g.said)
	}
	switch {
	case ran:
		return "RUNS"
	case !f.killHost && !r.model.wasTold(markOf(0, kindShell)):
		return "does not start"
	}
	return "no"
}

// changeTimeout changes the timeout of the hook in the settings of the machine.
func (r *run) changeTimeout(timeout string) {
	r.t.Helper()
	path := r.settingsFile()
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	before := strconv.Itoa(day)
	if r.agent.name == host.Gemini { // in milliseconds
		before += "000"
		timeout = strings.Replace(timeout, "2", "2000", 1)
	}
	if strings.Count(string(text), before) != 1 {
		r.t.Fatalf("%s has no timeout %s: %s", path, before, text)
	}
	r.writeFile(path, strings.Replace(string(text), before, timeout, 1))
}

// killHost kills the agent's own processes, but not its hook.
func (r *run) killHost() {
	descendants := findDescendants(r.process.Process.Pid)
	_ = syscall.Kill(r.process.Process.Pid, syscall.SIGKILL)
	for _, pid := range descendants {
		if isHook := strings.Contains(readCommand(pid), r.caller()) || strings.Contains(readCommand(parentOf(pid)), r.caller()); !isHook {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// countCases returns the table of the modes: the calls that should not have run, and how many of them ran.
func countCases(list []failure, results *cases) [][]string {
	var rows [][]string
	for _, a := range agents() {
		var modes []string
		for _, m := range a.modes {
			modes = append(modes, "`"+m.name+"`")
		}
		made, ran := 0, 0
		for i, f := range list {
			if !slices.Contains(f.runs, a.name) {
				made += results.made[a.name]
				ran += results.ran[cell{i, a.name}]
			}
		}
		rows = append(rows, []string{a.name, strings.Join(modes, ", "), strconv.Itoa(made), strconv.Itoa(ran)})
	}
	return rows
}

// compareTables compares the results with the tables in the docs.
func compareTables(t *testing.T, rows, modes [][]string) {
	t.Helper()
	heads := []string{"the hook"}
	for _, a := range agents() {
		heads = append(heads, a.name)
	}
	const path = "../../docs/coding-agents.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now := string(text)
	for mark, table := range map[string]string{
		"hosts":       formatTable(heads, rows),
		"hosts modes": formatTable([]string{"host", "modes", "calls that must not run", "ran"}, modes),
	} {
		begin, end := "<!-- "+mark+" -->\n", "<!-- end of "+mark+" -->\n"
		before, rest, found := strings.Cut(now, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s has no table %s:\n%s", path, mark, table)
		}
		now = before + begin + table + end + after
	}
	switch {
	case now == string(text):
	case *update:
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not show the results: go test -tags hosts ./e2e/hosts -run TestFailures -update\n%v\n%v", path, rows, modes)
	}
}

func formatTable(heads []string, rows [][]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, row := range rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
	}
	return text.String()
}
