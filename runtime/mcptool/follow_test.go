package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// handle is a result that starts a task.
const handle = `{"resultType":"task","taskId":"t/ä","status":"working","ttlMs":null,"pollIntervalMs":1}`

// newTask returns a server's answer to tasks/get. more adds members, each with a leading comma.
func newTask(status, more string) string {
	return `{"resultType":"complete","taskId":"t/ä","status":"` + status + `","pollIntervalMs":1` + more + `}`
}

// newTaskServer returns a server of 2026-07-28 whose tasks go through these states and stay in the last one.
func newTaskServer(states ...string) *script {
	upstream := newModernServer(answerInTurn(handle))
	upstream.at["tasks/get"] = answerInTurn(states...)
	upstream.at["tasks/update"] = answerInTurn(complete)
	upstream.at["tasks/cancel"] = answerInTurn(complete)
	return upstream
}

// pollingSource returns a source that polls tasks without delay.
func pollingSource(t testing.TB) *mcptool.Source {
	t.Helper()
	return newSource(t, mcptool.Config{Limits: mcptool.Limits{TaskPoll: time.Millisecond}})
}

func TestTaskIsFollowed(t *testing.T) {
	t.Parallel()
	upstream := newTaskServer(newTask("working", `,"statusMessage":"soon"`), newTask("working", ``), newTask("completed", `,"result":{"content":[{"n":1e400}], "isError":true }`))
	var told atomic.Int64
	s := pollingSource(t)
	skill := httpSkill(upstream.serve(t).URL)
	got := callFor(t, s, skill, "echo", `{}`, tool.Caller{
		Task: func() { told.Add(1) }, Progress: func(json.RawMessage) {}, Cancel: make(chan struct{}),
	})
	if string(got.Raw) != `{"content":[{"n":1e400}], "isError":true }` || !got.IsError {
		t.Errorf("got %s", got.Raw)
	}
	sent := upstream.lastRequest("tasks/get")
	text, meta, _ := strings.Cut(string(sent.Params), `,"_meta":`)
	if text != `{"taskId":"t/ä"` || !strings.Contains(meta, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) || strings.Contains(meta, "progressToken") {
		t.Errorf("sent %s", sent.Params)
	}
	if h := sent.header; h.Get("Mcp-Name") != "=?base64?dC/DpA==?=" || h.Get("Mcp-Method") != "tasks/get" {
		t.Errorf("headers %v", h)
	}
	if n := upstream.countRequests("tools/call"); n != 1 || upstream.countRequests("tasks/get") != 3 || upstream.countRequests("tasks/cancel") != 0 || told.Load() != 1 {
		t.Errorf("%d calls, %d polls, %d cancels, %d status notifications", n, upstream.countRequests("tasks/get"), upstream.countRequests("tasks/cancel"), told.Load())
	}
}

func TestTaskOfAChild(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{TaskPoll: time.Millisecond}})
	got := textOf(t, callFor(t, s, childSkill(t, "tasks"), "echo", `{}`, giveAnswer(accepted)))
	if !strings.HasPrefix(got, `{"taskId":"t/ä","inputResponses":{"a":`+accepted+`},"_meta":`) {
		t.Errorf("the task got the answer %s", got)
	}
}

