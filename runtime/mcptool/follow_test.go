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

// task returns a server's answer to tasks/get. more adds members, each with a leading comma.
func task(status, more string) string {
	return `{"resultType":"complete","taskId":"t/ä","status":"` + status + `","pollIntervalMs":1` + more + `}`
}

// tasking returns a server of 2026-07-28 whose tasks go through these states and stay in the last one.
func tasking(states ...string) *script {
	upstream := modern(replies(handle))
	upstream.at["tasks/get"] = replies(states...)
	upstream.at["tasks/update"] = replies(complete)
	upstream.at["tasks/cancel"] = replies(complete)
	return upstream
}

// pollingSource returns a source that polls tasks without delay.
func pollingSource(t testing.TB) *mcptool.Source {
	t.Helper()
	return newSource(t, mcptool.Config{Limits: mcptool.Limits{TaskPoll: time.Millisecond}})
}

func TestTaskIsFollowed(t *testing.T) {
	t.Parallel()
	upstream := tasking(task("working", `,"statusMessage":"soon"`), task("working", ``), task("completed", `,"result":{"content":[{"n":1e400}], "isError":true }`))
	var told atomic.Int64
	s := pollingSource(t)
	skill := httpSkill(upstream.serve(t).URL)
	got := callFor(t, s, skill, "echo", `{}`, tool.Caller{
		Task: func() { told.Add(1) }, Progress: func(json.RawMessage) {}, Cancel: make(chan struct{}),
	})
	if string(got.Raw) != `{"content":[{"n":1e400}], "isError":true }` || !got.IsError {
		t.Errorf("got %s", got.Raw)
	}
	sent := upstream.last("tasks/get")
	text, meta, _ := strings.Cut(string(sent.Params), `,"_meta":`)
	if text != `{"taskId":"t/ä"` || !strings.Contains(meta, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) || strings.Contains(meta, "progressToken") {
		t.Errorf("sent %s", sent.Params)
	}
	if h := sent.header; h.Get("Mcp-Name") != "=?base64?dC/DpA==?=" || h.Get("Mcp-Method") != "tasks/get" {
		t.Errorf("headers %v", h)
	}
	if n := upstream.count("tools/call"); n != 1 || upstream.count("tasks/get") != 3 || upstream.count("tasks/cancel") != 0 || told.Load() != 1 {
		t.Errorf("%d calls, %d polls, %d cancels, %d status notifications", n, upstream.count("tasks/get"), upstream.count("tasks/cancel"), told.Load())
	}
}

func TestTaskOfAChild(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{TaskPoll: time.Millisecond}})
	got := textOf(t, callFor(t, s, childSkill(t, "tasks"), "echo", `{}`, giving(accepted)))
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
		"failed":           {handle, []string{task("failed", `,"error":{"code":-7,"message":"no paper"}`)}, tool.JSONRPCError, tool.EffectNone, "-7: no paper"},
		"cancelled":        {handle, []string{task("cancelled", `,"statusMessage":"by the\u202e owner"`)}, tool.JSONRPCError, tool.EffectPossible, `cancelled the task: by the\u202e owner`},
		"no result":        {handle, []string{task("completed", ``)}, tool.ProtocolFailure, tool.EffectPossible, `"completed"`},
		"no error":         {handle, []string{task("failed", ``)}, tool.ProtocolFailure, tool.EffectPossible, `"failed"`},
		"result no object": {handle, []string{task("completed", `,"result":7`)}, tool.ProtocolFailure, tool.EffectPossible, "not a JSON object"},
		"a task again":     {handle, []string{task("completed", `,"result":`+handle)}, tool.ProtocolFailure, tool.EffectPossible, `"task"`},
		"large result":     {handle, []string{task("completed", `,"result":{"a":"`+strings.Repeat("x", 3000)+`"}`)}, tool.ProtocolFailure, tool.EffectPossible, "larger than 2000 bytes"},
		"unknown status":   {handle, []string{task("dreaming", ``)}, tool.ProtocolFailure, tool.EffectPossible, `"dreaming"`},
		"no status":        {handle, []string{`{"taskId":"t/ä"}`}, tool.ProtocolFailure, tool.EffectPossible, "no status"},
		"another task":     {handle, []string{task("working", ``), `{"taskId":"u","status":"completed","result":{}}`}, tool.ProtocolFailure, tool.EffectPossible, "another task"},
		"a member twice":   {handle, []string{task("working", `,"status":"completed"`)}, tool.ProtocolFailure, tool.EffectPossible, "twice"},
		"no id":            {`{"resultType":"task","status":"working"}`, nil, tool.ProtocolFailure, tool.EffectPossible, "cannot be followed"},
		"long id":          {`{"resultType":"task","status":"working","taskId":"` + strings.Repeat("x", 1500) + `"}`, nil, tool.ProtocolFailure, tool.EffectPossible, "cannot be followed"},
		"id no string":     {`{"resultType":"task","status":"working","taskId":7}`, nil, tool.ProtocolFailure, tool.EffectPossible, "taskId is not a string"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := tasking(test.states...)
			upstream.at["tools/call"] = replies(test.handle)
			s := newSource(t, mcptool.Config{Limits: mcptool.Limits{TaskPoll: time.Millisecond, ResultBytes: 2000}})
			f := failCall(within(t, 20*time.Second), t, s, httpSkill(upstream.serve(t).URL))
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
	upstream := tasking()
	done := task("completed", `,"result":{"content":[]}`)
	upstream.at["tasks/get"] = func(w http.ResponseWriter, r *http.Request, m message) {
		switch looks.Add(1) {
		case 1:
			hangUp(w, r, m)
		case 2:
			status(502, "text/html", "<html>")(w, r, m)
		default:
			answer(w, m, done)
		}
	}
	s := pollingSource(t)
	call(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)

	upstream = tasking()
	upstream.at["tasks/get"] = rpcError(200, -32602, "no such task")
	f := failCall(within(t, 20*time.Second), t, s, httpSkill(upstream.serve(t).URL))
	if f.Kind != tool.JSONRPCError || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, "no such task") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
}

