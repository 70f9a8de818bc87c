package mcpserver_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// startCapable starts a session of a client with all capabilities.
func (b *bench) startCapable(capabilities string) []string {
	b.t.Helper()
	a := b.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"1"}}}`)
	return []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
}

var (
	elicitation = call.Question{Number: 1, Key: "question_1", Method: "elicitation/create", Params: json.RawMessage("{\"message\":\n\"sure?\"}")}
	roots       = call.Question{Number: 2, Key: "question_2", Method: "roots/list"}
)

// Before 2026-07-28, a question is a request on the call's stream, and its answer is another POST.
func TestLegacyClientIsAsked(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startCapable(`{"elicitation":{},"roots":{"listChanged":true},"experimental":{"x":{}}}`)
		var id uuid.UUID
		go func() {
			id = <-b.calls.arrived
			b.calls.ask(id, elicitation)
			b.calls.ask(id, call.Question{Number: 2, Method: "sampling/createMessage"}) // a capability that it did not declare
			b.calls.ask(id, call.Question{Number: 3, Method: "roots/list"})
			synctest.Wait()
			stranger := b.post(`{"jsonrpc":"2.0","id":"holdpoint/question/`+id.String()+`/1","result":{"action":"accept"}}`,
				append(b.startSession(), "Authorization", "Bearer token-ann")...)
			if _, ok := b.calls.answer(id, 1); ok || stranger.status != http.StatusNotFound {
				t.Errorf("another principal answers: %d", stranger.status)
			}
			for _, answer := range []string{
				`{"jsonrpc":"2.0","id":"holdpoint/question/` + id.String() + `/1","result":{"action":"accept","content":{"n":1e400}}}`,
				`{"jsonrpc":"2.0","id":"holdpoint/question/` + id.String() + `/1","result":{"action":"decline"}}`, // too late
				`{"jsonrpc":"2.0","id":"holdpoint/question/` + id.String() + `/3","error":{"code":-1,"message":"no"}}`,
				`{"jsonrpc":"2.0","id":7,"result":{}}`,
			} {
				if a := b.post(answer, session...); a.status != http.StatusAccepted || a.body != "" {
					t.Errorf("%s: %d %s", answer, a.status, a.body)
				}
			}
			b.calls.finishCall(id, succeedWith("done"))
		}()
		a := b.post(callBody("1", "gated", "{}"), session...)
		if sub := b.calls.submitted[0]; string(sub.Caller.Capabilities) != `{"elicitation":{},"roots":{"listChanged":true}}` {
			t.Errorf("the call goes with %s", sub.Caller.Capabilities)
		}
		want := []string{
			": keepalive",
			`{"jsonrpc":"2.0","id":"holdpoint/question/` + id.String() + `/1","method":"elicitation/create","params":{"message": "sure?"}}`,
			`{"jsonrpc":"2.0","id":"holdpoint/question/` + id.String() + `/3","method":"roots/list"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}],"_meta":{"dev.holdpoint/call":{"id":"` + id.String() + `","status":"succeeded","code":"succeeded"}}}}`,
		}
		if diff := cmp.Diff(want, readEvents(strings.NewReader(a.body))); diff != "" {
			t.Error(diff)
		}
		if got, _ := b.calls.answer(id, 1); string(got.Result) != `{"action":"accept","content":{"n":1e400}}` {
			t.Errorf("answered %s", got.Result)
		}
		if got, _ := b.calls.answer(id, 3); string(got.Error) != `{"code":-1,"message":"no"}` {
			t.Errorf("answered %s", got.Error)
		}
	})
}

// A client without streams or without a session gets no questions.
func TestWhoCannotBeAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.post(callBody("1", "echo", "{}"), append(b.startCapable(`{"elicitation":{}}`), "Accept", "application/json")...)
	b.post(callBody("1", "echo", "{}"))
	b.post(callBody("1", "echo", "{}"), b.startSession()...)
	for _, sub := range b.calls.submitted {
		if sub.Caller.Capabilities != nil {
			t.Errorf("%s", sub.Caller.Capabilities)
		}
	}
}

func modernCall(tool, members, capabilities string) (body string, headers []string) {
	body, headers = modernRequest("tools/call", `"name":"files__`+tool+`","arguments":{"a":1}`+members, "Mcp-Name", "files__"+tool)
	return strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":`+capabilities, 1), headers
}

