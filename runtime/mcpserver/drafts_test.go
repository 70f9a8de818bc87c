package mcpserver_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func experimental(cfg *mcpserver.Config) { cfg.Experimental = true }

const (
	disposition   = "io.modelcontextprotocol/tool-approval-disposition"
	authorization = "io.modelcontextprotocol/authorization"
)

// endGated makes a gated call as a task, ends it, and returns the task.
func (b *bench) endGated(end call.Call) any {
	b.t.Helper()
	b.taskCall("gated")
	id := <-b.calls.arrived
	b.calls.finishCall(id, end)
	return memberAt(b.requestTask("tasks/get", id.String(), ""), "result")
}

// The task of a gated call never fails and, once the call was sent, is never cancelled, with and without the drafts. With them its result
// says in _meta and in words how it ended.
func TestHowGatedTasksEnd(t *testing.T) {
	t.Parallel()
	rpc := json.RawMessage(`{"code":-32042,"message":"x","data":{"a":1}}`)
	done := json.RawMessage(`{"content":[{"type":"text","text":"done"}],"_meta":{"` + disposition + `":"forged","` + authorization + `":{},"kept":1}}`)
	for name, c := range map[string]struct {
		end         call.Call
		disposition any
		denial      any
		words       string
	}{
		"executed": {call.Call{Status: call.Succeeded, Result: done}, "approved-executed", nil, "approved this call, and it was executed"},
		"edited": {
			call.Call{Status: call.Succeeded, Result: done, Arguments: json.RawMessage(`{"n":2}`), Submitted: json.RawMessage(`{"n":1}`)},
			"approved-executed", nil, "approved this call with other arguments",
		},
		"a tool error": {
			call.Call{Status: call.Failed, Failure: tool.ToolError, Result: json.RawMessage(`{"content":[{"type":"text","text":"bad"}],"isError":true}`)},
			"execution-error", nil, "The tool reported an error",
		},
		"a JSON-RPC error": {
			call.Call{Status: call.Failed, Failure: tool.JSONRPCError, Effect: tool.EffectNone, Message: "the server answered with JSON-RPC error -32042: x", Result: rpc},
			"execution-error", nil, "-32042",
		},
		"a wrong answer": {call.Call{Status: call.Failed, Failure: tool.ProtocolFailure, Effect: tool.EffectPossible}, "execution-error", nil, "may have been executed"},
		"unsent":         {call.Call{Status: call.Failed, Failure: tool.TransportFailure, Effect: tool.EffectNone}, "execution-error", nil, "was not executed"},
		"a lost answer":  {call.Call{Status: call.Failed, Failure: tool.TransportFailure, Effect: tool.EffectPossible}, "outcome-unknown", nil, "may have been executed"},
		"unknown":        {call.Call{Status: call.Unknown, Effect: tool.EffectPossible}, "outcome-unknown", nil, "is unknown"},
		"cancelled by its server": {
			call.Call{Status: call.Failed, Failure: tool.JSONRPCError, Code: call.CodeTaskCancelled, Effect: tool.EffectPossible, Result: rpc},
			"outcome-unknown", nil, "outcome is unknown",
		},
		"rejected":          {call.Call{Status: call.Rejected, Code: "rejected"}, "denied-not-executed", "unavailable", "rejected by a reviewer and not executed"},
		"expired":           {call.Call{Status: call.Expired, Code: "expired"}, "denied-not-executed", nil, "was not executed"},
		"denied":            {call.Call{Status: call.Denied, Code: call.CodeRuleDenied}, "denied-not-executed", "unavailable", "denied and not executed"},
		"denied for a time": {call.Call{Status: call.Denied, Code: call.CodeSkillChanged}, "denied-not-executed", nil, "denied and not executed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, on := range []bool{true, false} {
				task := newBench(t, func(cfg *mcpserver.Config) { cfg.Experimental = on }).endGated(c.end)
				if memberAt(task, "status") != "completed" || memberAt(task, "error") != nil || memberAt(task, "_meta") != nil {
					t.Fatalf("%v: %v", on, task)
				}
				result := memberAt(task, "result")
				if failed := c.end.Status != call.Succeeded; (memberAt(result, "isError") == true) != failed {
					t.Errorf("%v: %v", on, result)
				}
				text, _ := memberAt(result, "content", 0, "text").(string)
				if (on || c.end.Status != call.Succeeded && c.end.Failure != tool.ToolError) && !strings.Contains(text, c.words) {
					t.Errorf("%v: the text is %q", on, text)
				}
				want := map[string]any{"disposition": nil, "denial": nil, "error": nil}
				if on {
					want["disposition"], want["denial"] = c.disposition, c.denial
				}
				if c.end.Failure == tool.JSONRPCError {
					want["error"] = -32042.0
				}
				got := map[string]any{
					"disposition": memberAt(result, "_meta", disposition), "denial": memberAt(result, "_meta", authorization, "remediation"),
					"error": memberAt(result, "_meta", "dev.holdpoint/error", "code"),
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v: %s", on, diff)
				}
				if memberAt(result, "_meta", authorization, "remediationHints") != nil {
					t.Errorf("hints of a final denial: %v", result)
				}
			}
		})
	}
	for _, on := range []bool{true, false} {
		task := newBench(t, func(cfg *mcpserver.Config) { cfg.Experimental = on }).endGated(call.Call{Status: call.Cancelled})
		if memberAt(task, "status") != "cancelled" || memberAt(task, "result") != nil {
			t.Errorf("cancelled before it was sent: %v", task)
		}
	}
}

