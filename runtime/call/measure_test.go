package call_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// exchange returns a source's measurement of a request.
func exchange() tool.Exchange {
	return tool.Exchange{Status: 200, Sent: 12, Received: 3456, Steps: []tool.Step{
		{Name: "resolve", Took: 30 * time.Microsecond},
		{Name: "credentials", Took: 0},
		{Name: "call", Took: 20 * time.Millisecond},
		{Name: "something else", Took: time.Second},
		{Name: "transform", Took: 1500 * time.Nanosecond},
	}}
}

func answerMeasured(e tool.Exchange) func(tool.CallRequest) (tool.Result, error) {
	return func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`), Exchange: e}, nil
	}
}

// checkMeasures checks the measures of a call with exchange.
func checkMeasures(t *testing.T, m *call.Measures) {
	t.Helper()
	if m == nil {
		t.Fatal("the call has no measures")
	}
	took := m.Took
	if took[0] < time.Microsecond || took[5] < time.Microsecond {
		t.Errorf("validate took %s, log %s", took[0], took[5])
	}
	took[0], took[5] = 0, 0
	want := call.Measures{HTTPStatus: 200, Sent: 12, Received: 3456, Took: [6]time.Duration{
		1: 30 * time.Microsecond, 2: time.Microsecond, 3: 20 * time.Millisecond, 4: 2 * time.Microsecond,
	}}
	if got := (call.Measures{HTTPStatus: m.HTTPStatus, Sent: m.Sent, Received: m.Received, Took: took}); got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Answer(answerMeasured(exchange()))
	direct, gated := w.submit("open__echo", `{}`), w.submit("files__write", `{"n":1}`)
	check(t, w.decide(gated.ID, true))
	for _, ticket := range []call.Ticket{direct, gated} {
		checkMeasures(t, w.waitForEnd(ticket.ID).Measures)
		read, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		checkMeasures(t, read.Measures)
	}
	rejected, invalid := w.submit("files__write", `{"n":2}`), w.submit("files__write", `{}`)
	check(t, w.decide(rejected.ID, false))
	for _, ticket := range []call.Ticket{rejected, invalid} {
		if c := w.waitForEnd(ticket.ID); c.Measures != nil && c.Measures.Exchanged() {
			t.Errorf("a call that is %s was measured: %+v", c.Status, c.Measures)
		}
	}
}

// Concurrent outcomes keep their own measures.
func TestMeasuresOfMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 40
	var all sync.WaitGroup
	all.Add(n)
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		all.Done()
		all.Wait() // ends all calls together, so that one batch writes their outcomes
		var arguments struct{ N int64 }
		if err := json.Unmarshal(r.Arguments, &arguments); err != nil {
			return tool.Result{}, err
		}
		e := tool.Exchange{Sent: arguments.N, Received: 2 * arguments.N, Steps: []tool.Step{{Name: "call", Took: time.Millisecond}}}
		if arguments.N%2 == 0 {
			return tool.Result{}, &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "gone", Exchange: e}
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`), Exchange: e}, nil
	})
	tickets := make([]call.Ticket, n)
	var submitting sync.WaitGroup
	for i := range n {
		sub := w.newSubmission("open__echo", fmt.Sprintf(`{"n":%d}`, i+1))
		submitting.Go(func() {
			var err error
			if tickets[i], err = w.calls.Submit(t.Context(), sub); err != nil {
				t.Error(err)
				all.Done()
			}
		})
	}
	submitting.Wait()
	for i, ticket := range tickets {
		w.waitForEnd(ticket.ID)
		c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		if m := c.Measures; m == nil || m.Sent != int64(i+1) || m.Received != int64(2*(i+1)) || m.HTTPStatus != 0 {
			t.Errorf("call %d has measures %+v", i+1, m)
		}
	}
}

// A call that is sent again has the sums of its attempts.
func TestMeasuresOfAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"open","transport":"http","url":"http://127.0.0.1:1/open","auto_approve":true,"tools":{"echo":{"idempotent":true}}}]}`)
	attempts := 0
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		if attempts++; attempts == 1 {
			e := exchange()
			e.Status = 0
			return tool.Result{}, &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "gone", Exchange: e}
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`), Exchange: exchange()}, nil
	})
	c := w.waitForEnd(w.submit("open__echo", `{}`).ID)
	if m := c.Measures; m == nil || m.Sent != 24 || m.Took[3] != 40*time.Millisecond || m.HTTPStatus != 200 {
		t.Errorf("two attempts have measures %+v", m)
	}
}

