//go:build hosts

package hosts_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// failure is one way in which a hook can fail. Calls are marked with its number, so that one run of an agent meets all failures.
type failure struct {
	name   string
	answer http.HandlerFunc // of the gate
	script string           // runs the hook; empty: ask "$@"
	kill   part             // killed while the gate holds the call
	runs   []string         // hosts that run the tool
}

// part is a part of the processes of a hook.
type part int

const (
	nothing part = iota
	justHook
	wholeWrapper
)

// rejection is the index of a rejection by a person among the failures.
const rejection = 1

func failures() []failure {
	asks := func(flags string) string { return `ask "$@" ` + flags }
	soon := asks("--wait 5s")
	return []failure{
		{name: "allowed (the control)", answer: say(200, allow), runs: []string{host.ClaudeCode, host.Codex, host.Gemini, host.Copilot, host.OpenCode}},
		{name: "rejected", answer: say(200, `{"id":"ID","decision":"deny","message":"Rejected by rita: not today"}`)},
		{name: "pending until our deadline", answer: hold, script: soon},
		{name: "server down", answer: hang, script: asks("--url http://127.0.0.1:1 --wait 5s")},
		{name: "server never answers", answer: hang, script: soon},
		{name: "connection reset", answer: cutOff, script: soon},
		{name: "HTTP 500", answer: say(500, allow)},
		{name: "HTTP 503", answer: say(503, allow), script: soon},
		{name: "HTTP 429", answer: say(429, allow)},
		{name: "HTTP 401", answer: say(401, allow)},
		{name: "HTTP 403", answer: say(403, allow)},
		{name: "redirect", answer: say(302, allow)},
		{name: "HTTP 200, garbage", answer: say(200, "<html>"+allow)},
		{name: "HTTP 200, nothing", answer: say(200, "")},
		{name: "HTTP 200, `{}`", answer: say(200, "{}")},
		{name: "unknown decision", answer: say(200, `{"id":"ID","decision":"ask"}`)},
		{name: "bad flag or setting", answer: say(200, allow), script: asks("--nonsense")},
		{name: "no key", answer: say(200, allow), script: asks("--key-file /nonexistent")},
		{name: "holdpoint is missing", answer: say(200, allow), script: "exec /nonexistent/holdpoint"},
		{name: "holdpoint exits with 1, no output", answer: say(200, allow), script: "exit 1"},
		{name: "holdpoint exits with 2, no output", answer: say(200, allow), script: "exit 2"},
		{name: "holdpoint is killed while it waits", answer: hold, script: asks(`--skill "$mark"`), kill: justHook},
		{
			name: "wrapper and holdpoint are killed", answer: hold, script: asks(`--skill "$mark"`), kill: wholeWrapper,
			runs: []string{host.Codex, host.Gemini},
		},
	}
}

const allow = `{"id":"ID","decision":"allow","message":"Approved by rita."}`

// mark is in the arguments of a call: the number of its failure, and its kind.
var mark = regexp.MustCompile(`try-(\d\d)-[a-z]+`)

func markOf(number int, kind string) string { return fmt.Sprintf("try-%02d-%s", number, kind) }

// gate is a fake of the gate with faults that the real one does not have. It allows calls without a mark.
type gate struct {
	*httptest.Server
	failures []failure
	held     func(mark string, f *failure) // called once for each call that is held

	mu   sync.Mutex
	said []string // requests, and the marks of their calls
}

func newGate(t testing.TB, failures []failure) *gate {
	t.Helper()
	g := &gate{failures: failures, held: func(string, *failure) {}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	found := mark.FindStringSubmatch(r.URL.Path)
	isHeld := found != nil && r.Method == http.MethodGet
	if found == nil {
		found = mark.FindStringSubmatch(string(body))
	}
	if found == nil {
		found = []string{"other"}
	}
	request := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "/"):] + " " + found[0]
	g.mu.Lock()
	isFirst := !slices.Contains(g.said, request)
	g.said = append(g.said, request)
	g.mu.Unlock()
	w = &namingWriter{w, found[0]}
	switch {
	case strings.HasSuffix(r.URL.Path, "/outcome") || strings.HasSuffix(r.URL.Path, "/leave"):
		w.WriteHeader(http.StatusNoContent)
	case len(found) < 2:
		say(200, allow)(w, r)
	default:
		number, _ := strconv.Atoi(found[1]) // it has two digits
		f := &g.failures[number]
		if isHeld && isFirst {
			g.held(found[0], f)
		}
		f.answer(w, r)
	}
}

// namingWriter puts the id of the call into an answer.
type namingWriter struct {
	http.ResponseWriter

	id string
}

func (w *namingWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.ResponseWriter, strings.ReplaceAll(string(text), `"ID"`, strconv.Quote(w.id))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// has reports whether the gate got a request about a call.
func (g *gate) has(request string) bool {
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
		_, _ = io.WriteString(w, body) // a hook that is killed reads no more
	}
}

// hold answers that the call is pending: at once, and then after some time.
func hold(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		select {
		case <-r.Context().Done():
		case <-time.After(3 * time.Second):
		}
	}
	say(200, `{"id":"ID","decision":"pending"}`)(w, r)
}

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func cutOff(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// script takes the place of holdpoint: a marked call meets its failure.
func script(list []failure) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\nmessage=$(cat)\nask() { printf %s \"$message\" | " + realProgram + " \"$@\"; }\ncase $message in\n")
	for i, f := range list {
		if f.script != "" {
			fmt.Fprintf(&b, "*try-%02d-*)\n\tmark=$(printf %%s \"$message\" | grep -o 'try-%02d-[a-z]*' | head -n 1)\n\t%s ;;\n", i, i, f.script)
		}
	}
	b.WriteString("*) ask \"$@\" ;;\nesac\n")
	return b.String()
}

