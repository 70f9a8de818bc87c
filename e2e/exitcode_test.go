package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// TestExitCodes: each way a call can end has its own exit code, in the command line and in the API.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := (&skill.Raw{Call: behaveAsNamed}).Serve(t)
	forgetful := forgetfulServer(t)
	p := w.startServer()
	w.applyManifest(p, fmt.Sprintf(`skills:
  - {name: open, transport: http, url: %q, auto_approve: true}
  - {name: forgetful, transport: http, url: %q, auto_approve: true}
agents:
  - {name: worker, skills: [open, forgetful]}
`, server.URL, forgetful))
	c := newCLI(p, w.newAgent(p, "worker").Key)
	for name, tc := range map[string]struct {
		tool, arguments string
		code            int
		failure         string
	}{
		"success":           {"open__record", `{"n":1,"note":"answer"}`, 0, ""},
		"tool error":        {"open__record", `{"n":2,"note":"tool error"}`, 10, "tool_error"},
		"JSON-RPC error":    {"open__record", `{"n":3,"note":"json-rpc error"}`, 11, "jsonrpc_error"},
		"transport":         {"open__record", `{"n":4,"note":"close"}`, 12, "transport"},
		"protocol":          {"open__record", `{"n":5,"note":"html"}`, 13, "protocol"},
		"session invalid":   {"forgetful__record", `{"n":6}`, 14, "session_invalid"},
		"invalid arguments": {"open__record", `{"n":"seven","note":8}`, 25, ""},
		"duplicate names":   {"open__record", `{"n":9,"n":9}`, 25, ""},
		"not JSON":          {"open__record", `{`, 1, ""},
		"unknown tool":      {"open__nosuch", `{}`, 1, ""},
	} {
		ran := c.Run(t, "call", "worker", tc.tool, "--args", tc.arguments)
		if ran.Code != tc.code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, ran.Code, tc.code, ran.Stdout, ran.Stderr)
		}
		if tc.failure != "" && !hasFailure(t, p, tc.arguments, tc.failure) {
			t.Errorf("%s: the API knows no such call with the failure %s", name, tc.failure)
		}
	}
	said := c.Run(t, "call", "worker", "open__record", "--args", `{"n":"seven","note":8}`)
	if both := said.Stdout + said.Stderr; !strings.Contains(both, "/n") || !strings.Contains(both, "/note") {
		t.Errorf("not every failing path of the arguments is named:\n%s", both)
	}
	if ran := c.Run(t, "call", "worker"); ran.Code != 1 {
		t.Errorf("bad use: exit code %d, want 1", ran.Code)
	}
}

func behaveAsNamed(w http.ResponseWriter, r *skill.Request) {
	switch note := string(r.Params.Arguments); {
	case strings.Contains(note, "tool error"):
		r.Answer(w, `{"isError":true,"content":[{"type":"text","text":"no such account"}]}`)
	case strings.Contains(note, "json-rpc error"):
		r.Fail(w, -32001, "out of paper")
	case strings.Contains(note, "close"):
		skill.CloseConnection(w)
	case strings.Contains(note, "html"):
		writeHTML(w)
	default:
		r.Answer(w, `{"content":[{"type":"text","text":"done"}]}`)
	}
}

// forgetfulServer loses every session before its first tool call.
func forgetfulServer(t *testing.T) string {
	var sessions atomic.Int64
	raw := &skill.Raw{Call: func(w http.ResponseWriter, _ *skill.Request) {
		http.Error(w, "no such session", http.StatusNotFound)
	}}
	raw.Session = func() string { return fmt.Sprintf("session-%d", sessions.Add(1)) }
	return raw.Serve(t).URL
}

func hasFailure(t *testing.T, p *holdpoint.Process, arguments, failure string) bool {
	t.Helper()
	calls, err := holdpoint.List[holdpoint.Call](t.Context(), operatorAPI(p), "calls", "status=failed")
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if string(call.Arguments) == arguments && call.Failure == failure {
			return true
		}
	}
	return false
}

// TestExitCodesOfGatedCalls covers calls that a reviewer or the deadline ends.
func TestExitCodesOfGatedCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(counting.URL, ""))
	key := w.newAgent(p, "worker").Key
	call := func(n string) (<-chan holdpoint.Ran, holdpoint.Approval) {
		ended := newCLI(p, key).Start(t, "call", "worker", "counting__record", "--args", `{"n":`+n+`}`)
		shown, err := pendingFor(t.Context(), n, p)
		if err != nil {
			t.Fatal(err)
		}
		return ended, shown
	}
	want := func(what string, ended <-chan holdpoint.Ran, code int) {
		if ran := <-ended; ran.Code != code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", what, ran.Code, code, ran.Stdout, ran.Stderr)
		}
	}
	ended, shown := call("1")
	approveCall(t, p, shown.ID, func() {})
	want("approved in a terminal", ended, 0)

	ended, shown = call("2")
	newCLI(p, bootstrapToken).Must(t, "approvals", "reject", shown.ID, "--reason", "not today")
	want("rejected in a terminal", ended, 20)

	ended, shown = call("3")
	if err := operatorAPI(p).Do(t.Context(), http.MethodPost, "calls/"+shown.CallID+"/cancel", nil, nil); err != nil {
		t.Error(err)
	}
	want("cancelled", ended, 22)

	ended, shown = call("4")
	if err := operatorAPI(p).Do(t.Context(), http.MethodDelete, "assignments/worker/counting", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
		t.Error(err)
	}
	want("assignment revoked", ended, 23)
	if c, err := operatorAPI(p).Call(t.Context(), shown.CallID); err != nil || c.Code != "assignment_revoked" {
		t.Errorf("the call has code %s, %v", c.Code, err)
	}
	w.applyManifest(p, oneSkill(counting.URL, ""))

	ended, shown = call("5")
	w.applyManifest(p, oneSkill(counting.URL, "call_timeout: 7s\n"))
	if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
		t.Error(err)
	}
	want("skill changed", ended, 23)
	if c, err := operatorAPI(p).Call(t.Context(), shown.CallID); err != nil || c.Code != "skill_changed" {
		t.Errorf("the call has code %s, %v", c.Code, err)
	}
	for n, times := range map[string]int{"1": 1, "2": 0, "3": 0, "4": 0, "5": 0} {
		if counting.Count(n) != times {
			t.Errorf("call %s arrived %d times, want %d", n, counting.Count(n), times)
		}
	}
}

// TestCommandOutlivesServer: a waiting command reconnects to the restarted server, and learns that the outcome is
// unknown.
func TestCommandOutlivesServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	o := w.serverOptions()
	o.Port = holdpoint.FreePort(t)
	p := program.Serve(t, o)
	w.applyManifest(p, oneSkill(counting.URL, ""))
	counting.Hold()
	ended := newCLI(p, w.newAgent(p, "worker").Key).Start(t, "call", "worker", "counting__record", "--args", `{"n":1}`)
	shown, err := pendingFor(t.Context(), "1", p)
	if err != nil {
		t.Fatal(err)
	}
	if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	awaitArrival(t, counting.Ledger, "1")
	p.Kill()
	program.Serve(t, o)
	if ran := <-ended; ran.Code != 24 {
		t.Errorf("exit code %d, want 24\n%s%s", ran.Code, ran.Stdout, ran.Stderr)
	}
	if n := counting.Count("1"); n != 1 {
		t.Errorf("the call arrived %d times", n)
	}
}