func TestStepsInTraces(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	ticket := w.submitIn(clientContext(t), "open__echo", `{}`)
	w.waitForEnd(ticket.ID)
	whole := w.waitForSpan(ticket.ID, "execute_tool echo")
	for _, step := range []string{"validate", "log", "log outcome"} {
		checkParent(t, w.waitForSpan(ticket.ID, step), whole)
	}
}

// Calls that failed alike have equal error lines, without arguments.
func TestErrorLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := func(s string) json.RawMessage {
		quoted, err := json.Marshal(s)
		check(t, err)
		return json.RawMessage(`{"isError":true,"content":[{"type":"text","text":` + string(quoted) + `}]}`)
	}
	rpc := func(s string) error {
		return &tool.Failure{Kind: tool.JSONRPCError, Message: "m", RPC: json.RawMessage(s)}
	}
	long := strings.Repeat("secret words ", 200)
	for i, tc := range []struct {
		arguments, want string
		status          int
		result          json.RawMessage
		err             error
	}{
		{arguments: `{}`, result: text("\n  Row 17 of 4711 is locked\nand more"), want: "Row # of # is locked"},
		{arguments: `{}`, status: 404, result: text(`Upstream API returned 404: {"message":"no customer 12"}`), want: "Upstream API returned 404: …"},
		{arguments: `{"name":"Ada Lovelace"}`, result: text("Customer Ada Lovelace is unknown"), want: "Customer … is unknown"},
		{arguments: `{"a":{"b":["hunter2 is it"]}}`, result: text("bad password hunter2 is it!"), want: "bad password …!"},
		{arguments: `{"id":"cat"}`, result: text("the category is unknown"), want: "the category is unknown"},
		{arguments: `{}`, result: text(`ENOENT: no such file, open '/home/ada/x', can't go on`), want: "ENOENT: no such file, open …, can't go on"},
		{arguments: `{}`, result: text(`say "it`), want: "say …"},
		{arguments: `{}`, result: text("write to ada@example.org or https://x.example/y?token=z now"), want: "write to … or … now"},
		{arguments: `{}`, result: text("order 9f3b11ac-77de-4b0e-9e75-1a2b3c4d5e6f failed"), want: "order … failed"},
		{arguments: `{"text":"` + long + `"}`, result: text("not taken: " + long), want: "not taken: …"},
		{arguments: `{}`, result: text("red \x1b[31m \u202e text"), want: `red … text`},
		{arguments: `{}`, result: json.RawMessage(`{"isError":true,"content":[{"type":"image","data":""}]}`), want: "the tool reported an error"},
		{arguments: `{}`, err: rpc(`{"code":-32602,"message":"Unknown thing 12"}`), want: "JSON-RPC error -32602: Unknown thing #"},
		{arguments: `{}`, err: rpc(`"?"`), want: "m"},
		{
			arguments: `{}`, want: "connect to …: connection refused after # ms",
			err: &tool.Failure{Kind: tool.TransportFailure, Message: "connect to http://10.0.0.1:80: connection refused after 20 ms"},
		},
	} {
		w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
			e := tool.Exchange{Status: tc.status, Steps: []tool.Step{{Name: "call", Took: 1}}}
			return tool.Result{Raw: tc.result, IsError: true, Exchange: e}, tc.err
		})
		ticket := w.submit("open__echo", tc.arguments)
		w.waitForEnd(ticket.ID)
		var line string
		check(t, w.db.Pool().QueryRow(t.Context(), `SELECT coalesce(error_line, '') FROM calls WHERE id = $1`, ticket.ID).Scan(&line))
		if line != tc.want {
			t.Errorf("%d: %q, want %q", i, line, tc.want)
		}
	}
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: text(strings.Repeat("word ", 100)), IsError: true}, nil
	})
	ticket := w.submit("open__echo", `{}`)
	w.waitForEnd(ticket.ID)
	var length int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT char_length(error_line) FROM calls WHERE id = $1`, ticket.ID).Scan(&length))
	wantEqual(t, "length of a long line", length, 120)
}