// TestHowTasksEnd checks the outcome of the call for each final state of a task.
func TestHowTasksEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handle string
		states []string
		kind   tool.FailureKind
		effect tool.Effect
		says   string
	}{
		"failed":           {handle, []string{newTask("failed", `,"error":{"code":-7,"message":"no paper"}`)}, tool.JSONRPCError, tool.EffectNone, "-7: no paper"},
		"cancelled":        {handle, []string{newTask("cancelled", `,"statusMessage":"by the\u202e owner"`)}, tool.JSONRPCError, tool.EffectPossible, `cancelled the task: by the\u202e owner`},
		"no result":        {handle, []string{newTask("completed", ``)}, tool.ProtocolFailure, tool.EffectPossible, `"completed"`},
		"no error":         {handle, []string{newTask("failed", ``)}, tool.ProtocolFailure, tool.EffectPossible, `"failed"`},
		"result no object": {handle, []string{newTask("completed", `,"result":7`)}, tool.ProtocolFailure, tool.EffectPossible, "not a JSON object"},
		"a task again":     {handle, []string{newTask("completed", `,"result":`+handle)}, tool.ProtocolFailure, tool.EffectPossible, `"task"`},
		"large result":     {handle, []string{newTask("completed", `,"result":{"a":"`+strings.Repeat("x", 3000)+`"}`)}, tool.ProtocolFailure, tool.EffectPossible, "larger than 2000 bytes"},
		"unknown status":   {handle, []string{newTask("dreaming", ``)}, tool.ProtocolFailure, tool.EffectPossible, `"dreaming"`},
		"no status":        {handle, []string{`{"taskId":"t/ä"}`}, tool.ProtocolFailure, tool.EffectPossible, "no status"},
		"another task":     {handle, []string{newTask("working", ``), `{"taskId":"u","status":"completed","result":{}}`}, tool.ProtocolFailure, tool.EffectPossible, "another task"},
		"a member twice":   {handle, []string{newTask("working", `,"status":"completed"`)}, tool.ProtocolFailure, tool.EffectPossible, "twice"},
		"no id":            {`{"resultType":"task","status":"working"}`, nil, tool.ProtocolFailure, tool.EffectPossible, "cannot be followed"},
		"long id":          {`{"resultType":"task","status":"working","taskId":"` + strings.Repeat("x", 1500) + `"}`, nil, tool.ProtocolFailure, tool.EffectPossible, "cannot be followed"},
		"id no string":     {`{"resultType":"task","status":"working","taskId":7}`, nil, tool.ProtocolFailure, tool.EffectPossible, "taskId is not a string"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newTaskServer(test.states...)
			upstream.at["tools/call"] = answerInTurn(test.handle)
			s := newSource(t, mcptool.Config{Limits: mcptool.Limits{TaskPoll: time.Millisecond, ResultBytes: 2000}})
			f := failCall(withTimeout(t, 20*time.Second), t, s, httpSkill(upstream.serve(t).URL))
			if f.Kind != test.kind || f.Effect != test.effect || !strings.Contains(f.Message, test.says) || f.Cancelled != (name == "cancelled") {
				t.Errorf("got %s, effect %s, cancelled %t: %s", f.Kind, f.Effect, f.Cancelled, f.Message)
			}
			if f.Kind == tool.JSONRPCError && !json.Valid(f.RPC) {
				t.Errorf("error %s", f.RPC)
			}
		})
	}
}

// TestTaskOutlivesLostConnections: a poll is repeated after a lost connection, but not after an error of the server.
func TestTaskOutlivesLostConnections(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	upstream := newTaskServer()
	done := newTask("completed", `,"result":{"content":[]}`)
	upstream.at["tasks/get"] = func(w http.ResponseWriter, r *http.Request, m message) {
		switch looks.Add(1) {
		case 1:
			hangUp(w, r, m)
		case 2:
			answerStatus(502, "text/html", "<html>")(w, r, m)
		default:
			writeAnswer(w, m, done)
		}
	}
	s := pollingSource(t)
	callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)

	upstream = newTaskServer()
	upstream.at["tasks/get"] = rpcError(200, -32602, "no such task")
	f := failCall(withTimeout(t, 20*time.Second), t, s, httpSkill(upstream.serve(t).URL))
	if f.Kind != tool.JSONRPCError || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, "no such task") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
}