// TestTaskThatNeverEnds: the call times out, and the server gets a cancellation.
func TestTaskThatNeverEnds(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"working": task("working", ``), "in a hurry": strings.Replace(task("working", ``), "Ms\":1", "Ms\":-1e300", 1),
		"in no hurry": strings.Replace(task("working", ``), "Ms\":1", "Ms\":1e300", 1), "no interval": strings.Replace(task("working", ``), "pollIntervalMs", "x", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := tasking(state)
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
			eventually.Holds(t, "the task is cancelled", func() bool { return upstream.count("tasks/cancel") == 1 })
			if n := upstream.count("tasks/get"); n > 15 {
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
		"cancelled": {task("working", ``), task("cancelled", ``), true},
		"too late":  {task("working", ``), task("completed", `,"result":{"content":[]}`), false},
		"asking":    {task("input_required", `,"inputRequests":{"a":`+question(`{}`)+`}`), task("cancelled", ``), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cancel := make(chan struct{})
			asked := make(chan struct{})
			upstream := tasking()
			upstream.at["tasks/get"] = func(w http.ResponseWriter, _ *http.Request, m message) {
				state := test.working
				if upstream.count("tasks/cancel") > 0 {
					state = test.end
				}
				answer(w, m, state)
			}
			s := pollingSource(t)
			caller := asks(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
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
			_, err := s.Call(within(t, 20*time.Second), httpSkill(upstream.serve(t).URL), tool.CallRequest{Tool: "echo", Caller: caller})
			switch {
			case !test.cancelled && err != nil:
				t.Error(err)
			case test.cancelled && !asFailure(t, err).Cancelled:
				t.Errorf("got %v", err)
			}
			if n := upstream.count("tasks/cancel"); n != 1 || upstream.count("tasks/update") != 0 {
				t.Errorf("%d cancels, %d updates", n, upstream.count("tasks/update"))
			}
		})
	}
}

// TestTaskAsks: each question is asked once, even if the server lists it again. Several may be open.
func TestTaskAsks(t *testing.T) {
	t.Parallel()
	const sampling = `{"method":"sampling/createMessage","params":{"n":1e400}}`
	first := task("input_required", `,"inputRequests":{"a":`+question(`{}`)+`,"b":`+sampling+`}`)
	second := task("input_required", `,"inputRequests":{"c":{"method":"roots/list"}}`)
	upstream := tasking()
	var given atomic.Int64
	upstream.at["tasks/update"] = func(w http.ResponseWriter, r *http.Request, m message) {
		if given.Add(1) == 2 {
			hangUp(w, r, m) // and the server repeats the question
			return
		}
		answer(w, m, complete)
	}
	responses := func() map[string]string {
		found := map[string]string{}
		for _, m := range upstream.all("tasks/update") {
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
			answer(w, m, first)
		case got["c"] == "":
			answer(w, m, second)
		default:
			answer(w, m, task("completed", `,"result":{"content":[]}`))
		}
	}
	var asked atomic.Int64
	both := make(chan struct{})
	s := pollingSource(t)
	callFor(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`, asks(func(_ context.Context, q tool.Question) (json.RawMessage, error) {
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
	wants := func(requests string) string { return task("input_required", `,"inputRequests":`+requests) }
	fails := asks(func(context.Context, tool.Question) (json.RawMessage, error) {
		return nil, errors.New("the secret reason")
	})
	for name, test := range map[string]struct {
		state  string
		caller tool.Caller
		says   string
	}{
		"not declared": {wants(`{"a":` + question(`{}`) + `}`), tool.Caller{}, "did not declare elicitation"},
		"not offered":  {wants(`{"a":{"method":"tasks/list"}}`), never(t), "not offered"},
		"no object":    {wants(`[]`), never(t), "not a JSON object"},
		"no requests":  {task("input_required", ``), never(t), "EOF"},
		"large":        {wants(`{"a":` + question(`{"x":"`+strings.Repeat("x", 70<<10)+`"}`) + `}`), never(t), "larger than 65536"},
		"no answer":    {wants(`{"a":` + question(`{}`) + `}`), fails, "there was no answer to be had"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := tasking(test.state)
			f := failCallFor(within(t, 20*time.Second), t, pollingSource(t), httpSkill(upstream.serve(t).URL), test.caller)
			if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			eventually.Holds(t, "the task is cancelled", func() bool { return upstream.count("tasks/cancel") == 1 })
		})
	}
}

// TestTaskThatAsksForEver: the number of new questions of a task is limited.
func TestTaskThatAsksForEver(t *testing.T) {
	t.Parallel()
	upstream := tasking()
	var looks atomic.Int64
	upstream.at["tasks/get"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		answer(w, m, task("input_required", fmt.Sprintf(`,"inputRequests":{"q%d":%s}`, looks.Add(1), question(`{}`))))
	}
	f := failCallFor(within(t, 30*time.Second), t, pollingSource(t), httpSkill(upstream.serve(t).URL), giving(accepted))
	if f.Kind != tool.ProtocolFailure || !strings.Contains(f.Message, "more than 100 questions") {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
}

// TestQuestionOfATaskIsTakenBack: the question ends when the task continues without the answer.
func TestQuestionOfATaskIsTakenBack(t *testing.T) {
	t.Parallel()
	upstream := tasking()
	asked, ended := make(chan struct{}), make(chan struct{})
	upstream.at["tasks/get"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		select {
		case <-ended:
			answer(w, m, task("completed", `,"result":{"content":[]}`))
			return
		default:
		}
		select {
		case <-asked:
			answer(w, m, task("working", ``))
		default:
			answer(w, m, task("input_required", `,"inputRequests":{"a":`+question(`{}`)+`}`))
		}
	}
	callFor(t, pollingSource(t), httpSkill(upstream.serve(t).URL), "echo", `{}`, asks(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return json.RawMessage(accepted), nil
	}))
	if n := upstream.count("tasks/update"); n != 0 {
		t.Errorf("%d updates", n)
	}
}

// TestTaskOfClosedSource: closing the source does not wait for tasks.
func TestTaskOfClosedSource(t *testing.T) {
	t.Parallel()
	upstream := tasking(task("working", ``))
	s := newSource(t, mcptool.Config{})
	failed := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), httpSkill(upstream.serve(t).URL), tool.CallRequest{Tool: "echo"})
		failed <- err
	}()
	eventually.Holds(t, "the task is looked at", func() bool { return upstream.count("tasks/get") > 0 })
	if err := s.Close(within(t, 10*time.Second)); err != nil {
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
	upstream, answered := asker()
	upstream.at["tools/call"] = replies(created)
	upstream.at["tasks/get"] = replies(`{"taskId":"t","status":"working","pollInterval":1}`, `{"taskId":"t","status":"input_required"}`)
	var results atomic.Int64
	upstream.at["tasks/result"] = func(w http.ResponseWriter, r *http.Request, m message) {
		if results.Add(1) == 2 {
			rpcError(200, -32603, "out of paper")(w, r, m)
			return
		}
		write := events(w)
		write(event(form("1", `{}`)))
		got := <-answered
		write(event(answerText(m, `{"content":[`+string(got.Result)+`],"_meta":{"a":1}}`)))
	}
	s := pollingSource(t)
	skill := httpSkill(upstream.serve(t).URL)
	request := tool.CallRequest{Tool: "echo", Arguments: json.RawMessage(`{"a":1}`), Definition: &definition, Caller: giving(accepted)}
	result, err := s.Call(within(t, 20*time.Second), skill, request)
	if err != nil || string(result.Raw) != `{"content":[`+accepted+`],"_meta":{"a":1}}` {
		t.Errorf("got %s, %v", result.Raw, err)
	}
	if got := string(upstream.last("tools/call").Params); got != `{"name":"echo","arguments":{"a":1},"task":{}}` {
		t.Errorf("called with %s", got)
	}
	_, err = s.Call(within(t, 20*time.Second), skill, request)
	if f := asFailure(t, err); f.Kind != tool.JSONRPCError || !strings.Contains(f.Message, "out of paper") {
		t.Errorf("got %v", f)
	}
	call(t, s, skill, "other", `{}`) // without a requested task, the member task is part of the result
	if got := string(upstream.last("tools/call").Params); got != `{"name":"other","arguments":{}}` {
		t.Errorf("called with %s", got)
	}
}