// Only a call that needs an approval carries the drafts, and only its client's task.
func TestDraftsOfOtherCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, experimental)
	b.calls.outcome = func(call.Submission) call.Call {
		return call.Call{Status: call.Succeeded, Result: json.RawMessage(`{"content":[],"_meta":{"` + disposition + `":"approved-executed"}}`)}
	}
	if v := b.taskCall("echo"); memberAt(v, "result", "content") == nil || memberAt(v, "result", "_meta", disposition) != nil {
		t.Errorf("%v", v)
	}
	b.calls.outcome = func(call.Submission) call.Call { return call.Call{Status: call.Denied, Code: call.CodeToolDisabled} }
	if v := b.taskCall("echo"); memberAt(v, "result", "_meta", disposition) != nil || memberAt(v, "result", "_meta", authorization, "remediation") != "unavailable" {
		t.Errorf("a denial: %v", v)
	}
	body, headers := modernCall("echo", ``, `{}`)
	if v := decodeJSON(t, b.post(body, headers...).body); memberAt(v, "result", "_meta", authorization) != nil {
		t.Errorf("without tasks: %v", v)
	}
}

// Each state of a task that has not ended repeats the denial with the hint that the task is the remedy.
func TestPendingDenial(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t, experimental)
		want := map[string]any{"reason": "insufficient_authorization", "remediation": "available", "remediationHints": []any{map[string]any{"type": "task"}}}
		v := b.taskCall("gated")
		if diff := cmp.Diff(want, memberAt(v, "result", "_meta", authorization)); diff != "" {
			t.Errorf("created: %s", diff)
		}
		callID := <-b.calls.arrived
		id := callID.String()
		poll := func(status, message string) {
			t.Helper()
			v := b.requestTask("tasks/get", id, "")
			if diff := cmp.Diff(want, memberAt(v, "result", "_meta", authorization)); diff != "" || memberAt(v, "result", "status") != status ||
				memberAt(v, "result", "statusMessage") != message {
				t.Errorf("%s %v", diff, v)
			}
		}
		poll("working", "waiting for approval until 15:04:05Z")
		body, headers := modernRequest("subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`)
		response, err := b.client.Do(b.newRequest(t.Context(), strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`,
			`"io.modelcontextprotocol/clientCapabilities":`+taskClient, 1), headers...))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		stream := make(chan string)
		go func() {
			all, err := io.ReadAll(response.Body)
			if err != nil {
				t.Error(err)
			}
			stream <- string(all)
		}()
		synctest.Wait()
		b.calls.ask(callID, elicitation)
		poll("input_required", "executing")
		synctest.Wait()
		b.calls.finishCall(callID, succeedWith("done"))
		synctest.Wait()
		b.server.Drain()
		told := map[any]any{}
		for _, event := range readEvents(strings.NewReader(<-stream)) {
			if strings.HasPrefix(event, "{") && memberAt(decodeJSON(t, event), "method") == "notifications/tasks" {
				params := memberAt(decodeJSON(t, event), "params")
				told[memberAt(params, "status")] = memberAt(params, "_meta", authorization)
				if memberAt(params, "_meta", "io.modelcontextprotocol/subscriptionId") != "m" {
					t.Errorf("%v", params)
				}
			}
		}
		if diff := cmp.Diff(map[any]any{"working": want, "input_required": want, "completed": nil}, told); diff != "" {
			t.Errorf("notifications: %s", diff)
		}
	})
}

// The extension is announced only with the drafts. The one of tasks always is.
func TestApprovalExtension(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		b := newBench(t, func(cfg *mcpserver.Config) { cfg.Experimental = on })
		body, headers := modernRequest("server/discover", "")
		extensions := memberAt(decodeJSON(t, b.post(body, headers...).body), "result", "capabilities", "extensions")
		want := map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
		if on {
			want["io.modelcontextprotocol/tool-approval"] = map[string]any{}
		}
		if diff := cmp.Diff(want, extensions); diff != "" {
			t.Error(diff)
		}
		if on {
			continue
		}
		v := b.taskCall("gated")
		id := (<-b.calls.arrived).String()
		if memberAt(v, "result", "_meta", authorization) != nil || memberAt(b.requestTask("tasks/get", id, ""), "result", "_meta") != nil {
			t.Errorf("a denial without the drafts: %v", v)
		}
	}
}

// With the drafts, calls of clients with tasks are limited even if their agent has no limit.
func TestSubmissionsAreLimited(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		experimental, tasks bool
		own, want           int
	}{{true, true, 0, 600}, {true, true, 7, 7}, {true, false, 0, 0}, {false, true, 0, 0}} {
		b := newBench(t, func(cfg *mcpserver.Config) { cfg.Experimental = c.experimental })
		b.agents.agents["billing"].Limits = agent.Limits{CallsPerMinute: c.own}
		if c.tasks {
			b.taskCall("echo")
		} else {
			body, headers := modernCall("echo", ``, `{}`)
			b.post(body, headers...)
		}
		if got := b.limits.last.PerMinute; got != c.want {
			t.Errorf("%+v: limited to %d", c, got)
		}
	}
}

// An agent's clients may get the pending answer as a result, also from the tool that waits.
func TestPendingAsResult(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.agents.agents["billing"].PendingAs = agent.PendingAsResult
		v := decodeJSON(t, b.post(callBody("1", "gated", `{}`), "Accept", "application/json").body)
		id := (<-b.calls.arrived).String()
		await := decodeJSON(t, b.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"call_id":"`+id+`"}}}`, "Accept", "application/json").body)
		for _, v := range []any{v, await} {
			text, _ := memberAt(v, "result", "content", 0, "text").(string)
			if memberAt(v, "result", "isError") != nil || memberAt(v, "result", "_meta", "dev.holdpoint/call", "code") != "pending" ||
				!strings.Contains(text, "was not executed yet: it is waiting for approval by a person until 2030-01-02T15:04:05Z") {
				t.Errorf("%v", v)
			}
		}
		b.agents.agents["billing"].PendingAs = agent.PendingAsError
		if v := decodeJSON(t, b.post(callBody("3", "gated", `{}`), "Accept", "application/json").body); memberAt(v, "result", "isError") != true {
			t.Errorf("%v", v)
		}
	})
}