// Since 2026-07-28, a question is a result, and the answer comes with the repeated request.
func TestModernClientIsAsked(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		var id uuid.UUID
		go func() {
			id = <-b.calls.arrived
			b.calls.ask(id, elicitation)
		}()
		post := func(tool, members, capabilities string) any {
			body, headers := modernCall(tool, members, capabilities)
			a := b.post(body, append(headers, "Accept", "application/json")...)
			return decodeJSON(t, a.body)
		}
		v := post("slow", ``, `{"elicitation":{"form":{}}}`)
		want := map[string]any{
			"resultType":    "input_required",
			"inputRequests": map[string]any{"question_1": map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "sure?"}}},
			"requestState":  id.String() + "/1",
			"_meta": map[string]any{"dev.holdpoint/call": map[string]any{
				"id": id.String(), "status": "executing", "code": "input_required",
			}},
		}
		if diff := cmp.Diff(want, memberAt(v, "result")); diff != "" {
			t.Error(diff)
		}
		state := `,"requestState":"` + id.String() + `/1"`
		for name, c := range map[string]struct{ tool, members string }{
			"tampered":          {"slow", `,"requestState":"` + id.String() + `/1-TAMPERED","inputResponses":{}`},
			"of another form":   {"slow", `,"requestState":{},"inputResponses":{}`},
			"unknown":           {"slow", `,"requestState":"` + uuid.NewString() + `/1","inputResponses":{}`},
			"another tool's":    {"echo", state + `,"inputResponses":{}`},
			"no object":         {"slow", state + `,"inputResponses":7`},
			"an answer that is": {"slow", state + `,"inputResponses":{"question_1":7}`},
		} {
			v := post(c.tool, c.members, `{"elicitation":{}}`)
			if memberAt(v, "error", "code") != -32602.0 {
				t.Errorf("%s: %v", name, v)
			}
		}
		if v := post("slow", state+`,"inputResponses":{"else":{}}`, `{"elicitation":{}}`); memberAt(v, "result", "resultType") != "input_required" {
			t.Errorf("without an answer: %v", v)
		}
		time.AfterFunc(time.Second, func() { b.calls.finishCall(id, succeedWith("done")) })
		v = post("slow", state+`,"inputResponses":{"question_1":{"action":"accept"},"else":{}}`, `{"elicitation":{}}`)
		if memberAt(v, "result", "resultType") != "complete" || memberAt(v, "result", "content", 0, "text") != "done" {
			t.Errorf("%v", v)
		}
		if got, _ := b.calls.answer(id, 1); string(got.Result) != `{"action":"accept"}` {
			t.Errorf("answered %s", got.Result)
		}
		if len(b.calls.submitted) != 1 {
			t.Errorf("%d calls were made", len(b.calls.submitted))
		}
	})
}

// Reports of servers reach the client that requested them. Progress only grows.
func TestNewsOnTheWay(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		session := b.startSession()
		if a := b.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}`, session...); !strings.Contains(a.body, "-32602") {
			t.Error(a.body)
		}
		if a := b.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}}`, session...); a.body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Error(a.body)
		}
		go func() {
			id := <-b.calls.arrived
			<-time.After(15 * time.Second)
			for _, params := range []string{`{"progress":0,"total":2}`, `{"progress":1,"total":2,"message":"half"}`, `{"progress":0.5}`, `{"nonsense":1}`} {
				b.calls.tell(id, call.EventProgress, params)
			}
			b.calls.tell(id, call.EventLog, "{\"level\":\"error\",\n\"data\":\"x\"}")
			synctest.Wait()
			b.calls.finishCall(id, succeedWith("done"))
		}()
		body := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"files__gated","arguments":{},"_meta":{"progressToken":7}}}`
		got := readEvents(strings.NewReader(b.post(body, session...).body))
		progress := func(members string) string {
			return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,` + members + `}}`
		}
		waiting := `,"message":"waiting for approval until 15:04:05Z"`
		want := []string{
			": keepalive", progress(`"progress":0` + waiting), progress(`"progress":10` + waiting),
			progress(`"progress":11,"total":13`), progress(`"progress":12,"total":13,"message":"half"`),
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error", "data":"x"}}`,
		}
		if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" {
			t.Error(diff)
		}
		if c := b.calls.submitted[0].Caller; c.LogLevel != "warning" || !c.Progress {
			t.Errorf("%+v", c)
		}
	})
}

// A client that waits with the synthetic tool gets questions too, and its answers reach the call.
func TestModernClientIsAskedWhileItAwaits(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		post := func(name, members string) any {
			body, headers := modernRequest("tools/call", `"name":"`+name+`"`+members, "Mcp-Name", name, "Accept", "application/json")
			return decodeJSON(t, b.post(strings.Replace(body, `Capabilities":{}`, `Capabilities":{"elicitation":{}}`, 1), headers...).body)
		}
		go func() { b.calls.ask(<-b.calls.arrived, elicitation) }()
		v := post("files__gated", `,"arguments":{}`)
		id, _ := memberAt(v, "result", "_meta", "dev.holdpoint/call", "id").(string)
		callID, err := uuid.Parse(id)
		if err != nil {
			t.Fatalf("%v", v)
		}
		await := `,"arguments":{"call_id":"` + id + `"}`
		if v := post("holdpoint_await", await); memberAt(v, "result", "resultType") != "input_required" || memberAt(v, "result", "requestState") != id+"/1" {
			t.Fatalf("%v", v)
		}
		for name, state := range map[string]string{
			"of another call": `"` + uuid.NewString() + `/1"`, "tampered": `"` + id + `"`, "of another form": `7`,
		} {
			if v := post("holdpoint_await", await+`,"requestState":`+state+`,"inputResponses":{"question_1":{"action":"decline"}}`); memberAt(v, "error", "code") != -32602.0 {
				t.Errorf("a state %s: %v", name, v)
			}
		}
		time.AfterFunc(time.Second, func() { b.calls.finishCall(callID, succeedWith("done")) })
		v = post("holdpoint_await", await+`,"requestState":"`+id+`/1","inputResponses":{"question_1":{"action":"accept"}}`)
		if memberAt(v, "result", "content", 0, "text") != "done" {
			t.Errorf("%v", v)
		}
		if got, _ := b.calls.answer(callID, 1); string(got.Result) != `{"action":"accept"}` {
			t.Errorf("answered %s", got.Result)
		}
	})
}

