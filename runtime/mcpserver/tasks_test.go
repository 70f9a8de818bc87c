package mcpserver_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const taskClient = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// requestTask makes a request of a client that declares tasks.
func (b *bench) requestTask(method, id, members string, extra ...string) any {
	b.t.Helper()
	body, headers := modernRequest(method, `"taskId":"`+id+`"`+members, "Mcp-Name", id)
	body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":`+taskClient, 1)
	return decodeJSON(b.t, b.post(body, append(append(headers, "Accept", "application/json"), extra...)...).body)
}

func (b *bench) taskCall(tool string) any {
	b.t.Helper()
	body, headers := modernCall(tool, ``, taskClient)
	return decodeJSON(b.t, b.post(body, append(headers, "Accept", "application/json")...).body)
}

func TestTasks(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		began := time.Now()
		v := b.taskCall("gated")
		if !time.Now().Equal(began) {
			t.Error("a gated call did not become a task at once")
		}
		callID := <-b.calls.arrived
		id := callID.String()
		want := map[string]any{
			"resultType": "task", "taskId": id, "status": "working", "statusMessage": "waiting for approval until 15:04:05Z",
			"createdAt": memberAt(v, "result", "createdAt"), "lastUpdatedAt": memberAt(v, "result", "lastUpdatedAt"),
			"ttlMs": nil, "pollIntervalMs": 2000.0,
			"_meta": map[string]any{"dev.holdpoint/call": map[string]any{"id": id, "status": "parked", "code": "pending", "deadline": "2030-01-02T15:04:05Z"}},
		}
		if diff := cmp.Diff(want, memberAt(v, "result")); diff != "" {
			t.Error(diff)
		}
		if v := b.requestTask("tasks/get", id, ""); memberAt(v, "result", "status") != "working" || memberAt(v, "result", "resultType") != "complete" ||
			memberAt(v, "result", "statusMessage") != "waiting for approval until 15:04:05Z" {
			t.Errorf("%v", v)
		}
		b.calls.ask(callID, elicitation)
		b.calls.ask(callID, roots)
		v = b.requestTask("tasks/get", id, "")
		if memberAt(v, "result", "status") != "input_required" || memberAt(v, "result", "inputRequests", "question_1", "method") != "elicitation/create" ||
			memberAt(v, "result", "inputRequests", "question_2", "method") != "roots/list" || memberAt(v, "result", "requestState") != nil {
			t.Errorf("%v", v)
		}
		if v := b.requestTask("tasks/update", id, `,"inputResponses":{"question_1":{"action":"accept"},"x":{}}`); cmp.Diff(map[string]any{"resultType": "complete"}, memberAt(v, "result")) != "" {
			t.Errorf("%v", v)
		}
		v = b.requestTask("tasks/get", id, "")
		if memberAt(v, "result", "status") != "input_required" || memberAt(v, "result", "inputRequests", "question_1") != nil {
			t.Errorf("after one answer of two: %v", v)
		}
		b.requestTask("tasks/update", id, `,"inputResponses":{"question_2":{"roots":[]}}`)
		b.calls.finishCall(callID, succeedWith("done"))
		for range 2 { // it stays
			v = b.requestTask("tasks/get", id, "")
			if memberAt(v, "result", "status") != "completed" || memberAt(v, "result", "result", "content", 0, "text") != "done" || memberAt(v, "result", "result", "resultType") != nil {
				t.Errorf("%v", v)
			}
		}
		synctest.Wait()
		if got := b.calls.deliveries(); len(got) == 0 || got[0] != callID {
			t.Errorf("delivered %v", got)
		}
	})
}

