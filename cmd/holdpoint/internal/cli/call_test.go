package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

const (
	endpoint = "POST /agents/billing/mcp"
	id       = "01980000-0000-7000-8000-000000000001"
	callPath = "GET /api/v1/calls/" + id
)

func rpc(body string) string { return `{"jsonrpc":"2.0","id":1,` + body + `}` }

// result is the answer for a call that ended like this.
func result(status, more string) string {
	return rpc(`"result":{"content":[{"type":"text","text":"told \u202e"}],"isError":true,` +
		`"_meta":{"dev.holdpoint/call":{"id":"` + id + `","status":"` + status + `"` + more + `}}}`)
}

// TestCallNamesSkillsThatAreMissing: a tool is unknown, because its skill was never reached.
func TestCallNamesSkillsThatAreMissing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), `"tools/list"`) {
			fmt.Fprint(w, rpc(`"result":{"tools":[],"_meta":{"dev.holdpoint/problems":[{"skill":"files","kind":"transport","error":"refused"}]}}`))
			return
		}
		fmt.Fprint(w, rpc(`"error":{"code":-32602,"message":"unknown tool \"files__write\""}`))
	}))
	defer server.Close()
	got := run(t, map[string]string{"HOLDPOINT_URL": server.URL, "HOLDPOINT_TOKEN": "key"}, "", "call", "billing", "files__write").wantCode(t, 1)
	wantContains(t, "call", got.stderr, "unknown tool", "The tools of files are missing (transport): refused")
}

func TestCallExitCodes(t *testing.T) {
	t.Parallel()
	const unknownCall = `"result":{"content":[],"isError":true,"_meta":{"dev.holdpoint/call":{"code":"`
	tests := []struct {
		name, answer string
		code         int
	}{
		{"succeeded", result("succeeded", ""), 0},
		{"tool error", result("failed", `,"failure":"tool_error"`), 10},
		{"JSON-RPC error", result("failed", `,"failure":"jsonrpc_error"`), 11},
		{"transport", result("failed", `,"failure":"transport"`), 12},
		{"protocol", result("failed", `,"failure":"protocol"`), 13},
		{"session invalid", result("failed", `,"failure":"session_invalid"`), 14},
		{"rejected", result("rejected", ""), 20},
		{"expired", result("expired", ""), 21},
		{"cancelled", result("cancelled", ""), 22},
		{"denied", result("denied", ""), 23},
		{"unknown", result("unknown", ""), 24},
		{"invalid", result("invalid", ""), 25},
		{"refused at the door", rpc(`"error":{"code":-32602,"message":"/params/arguments/a: duplicate","data":{"pointer":"/params/arguments/a"}}`), 25},
		{"refused by the parser", rpc(`"error":{"code":-32602,"message":"/params/arguments/a: duplicate name (byte 9)"}`), 25},
		{"await without an id", rpc(unknownCall + `invalid_arguments"}}}`), 25},
		{"await of nothing", rpc(unknownCall + `call_not_found"}}}`), 1},
		{"unknown tool", rpc(`"error":{"code":-32602,"message":"unknown tool","data":{"code":"tool_not_found"}}`), 1},
		{"nonsense", `<html>`, 1},
		{"a status that is not known", result("exploded", ""), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t).setAnswer(endpoint, test.answer)
			f.run("call", "billing", "files__write", "--args", `{}`).wantCode(t, test.code)
		})
	}
}

func TestCallOutput(t *testing.T) {
	t.Parallel()
	const text = `{"id":"` + id + `","status":"rejected","arguments":{"n":1e400,"html":"<b>"},"deadline":null}`
	f := newFake(t).setAnswer(endpoint, result("rejected", "")).setAnswer(callPath, text)
	got := f.run("call", "billing", "files__write", "--args", `{}`).wantCode(t, 20)
	if got.stdout != "told <U+202E>\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	wantContains(t, "stderr", got.stderr, "the call "+id+" is rejected")
	got = f.run("call", "billing", "files__write", "--json").wantCode(t, 20)
	if got.stdout != text+"\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	if f.header.Get("Authorization") != "Bearer t0ken" {
		t.Errorf("Authorization %q", f.header.Get("Authorization"))
	}
}

func TestCallContent(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(callPath, `{"status":"succeeded"}`).setAnswer("call", id)
	for answer, want := range map[string]string{
		`"content":[{"type":"text","text":"a\nb"},{"type":"image","mimeType":"image/png","data":"AAAA"}]`:                  "a\nb\n[image image/png, 4 bytes in base64]\n",
		`"content":[{"type":"resource_link","uri":"file:///x"}]`:                                                           "[link file:///x]\n",
		`"content":[{"type":"resource","resource":{"uri":"a:b","text":"t"}},{"type":"resource","resource":{"uri":"a:c"}}]`: "t\n[resource a:c, 0 bytes in base64]\n",
		`"content":[],"structuredContent":{"n":9007199254740993}`:                                                          "{\n  \"n\": 9007199254740993\n}\n",
		`"content":[{"type":"text","text":"\u001b[31mred\u0007 \u200b"}],"structuredContent":{"left":"out when there is"}`: "<U+001B>[31mred<U+0007> <U+200B>\n",
	} {
		f.setAnswer(endpoint, rpc(`"result":{`+answer+`}`))
		if got := f.run("call", "billing", "x"); got.stdout != want || got.code != 0 {
			t.Errorf("%s\ngot  %q (%d: %s)\nwant %q", answer, got.stdout, got.code, got.stderr, want)
		}
	}
}