// TestTaskThatNeverEnds: the call times out, and the server gets a cancellation.
func TestTaskThatNeverEnds(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"working": newTask("working", ``), "in a hurry": strings.Replace(newTask("working", ``), "Ms\":1", "Ms\":-1e300", 1),
		"in no hurry": strings.Replace(newTask("working", ``), "Ms\":1", "Ms\":1e300", 1), "no interval": strings.Replace(newTask("working", ``), "pollIntervalMs", "x", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newTaskServer(state)
			s := newSource(t, mcptool.Config{Limits: mcptool.Limits{TaskPoll: 200 * time.Millisecond}})
			skill := httpSkill(upstream.serve(t).URL)
			if _, err := s.Capabilities(t.Context(), skill); err != nil { // connects
				t.Fatal(err)
			}
			_, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo", Timeout: 3 * time.Second})
			f := asFailure(t, err)
			if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible || !errors.Is(f, context.DeadlineExceeded) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			eventually.Holds(t, "the task is cancelled", func() bool { return upstream.countRequests("tasks/cancel") == 1 })
			if n := upstream.countRequests("tasks/get"); n > 15 {
				t.Errorf("polled %d times", n)
			}
		})
	}
}

// TestTaskIsCancelledForItsCaller: a cancelled task is followed to its end, and its questions are not answered.
func TestTaskIsCancelledForItsCaller(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		working, end string
		cancelled    bool
	}{
		"cancelled": {newTask("working", ``), newTask("cancelled", ``), true},
		"too late":  {newTask("working", ``), newTask("completed", `,"result":{"content":[]}`), false},
		"asking":    {newTask("input_required", `,"inputRequests":{"a":`+formatInputRequest(`{}`)+`}`), newTask("cancelled", ``), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cancel := make(chan struct{})
			asked := make(chan struct{})
			upstream := newTaskServer()
			upstream.at["tasks/get"] = func(w http.ResponseWriter, _ *http.Request, m message) {
				state := test.working
				if upstream.countRequests("tasks/cancel") > 0 {
					state = test.end
				}
				writeAnswer(w, m, state)
			}
			s := pollingSource(t)
			caller := acceptQuestions(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
				close(asked)
				<-ctx.Done()
				return nil, ctx.Err()
			})
			caller.Cancel = cancel
			caller.Task = func() {
				go func() {
					if name == "asking" {
						<-asked
					}
					close(cancel)
				}()
			}
			_, err := s.Call(withTimeout(t, 20*time.Second), httpSkill(upstream.serve(t).URL), tool.CallRequest{Tool: "echo", Caller: caller})
			switch {
			case !test.cancelled && err != nil:
				t.Error(err)
			case test.cancelled && !asFailure(t, err).Cancelled:
				t.Errorf("got %v", err)
			}
			if n := upstream.countRequests("tasks/cancel"); n != 1 || upstream.countRequests("tasks/update") != 0 {
				t.Errorf("%d cancels, %d updates", n, upstream.countRequests("tasks/update"))
			}
		})
	}
}