// Declared capabilities are stored with the calls and passed to servers, unless they are unknown or cannot be stored.
func TestOddCapabilities(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]string{
		`{"elicitation":{"form":{}},"sampling":[],"roots":7}`:                            `{"elicitation":{"form":{}}}`,
		`{"elicitation":{"\u0000":{}},"roots":{}}`:                                       `{"roots":{}}`,
		`{"elicitation":{"a":1e999999},"roots":{}}`:                                      `{"roots":{}}`,
		`{"elicitation":` + strings.Repeat(`{"a":`, 50) + `1` + strings.Repeat(`}`, 51):  ``,
		`{"elicitation":{"a":"` + strings.Repeat("x", 20<<10) + `"},"sampling":{"t":1}}`: `{"sampling":{"t":1}}`,
	} {
		b := newBench(t)
		body, headers := modernCall("echo", "", declared)
		b.post(body, headers...)
		if got := string(b.calls.submitted[0].Caller.Capabilities); got != want {
			t.Errorf("%.60s: the call goes with %s", declared, got)
		}
	}
}

func TestUnknownLogLevel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for level, ok := range map[string]bool{`"loud"`: false, `"\u0000"`: false, `"warning"`: true} {
		body, headers := modernCall("echo", "", "{}")
		body = strings.Replace(body, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":`+level+`,`, 1)
		a := b.post(body, headers...)
		if v := decodeJSON(t, a.body); (memberAt(v, "error", "code") == -32602.0) == ok || (a.status == http.StatusOK) != ok {
			t.Errorf("%s: %d %v", level, a.status, v)
		}
	}
	if n := len(b.calls.submitted); n != 1 {
		t.Errorf("%d calls were made", n)
	}
}

// A response whose id names no question is ignored.
func TestResponsesToNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.answerErr = errors.New("the database was asked")
	session := b.startSession()
	for _, number := range []string{"2147483648", "99999999999999999999", "-1", "+1", "", "x"} {
		a := b.post(`{"jsonrpc":"2.0","id":"holdpoint/question/`+uuid.NewString()+`/`+number+`","result":{}}`, session...)
		if a.status != http.StatusAccepted {
			t.Errorf("%q: %d %s", number, a.status, a.body)
		}
	}
}

// While a reviewer decides about an answer, the client reads so in progress messages, in its task's message and in the pending answer.
func TestClientIsToldOfReview(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		until := time.Date(2030, 1, 2, 16, 4, 5, 0, time.UTC)
		const reviewed = "waiting until a reviewer decides about an answer to the tool's server, until 16:04:05Z"
		var id uuid.UUID
		go func() {
			id = <-b.calls.arrived
			<-time.After(5 * time.Second)
			b.calls.review(id, until)
			<-time.After(4 * time.Second)
			b.calls.review(id, time.Time{})
		}()
		body := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"files__gated","arguments":{},"_meta":{"progressToken":7}}}`
		session := b.startSession()
		go func() {
			<-time.After(12 * time.Second)
			b.calls.finishCall(id, succeedWith("done"))
		}()
		got := b.post(body, session...).body
		if !strings.Contains(got, `"progress":5,"message":"`+reviewed+`"`) || !strings.Contains(got, `"progress":10,"message":"executing"`) {
			t.Errorf("the client heard %s", got)
		}
		// The task has the message until the decision, and so has the pending answer.
		var next uuid.UUID
		go func() {
			next = <-b.calls.arrived
			b.calls.review(next, until)
		}()
		v := decodeJSON(t, b.post(callBody("1", "gated", `{"n":2}`), append(session, "Accept", "application/json")...).body)
		text, _ := memberAt(v, "result", "content", 0, "text").(string)
		if !strings.Contains(text, "a reviewer decides until 2030-01-02T16:04:05Z whether it gets the answer") || !strings.Contains(text, next.String()) {
			t.Errorf("the pending answer is %q", text)
		}
		task, headers := modernRequest("tasks/get", `"taskId":"`+next.String()+`"`, "Mcp-Name", next.String())
		task = strings.Replace(task, `Capabilities":{}`, `Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		v = decodeJSON(t, b.post(task, append(headers, "Accept", "application/json")...).body)
		if memberAt(v, "result", "status") != "working" || memberAt(v, "result", "statusMessage") != reviewed {
			t.Errorf("the task is %v", v)
		}
	})
}
