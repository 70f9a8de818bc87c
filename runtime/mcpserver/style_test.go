package mcpserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Clients of older gateways get the codes that they know.
func TestErrorStyleCodes(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		billing := b.agents.agents["billing"]
		billing.ErrorStyle, billing.ReplyTimeout = agent.ErrorStyleCodes, time.Minute
		code := func(body string) any {
			return memberAt(decodeJSON(t, b.post(body, "Accept", "application/json").body), "error", "code")
		}
		if got := code(callBody("1", "none", "{}")); got != -32601.0 {
			t.Errorf("an unknown tool: %v", got)
		}
		b.calls.outcome = func(call.Submission) call.Call {
			return call.Call{Status: call.Invalid, Code: call.CodeInvalidArguments, Message: "/n: want a number"}
		}
		v := decodeJSON(t, b.post(callBody("1", "echo", "{}")).body)
		if message, _ := memberAt(v, "error", "message").(string); memberAt(v, "error", "code") != -32602.0 || !strings.Contains(message, "/n: want a number") {
			t.Errorf("invalid arguments: %v", v)
		}
		began := time.Now()
		if got := code(callBody("1", "gated", "{}")); got != -32003.0 || time.Since(began) != time.Minute {
			t.Errorf("no reply: %v after %s", got, time.Since(began))
		}
	})
}

func TestReplyTimeout(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.agents.agents["billing"].ReplyTimeout = 5 * time.Second
		v := decodeJSON(t, b.post(callBody("1", "slow", "{}"), "Accept", "application/json").body)
		id := (<-b.calls.arrived).String()
		if memberAt(v, "error", "code") != -32003.0 || memberAt(v, "error", "data", "code") != "reply_timeout" || memberAt(v, "error", "data", "call_id") != id {
			t.Errorf("%v", v)
		}
		time.AfterFunc(time.Second, func() { b.calls.finishCall(b.calls.order[0], succeedWith("done")) })
		v = decodeJSON(t, b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"call_id":"`+id+`"}}}`, "Accept", "application/json").body)
		if memberAt(v, "result", "content", 0, "text") != "done" {
			t.Errorf("afterwards: %v", v)
		}
	})
}