// killHook kills the hook of a held call, or that and the shells between it and the host.
func (r *run) killHook(mark string, what part) {
	for _, pid := range findProcesses(r.caller()) {
		if line := readCommand(pid); !strings.HasPrefix(line, realProgram) || !strings.Contains(line, mark) {
			continue
		}
		chain := []int{pid}
		for what == wholeWrapper {
			parent := parentOf(chain[0])
			if parent == 0 || !strings.Contains(readCommand(parent), r.caller()) {
				break
			}
			chain = append([]int{parent}, chain...)
		}
		for _, pid := range chain { // from the outside in: a shell whose command is killed refuses the call
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Kinds of calls: a shell command, an edit, a tool of an MCP server, and a shell command of a subagent.
const (
	kindShell  = "shell"
	kindEdit   = "edit"
	kindSave   = "save"
	kindHelper = "helper"
)

func kinds() []string { return []string{kindShell, kindEdit, kindSave, kindHelper} }

// has reports whether a marked call ran.
func (r *run) has(kind string, number int) bool {
	text := markOf(number, kind)
	switch kind {
	case kindEdit:
		return strings.Contains(r.note(), "changed "+text+" ")
	case kindSave:
		return r.notes.has(text)
	}
	return r.hasFile(text)
}

// chunk is how many calls a subagent makes: hosts limit its turns.
const chunk = 8

// plan returns the calls of a run, each kind for each failure, and the text of note.txt.
func plan(a agent, project string, count int) (steps []step, helpers [][]step, note string) {
	steps = slices.Clone(a.prepare)
	var lines strings.Builder
	for i := range count {
		edit := markOf(i, kindEdit)
		fmt.Fprintf(&lines, "line %s .\n", edit)
		steps = append(steps, a.shell("echo hi > "+markOf(i, kindShell)), a.edit("line "+edit+" .", "changed "+edit+" ."), a.save(markOf(i, kindSave)))
		if i%chunk == 0 {
			helpers = append(helpers, nil)
		}
		helpers[len(helpers)-1] = append(helpers[len(helpers)-1], a.shell("echo hi > "+markOf(i, kindHelper)))
	}
	for i := range helpers {
		steps = append(steps, a.delegate(fmt.Sprintf("%s %d", helperPrompt, i))...)
	}
	return inProject(steps, project), helpers, lines.String()
}

// cases are the marked calls that ran, and how many kinds of calls were made in all modes of a host: some modes do not offer all tools.
type cases struct {
	mu   sync.Mutex
	ran  map[cell]int
	made map[string]int
}

// cell is a cell of the table.
type cell struct {
	failure int
	host    string
}

// runFailures runs an agent in a mode with every failure of the hook.
func runFailures(t *testing.T, a agent, m mode, list []failure, results *cases) {
	t.Helper()
	r := newRun(t, a, newModel(t))
	var text string
	r.model.steps, r.model.helpers, text = plan(a, r.project, len(list))
	r.writeFile(r.project+"/note.txt", text)
	g := newGate(t, list)
	g.held = func(mark string, f *failure) {
		if f.kill != nothing {
			r.killHook(mark, f.kill)
		}
	}
	a.install(r, installed{})
	r.guard(g.URL, script(list))
	r.start(m)
	r.wait()
	state := r.process.ProcessState
	t.Logf("%s of processor time", state.SystemTime()+state.UserTime())
	results.mu.Lock()
	defer results.mu.Unlock()
	isMostPermissive, offers := m.name == a.modes[0].name, false
	for _, kind := range kinds() {
		told := 0
		for i, f := range list {
			if r.model.wasTold(markOf(i, kind)) {
				told++
			}
			ran := r.has(kind, i)
			if ran {
				results.ran[cell{i, a.name}]++
			}
			if isExpected := slices.Contains(f.runs, a.name); ran && !isExpected || !ran && isExpected && isMostPermissive {
				t.Errorf("%s: the tool %s ran: %t", f.name, kind, ran)
			}
		}
		switch {
		case told == len(list):
			results.made[a.name]++
			offers = true
		case told > 0 || isMostPermissive:
			t.Errorf("the model was told of %d calls of the tool %s, want %d", told, kind, len(list))
		}
	}
	if !offers {
		t.Error("the mode offers none of the tools")
	}
	if t.Failed() {
		t.Logf("it printed %s\nits model was told %s\nit did not understand %v\nthe gate got %v", r.output.String(), r.model.toldResults(), r.model.log, g.said)
	}
}

// TestFailures runs each agent in each mode with every failure of the hook. The table in docs/coding-agents.md has the results.
func TestFailures(t *testing.T) {
	t.Parallel()
	list, all := failures(), agents()
	results := &cases{ran: map[cell]int{}, made: map[string]int{}}
	alone := aloneFailures()
	aloneRan := make([][]string, len(alone))
	t.Run("all", func(t *testing.T) {
		for _, a := range all {
			for _, m := range a.modes {
				t.Run(a.name+"/"+m.name, func(t *testing.T) {
					t.Parallel()
					runFailures(t, a, m, list, results)
				})
			}
		}
		for i, f := range alone {
			aloneRan[i] = make([]string, len(all))
			for j, a := range all {
				t.Run(a.name+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					aloneRan[i][j] = runAlone(t, a, f)
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	var rows [][]string
	for i, f := range list {
		row := []string{f.name}
		for _, a := range all {
			row = append(row, map[bool]string{true: "RUNS", false: "no"}[results.ran[cell{i, a.name}] > 0])
		}
		rows = append(rows, row)
	}
	for i, f := range alone {
		rows = append(rows, append([]string{f.name}, aloneRan[i]...))
	}
	compareTables(t, rows, countCases(list, results))
}
