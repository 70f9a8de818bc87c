package mcpserver_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/call"
)

const hookMessage = `{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","n":1.0},"tool_use_id":"toolu_1","agent_type":"a"}`

// hook sends a message of Claude Code to the hook of billing.
func (b *bench) hook(query, body string, headers ...string) answer {
	b.t.Helper()
	r := b.newRequest(context.Background(), body, headers...)
	r.URL.Path, r.URL.RawQuery = "/agents/billing/hooks/claude-code", query
	return b.sendRequest(r)
}

// wantHook checks that a hook was answered with the status 200 and a decision.
func wantHook(t *testing.T, a answer, decision, reason string) {
	t.Helper()
	said := decodeJSON(t, a.body)
	if a.status != http.StatusOK || memberAt(said, "hookSpecificOutput", "permissionDecision") != decision || !strings.Contains(a.body, reason) {
		t.Errorf("%d %s, want %s because of %s", a.status, a.body, decision, reason)
	}
}

func TestHook(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := uuid.New()
	b.calls.passage = call.Passage{ID: id, Allowed: true, Message: "go"}
	wantHook(t, b.hook("skill=laptop", hookMessage), "allow", "go")
	sub := b.calls.asked[0]
	want := call.GateRequest{Name: sub.Gate.Name, GateBinding: call.GateBinding{Directory: "/w"}, GateOrigin: call.GateOrigin{Host: "claude-code", Session: "s", Subagent: "a"}}
	if !reflect.DeepEqual(*sub.Gate, want) || len(sub.Gate.Name) != 36 || string(sub.Arguments) != `{"command":"ls","n":1.0}` {
		t.Errorf("submitted: %+v %s", sub.Gate, sub.Arguments)
	}
	b.calls.passage = call.Passage{ID: id, Pending: true}
	wantHook(t, b.hook("skill=laptop&wait=1", hookMessage), "deny", "make the same call again")
	b.calls.passage = call.Passage{ID: id, Message: "not today", Final: true}
	wantHook(t, b.hook("skill=laptop", hookMessage), "deny", "not today")
	if got := b.calls.deliveries(); len(got) != 1 || got[0] != id {
		t.Errorf("delivered: %v", got)
	}
	failure := strings.Replace(hookMessage, `"PreToolUse"`, `"PostToolUseFailure","error":"exit 1"`, 1)
	for _, message := range []string{failure, strings.Replace(failure, "toolu_1", "toolu_2", 1)} { // the second one is about no call
		after := b.hook("skill=laptop", message)
		if after.status != http.StatusOK || after.body != "{}\n" {
			t.Errorf("after: %d %s", after.status, after.body)
		}
	}
	if want := id.String() + "  failed exit 1"; len(b.calls.reports) != 1 || b.calls.reports[0] != want {
		t.Errorf("reported %v, want %s", b.calls.reports, want)
	}
}

// TestHookFailsClosed refuses with the status 200 whatever goes wrong: Claude Code takes any other status for consent.
func TestHookFailsClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.passage = call.Passage{ID: uuid.New(), Allowed: true}
	for _, tc := range []struct {
		answer answer
		reason string
	}{
		{b.hook("", hookMessage), "skill and tool: must be"},
		{b.hook("skill=laptop&wait=soon", hookMessage), "wait: must be between 1 and"},
		{b.hook("skill=laptop&wait=0", hookMessage), "wait: must be between 1 and"},
		{b.hook("skill=laptop", ""), "message"},
		{b.hook("skill=laptop", hookMessage+"x"), "message"},
		{b.hook("skill=laptop", strings.Replace(hookMessage, "PreToolUse", "Stop", 1)), "hook_event_name: must be PreToolUse"},
		{b.hook("skill=laptop", strings.Replace(hookMessage, `{"command"`, `{"command":"rm","command"`, 1)), "duplicate"},
		{b.hook("skill=laptop", hookMessage+strings.Repeat(" ", 5<<20)), "must be complete and have at most"},
		{b.hook("skill=laptop", hookMessage, "Authorization", ""), "a key of this agent"},
		{b.hook("skill=laptop", hookMessage, "Authorization", "Bearer key-other"), "a key of this agent"},
		{b.hook("skill=laptop", hookMessage, "Origin", "https://evil.example"), "origin"},
	} {
		wantHook(t, tc.answer, "deny", tc.reason)
	}
	b.calls.err = errors.New("secret of the database")
	a := b.hook("skill=laptop", hookMessage)
	wantHook(t, a, "deny", "internal error")
	if strings.Contains(a.body, "secret") {
		t.Error(a.body)
	}
	b.calls.waitEnds = func(context.Context) { panic("a bug") }
	wantHook(t, b.hook("skill=laptop", hookMessage), "deny", "internal error")
}

// TestHookCallerLeaves notes that the host of a pending call is gone.
func TestHookCallerLeaves(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := uuid.New()
	ctx, leave := context.WithCancel(t.Context())
	b.calls.passage = call.Passage{ID: id, Pending: true}
	b.calls.waitEnds = func(wait context.Context) {
		leave()
		<-wait.Done()
	}
	r := b.newRequest(ctx, hookMessage)
	r.URL.Path, r.URL.RawQuery = "/agents/billing/hooks/claude-code", "skill=laptop"
	if response, err := b.client.Do(r); err == nil {
		response.Body.Close()
	}
	eventually.Holds(t, "the caller's leaving is noted", func() bool {
		b.calls.fakeGate.mu.Lock()
		defer b.calls.fakeGate.mu.Unlock()
		return len(b.calls.reports) == 1 && strings.HasPrefix(b.calls.reports[0], id.String()) && strings.HasSuffix(b.calls.reports[0], " left")
	})
}