func TestCallArguments(t *testing.T) {
	t.Parallel()
	const exact = `{"big":9007199254740993,"huge":1e400,"zero":-0,  "html":"<&>","esc":"\u003c"}`
	f := newFake(t).setAnswer(endpoint, result("rejected", ""))
	sent := func(args ...string) string {
		t.Helper()
		run(t, f.env(), exact, append([]string{"call", "billing", "x"}, args...)...).wantCode(t, 20)
		_, arguments, _ := strings.Cut(f.getLastBody(), `"arguments":`)
		return strings.TrimSuffix(arguments, "}}")
	}
	for name, got := range map[string]string{
		"--args": sent("--args", exact), "--args-file": sent("--args-file", writeFile(t, "a.json", exact)), "stdin": sent("--args-file", "-"),
	} {
		if got != exact {
			t.Errorf("%s: sent %s", name, got)
		}
	}
	if got := sent(); got != "{}" {
		t.Errorf("nothing given: sent %s", got)
	}
	f.run("call", "billing", "x", "--args", `{"a":`).wantCode(t, 1)
	f.run("call", "billing", "x", "--args", `{}`, "--args-file", "-").wantCode(t, 1)
	f.run("call", "billing", "x", "--args-file", "/nonexistent").wantCode(t, 1)
	f.run("call", "billing").wantCode(t, 1)
	f.run("call", "billing", "x", "--nonsense").wantCode(t, 1)
}

func TestCallRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t).setProblem(endpoint, 401, `{"title":"Unauthorized"}`)
	wantContains(t, "stderr", f.run("call", "billing", "x").wantCode(t, 1).stderr, "HTTP 401", "HOLDPOINT_TOKEN")
}

func TestCallInterrupted(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(endpoint, result("parked", ""))
	env := f.env()
	var stdout, stderr bytes.Buffer
	e := &cli.Env{Getenv: func(name string) string { return env[name] }, Stdout: &stdout, Stderr: &stderr}
	if code := cli.Run(cancelled(t), e, []string{"call", "billing", "x"}); code != 130 {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// told is the output of a running command.
type told struct {
	mu      sync.Mutex
	text    strings.Builder
	written sync.Cond
}

func newTold() *told {
	w := &told{}
	w.written.L = &w.mu
	return w
}

func (w *told) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written.Broadcast()
	return w.text.Write(text)
}

// awaitText waits until a text was written.
func (w *told) awaitText(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !strings.Contains(w.text.String(), text) {
		w.written.Wait()
	}
}

// TestCallWaitsForAConnection: the call waits for a connection of the skill, then for an approval.
func TestCallWaitsForAConnection(t *testing.T) {
	t.Parallel()
	const unconnected, unapproved = "waiting for a connection of the skill: call " + id, "waiting for approval: call " + id
	stderr := newTold()
	var state atomic.Value
	state.Store(`{"status":"needs_connection","deadline":"2026-01-02T03:05:05Z","message":"nobody has connected \u202e yet"}`)
	steps := make(chan func() string, 3)
	steps <- func() string { return result("needs_connection", "") }
	steps <- func() string {
		stderr.awaitText(unconnected)
		state.Store(`{"status":"parked","deadline":"2026-01-02T03:09:05Z","message":null}`)
		return result("parked", "")
	}
	steps <- func() string {
		stderr.awaitText(unapproved)
		return result("succeeded", "")
	}
	mux := http.NewServeMux()
	mux.HandleFunc(endpoint, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, (<-steps)())
	})
	mux.HandleFunc(callPath, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, state.Load()) })
	mux.HandleFunc("GET /api/v1/calls", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[]}`) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	e := &cli.Env{Getenv: func(string) string { return "" }, Stdout: io.Discard, Stderr: stderr}
	if code := cli.Run(t.Context(), e, []string{"call", "billing", "files__write", "--url", server.URL, "--token", "t"}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	const want = unconnected + " (deadline 2026-01-02T03:05:05Z)\n  nobody has connected <U+202E> yet; see holdpoint connections list\n" +
		unapproved + " (deadline 2026-01-02T03:09:05Z)\n"
	if got := stderr.text.String(); got != want {
		t.Errorf("stderr\n%s\nwant\n%s", got, want)
	}
}