// TestTaskAsks: each question is asked once, even if the server lists it again. Several may be open.
func TestTaskAsks(t *testing.T) {
	t.Parallel()
	const sampling = `{"method":"sampling/createMessage","params":{"n":1e400}}`
	first := newTask("input_required", `,"inputRequests":{"a":`+formatInputRequest(`{}`)+`,"b":`+sampling+`}`)
	second := newTask("input_required", `,"inputRequests":{"c":{"method":"roots/list"}}`)
	upstream := newTaskServer()
	var given atomic.Int64
	upstream.at["tasks/update"] = func(w http.ResponseWriter, r *http.Request, m message) {
		if given.Add(1) == 2 {
			hangUp(w, r, m) // and the server repeats the question
			return
		}
		writeAnswer(w, m, complete)
	}
	responses := func() map[string]string {
		found := map[string]string{}
		for _, m := range upstream.listRequests("tasks/update") {
			var params struct {
				TaskID         string `json:"taskId"`
				InputResponses map[string]json.RawMessage
			}
			if err := json.Unmarshal(m.Params, &params); err != nil || params.TaskID != "t/ä" {
				t.Errorf("update %s: %v", m.Params, err)
			}
			for key, value := range params.InputResponses {
				found[key] = string(value)
			}
		}
		return found
	}
	upstream.at["tasks/get"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		switch got := responses(); {
		case got["a"] == "" || got["b"] == "":
			writeAnswer(w, m, first)
		case got["c"] == "":
			writeAnswer(w, m, second)
		default:
			writeAnswer(w, m, newTask("completed", `,"result":{"content":[]}`))
		}
	}
	var asked atomic.Int64
	both := make(chan struct{})
	s := pollingSource(t)
	callFor(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`, acceptQuestions(func(_ context.Context, q tool.Question) (json.RawMessage, error) {
		switch asked.Add(1) {
		case 1:
			<-both
		case 2:
			close(both)
		}
		return json.RawMessage(`{ "m":"` + q.Method + `"}`), nil
	}))
	want := fmt.Sprint(map[string]string{"a": `{ "m":"elicitation/create"}`, "b": `{ "m":"sampling/createMessage"}`, "c": `{ "m":"roots/list"}`})
	if got := fmt.Sprint(responses()); got != want || asked.Load() != 3 {
		t.Errorf("asked %d times, answered %s", asked.Load(), got)
	}
}

// TestTaskThatCannotBeAnswered: the task is cancelled and the call fails.
func TestTaskThatCannotBeAnswered(t *testing.T) {
	t.Parallel()
	wants := func(requests string) string { return newTask("input_required", `,"inputRequests":`+requests) }
	fails := acceptQuestions(func(context.Context, tool.Question) (json.RawMessage, error) {
		return nil, errors.New("the secret reason")
	})
	for name, test := range map[string]struct {
		state  string
		caller tool.Caller
		says   string
	}{
		"not declared": {wants(`{"a":` + formatInputRequest(`{}`) + `}`), tool.Caller{}, "did not declare elicitation"},
		"not offered":  {wants(`{"a":{"method":"tasks/list"}}`), refuseQuestions(t), "not offered"},
		"no object":    {wants(`[]`), refuseQuestions(t), "not a JSON object"},
		"no requests":  {newTask("input_required", ``), refuseQuestions(t), "EOF"},
		"large":        {wants(`{"a":` + formatInputRequest(`{"x":"`+strings.Repeat("x", 70<<10)+`"}`) + `}`), refuseQuestions(t), "larger than 65536"},
		"no answer":    {wants(`{"a":` + formatInputRequest(`{}`) + `}`), fails, "there was no answer to be had"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newTaskServer(test.state)
			f := failCallFor(withTimeout(t, 20*time.Second), t, pollingSource(t), httpSkill(upstream.serve(t).URL), test.caller)
			if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			eventually.Holds(t, "the task is cancelled", func() bool { return upstream.countRequests("tasks/cancel") == 1 })
		})
	}
}

// TestTaskThatAsksForEver: the number of new questions of a task is limited.
func TestTaskThatAsksForEver(t *testing.T) {
	t.Parallel()
	upstream := newTaskServer()
	var looks atomic.Int64
	upstream.at["tasks/get"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		writeAnswer(w, m, newTask("input_required", fmt.Sprintf(`,"inputRequests":{"q%d":%s}`, looks.Add(1), formatInputRequest(`{}`))))
	}
	f := failCallFor(withTimeout(t, 30*time.Second), t, pollingSource(t), httpSkill(upstream.serve(t).URL), giveAnswer(accepted))
	if f.Kind != tool.ProtocolFailure || !strings.Contains(f.Message, "more than 100 questions") {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
}

// TestQuestionOfATaskIsTakenBack: the question ends when the task continues without the answer.
func TestQuestionOfATaskIsTakenBack(t *testing.T) {
	t.Parallel()
	upstream := newTaskServer()
	asked, ended := make(chan struct{}), make(chan struct{})
	upstream.at["tasks/get"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		select {
		case <-ended:
			writeAnswer(w, m, newTask("completed", `,"result":{"content":[]}`))
			return
		default:
		}
		select {
		case <-asked:
			writeAnswer(w, m, newTask("working", ``))
		default:
			writeAnswer(w, m, newTask("input_required", `,"inputRequests":{"a":`+formatInputRequest(`{}`)+`}`))
		}
	}
	callFor(t, pollingSource(t), httpSkill(upstream.serve(t).URL), "echo", `{}`, acceptQuestions(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return json.RawMessage(accepted), nil
	}))
	if n := upstream.countRequests("tasks/update"); n != 0 {
		t.Errorf("%d updates", n)
	}
}

// TestTaskOfClosedSource: closing the source does not wait for tasks.
func TestTaskOfClosedSource(t *testing.T) {
	t.Parallel()
	upstream := newTaskServer(newTask("working", ``))
	s := newSource(t, mcptool.Config{})
	failed := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), httpSkill(upstream.serve(t).URL), tool.CallRequest{Tool: "echo"})
		failed <- err
	}()
	eventually.Holds(t, "the task is looked at", func() bool { return upstream.countRequests("tasks/get") > 0 })
	if err := s.Close(withTimeout(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if f := asFailure(t, <-failed); f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
}

// TestTaskOfTheEarlierRevision: a server of 2025-11-25 has a tool that requires a task. Its questions arrive on the
// stream of the request for the result.
func TestTaskOfTheEarlierRevision(t *testing.T) {
	t.Parallel()
	const created = `{"task":{"taskId":"t","status":"working","ttl":null,"pollInterval":1}}`
	definition, err := tool.ParseDefinition(json.RawMessage(`{"name":"echo","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`))
	if err != nil {
		t.Fatal(err)
	}
	upstream, answered := newAsker()
	upstream.at["tools/call"] = answerInTurn(created)
	upstream.at["tasks/get"] = answerInTurn(`{"taskId":"t","status":"working","pollInterval":1}`, `{"taskId":"t","status":"input_required"}`)
	var results atomic.Int64
	upstream.at["tasks/result"] = func(w http.ResponseWriter, r *http.Request, m message) {
		if results.Add(1) == 2 {
			rpcError(200, -32603, "out of paper")(w, r, m)
			return
		}
		write := startEvents(w)
		write(formatEvent(formatQuestion("1", `{}`)))
		got := <-answered
		write(formatEvent(answerText(m, `{"content":[`+string(got.Result)+`],"_meta":{"a":1}}`)))
	}
	s := pollingSource(t)
	skill := httpSkill(upstream.serve(t).URL)
	request := tool.CallRequest{Tool: "echo", Arguments: json.RawMessage(`{"a":1}`), Definition: &definition, Caller: giveAnswer(accepted)}
	result, err := s.Call(withTimeout(t, 20*time.Second), skill, request)
	if err != nil || string(result.Raw) != `{"content":[`+accepted+`],"_meta":{"a":1}}` {
		t.Errorf("got %s, %v", result.Raw, err)
	}
	if got := string(upstream.lastRequest("tools/call").Params); got != `{"name":"echo","arguments":{"a":1},"task":{}}` {
		t.Errorf("called with %s", got)
	}
	_, err = s.Call(withTimeout(t, 20*time.Second), skill, request)
	if f := asFailure(t, err); f.Kind != tool.JSONRPCError || !strings.Contains(f.Message, "out of paper") {
		t.Errorf("got %v", f)
	}
	callTool(t, s, skill, "other", `{}`) // without a requested task, the member task is part of the result
	if got := string(upstream.lastRequest("tools/call").Params); got != `{"name":"other","arguments":{}}` {
		t.Errorf("called with %s", got)
	}
}