// A call without approval becomes a task when it is slow, or when its server answers with a task.
func TestSlowCallBecomesTask(t *testing.T) {
	for name, says := range map[string]bool{"by itself": false, "by its server": true} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T) {
				b := newBench(t)
				if says {
					go func() { b.calls.tell(<-b.calls.arrived, call.EventTask, "") }()
				}
				began := time.Now()
				v := b.taskCall("slow")
				if memberAt(v, "result", "resultType") != "task" || memberAt(v, "result", "pollIntervalMs") != 1000.0 {
					t.Errorf("%v", v)
				}
				if took := time.Since(began); (took == 0) != says || took > time.Second {
					t.Errorf("took %s", took)
				}
				if !b.calls.submitted[0].Awaited {
					t.Error("its end will not be announced")
				}
			})
		})
	}
	t.Run("not", func(t *testing.T) {
		withFakeTime(t, func(t *testing.T) {
			b := newBench(t)
			if v := b.taskCall("echo"); memberAt(v, "result", "resultType") != "complete" || memberAt(v, "result", "taskId") != nil {
				t.Errorf("%v", v)
			}
		})
	})
}

func TestHowTasksEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    call.Call
		status string
		member string
	}{
		"a tool error":      {call.Call{Status: call.Failed, Failure: tool.ToolError, Result: json.RawMessage(`{"content":[],"isError":true}`)}, "completed", "result"},
		"a JSON-RPC error":  {call.Call{Status: call.Failed, Failure: tool.JSONRPCError, Result: json.RawMessage(`{"code":-1,"message":"x"}`)}, "failed", "error"},
		"a rejection":       {call.Call{Status: call.Rejected, Code: "rejected", Message: "no"}, "completed", "result"},
		"a lost connection": {call.Call{Status: call.Failed, Failure: tool.TransportFailure, Effect: tool.EffectPossible}, "completed", "result"},
		"an unknown end":    {call.Call{Status: call.Unknown, Effect: tool.EffectPossible}, "completed", "result"},
		"a cancellation":    {call.Call{Status: call.Cancelled}, "cancelled", ""},
		"its server's": {
			call.Call{Status: call.Failed, Failure: tool.JSONRPCError, Code: call.CodeTaskCancelled, Result: json.RawMessage(`{"code":-1,"message":"x"}`)},
			"cancelled", "",
		},
	} {
		b := newBench(t)
		b.calls.outcome = func(call.Submission) call.Call { return c.end }
		b.taskCall("echo")
		id := b.calls.order[0].String()
		v := b.requestTask("tasks/get", id, "")
		if memberAt(v, "result", "status") != c.status || memberAt(v, "result", "statusMessage") != nil {
			t.Errorf("%s: %v", name, v)
		}
		for _, member := range []string{"result", "error"} {
			if (memberAt(v, "result", member) != nil) != (member == c.member) {
				t.Errorf("%s: %s is %v", name, member, memberAt(v, "result", member))
			}
		}
		if c.member == "result" && memberAt(v, "result", "result", "isError") != true {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// Other clients, and clients without the extension, learn nothing of a task.
func TestTasksOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.taskCall("gated")
	id := (<-b.calls.arrived).String()
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		unknown := b.requestTask(method, uuid.NewString(), `,"inputResponses":{}`)
		if memberAt(unknown, "error", "code") != -32602.0 {
			t.Errorf("%s of none: %v", method, unknown)
		}
		if v := b.requestTask(method, id, `,"inputResponses":{}`, "Authorization", "Bearer token-ann"); cmp.Diff(unknown, v) != "" {
			t.Errorf("%s of another principal's: %v", method, v)
		}
		if v := b.requestTask(method, strings.ToUpper(id), `,"inputResponses":{}`); cmp.Diff(unknown, v) != "" {
			t.Errorf("%s of another form: %v", method, v)
		}
		body, headers := modernRequest(method, `"taskId":"`+id+`","inputResponses":{}`, "Mcp-Name", id)
		a := b.post(body, headers...)
		v := decodeJSON(t, a.body)
		if a.status != http.StatusBadRequest || memberAt(v, "error", "code") != -32021.0 ||
			memberAt(v, "error", "data", "requiredCapabilities", "extensions", "io.modelcontextprotocol/tasks") == nil {
			t.Errorf("%s without the extension: %d %v", method, a.status, v)
		}
		body, headers = modernRequest(method, `"taskId":"`+id+`"`, "Mcp-Name", "else")
		if v := decodeJSON(t, b.post(body, headers...).body); memberAt(v, "error", "code") != -32020.0 {
			t.Errorf("%s with another Mcp-Name: %v", method, v)
		}
		if v := decodeJSON(t, b.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"taskId":"`+id+`"}}`, b.startSession()...).body); memberAt(v, "error", "code") != -32601.0 {
			t.Errorf("%s in a session: %v", method, v)
		}
	}
	if c := b.calls.calls[b.calls.order[0]]; c.cancel {
		t.Error("the call was cancelled")
	}
	if v := b.requestTask("tasks/update", id, ``); memberAt(v, "error", "code") != -32602.0 {
		t.Errorf("without answers: %v", v)
	}
	b.requestTask("tasks/cancel", id, "")
	if c := b.calls.calls[b.calls.order[0]]; !c.cancel {
		t.Error("the call was not cancelled")
	}
}

func TestNewsOfTasks(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		b := newBench(t)
		b.taskCall("gated")
		callID := <-b.calls.arrived
		id := callID.String()
		listen := func(capabilities, wanted string) *http.Request {
			body, headers := modernRequest("subscriptions/listen", `"notifications":`+wanted)
			body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":`+capabilities, 1)
			return b.newRequest(t.Context(), body, headers...)
		}
		if v := decodeJSON(t, b.sendRequest(listen(`{}`, `{"taskIds":["`+id+`"]}`)).body); memberAt(v, "error", "code") != -32021.0 {
			t.Errorf("without the extension: %v", v)
		}
		if v := decodeJSON(t, b.sendRequest(listen(taskClient, `{"taskIds":7}`)).body); memberAt(v, "error", "code") != -32602.0 {
			t.Errorf("%v", v)
		}
		response, err := b.client.Do(listen(taskClient, `{"taskIds":["`+id+`","`+id+`","`+uuid.NewString()+`"]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var got []any
		reader, writer := io.Pipe()
		go func() {
			_, err := io.Copy(writer, response.Body)
			writer.CloseWithError(err)
		}()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, event := range readEvents(reader) {
				if strings.HasPrefix(event, "{") {
					got = append(got, decodeJSON(t, event))
				}
			}
		}()
		synctest.Wait()
		b.calls.ask(callID, elicitation)
		synctest.Wait()
		b.calls.finishCall(callID, succeedWith("done"))
		synctest.Wait()
		b.server.Drain()
		<-done
		if len(got) != 5 {
			t.Fatalf("%v", got)
		}
		if diff := cmp.Diff([]any{id}, memberAt(got[0], "params", "notifications", "taskIds")); diff != "" {
			t.Error(diff)
		}
		for i, status := range []string{"working", "input_required", "completed"} {
			v := got[1+i]
			if memberAt(v, "method") != "notifications/tasks" || memberAt(v, "params", "taskId") != id || memberAt(v, "params", "status") != status ||
				memberAt(v, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != "m" {
				t.Errorf("%v", v)
			}
		}
		if memberAt(got[3], "params", "result", "content", 0, "text") != "done" {
			t.Errorf("%v", got[3])
		}
	})
}

// stalled is a client that has left when the answer is written.
type stalled struct{ *httptest.ResponseRecorder }

func (stalled) FlushError() error { return errors.New("the client left") }

// A task's outcome whose write failed is not marked delivered.
func TestTaskIsNotDeliveredToWhoLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.taskCall("echo")
	before := len(b.calls.deliveries())
	id := b.calls.order[0].String()
	mux := http.NewServeMux()
	b.server.Mount(mux)
	get := func(w http.ResponseWriter) {
		body, headers := modernRequest("tasks/get", `"taskId":"`+id+`"`, "Mcp-Name", id, "Accept", "application/json")
		body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":`+taskClient, 1)
		mux.ServeHTTP(w, b.newRequest(t.Context(), body, headers...))
	}
	get(stalled{httptest.NewRecorder()})
	if n := len(b.calls.deliveries()) - before; n != 0 {
		t.Errorf("marked as delivered %d times", n)
	}
	get(httptest.NewRecorder())
	if n := len(b.calls.deliveries()) - before; n != 1 {
		t.Errorf("marked as delivered %d times", n)
	}
}
