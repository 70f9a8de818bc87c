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

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// newModernServer returns a server of 2026-07-28.
func newModernServer(call act) *script {
	return &script{at: map[string]act{"tools/call": call, "server/discover": answerDiscover}}
}

func answerDiscover(w http.ResponseWriter, _ *http.Request, m message) {
	writeAnswer(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
}

// formatInputRequest returns an entry of inputRequests.
func formatInputRequest(schema string) string {
	return `{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":` + schema + `}}`
}

// inputRequired returns a result that asks for input. state is JSON; "" for none.
func inputRequired(requests, state string) string {
	if state != "" {
		state = `,"requestState":` + state
	}
	return `{"resultType":"input_required","inputRequests":{` + requests + `}` + state + `}`
}

// answerInTurn answers calls with these results in turn, and repeats the last one.
func answerInTurn(results ...string) act {
	var calls atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request, m message) {
		writeAnswer(w, m, results[min(int(calls.Add(1)), len(results))-1])
	}
}

func (s *script) listRequests(method string) []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []message
	for _, m := range s.seen {
		if m.Method == method {
			found = append(found, m)
		}
	}
	return found
}

const complete = `{"resultType":"complete","content":[]}`

// paramsOf returns the params of a call without _meta.
func paramsOf(t testing.TB, m message) string {
	t.Helper()
	text, _, found := strings.Cut(string(m.Params), `,"_meta":`)
	if !found || !strings.Contains(string(m.Params), `"io.modelcontextprotocol/clientCapabilities":{`+everything[1:len(everything)-1]+`,"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
		t.Errorf("params %s", m.Params)
	}
	return text
}

// TestCallGoesOnAsTheServerAsked: the next request of a call has the same arguments, the answers, the unchanged state
// if there is one, and a new id.
func TestCallGoesOnAsTheServerAsked(t *testing.T) {
	t.Parallel()
	upstream := newModernServer(answerInTurn(
		inputRequired(`"b\n":`+formatInputRequest(`{"n":1e400}`)+`,"a":`+formatInputRequest(`{}`), `"q\/\u00e9 \ud83d"`),
		inputRequired(`"c":`+formatInputRequest(`{}`), ""),
		`{"resultType":"input_required","requestState":""}`,
		`{"resultType":"input_required","inputRequests":null,"requestState":"x"}`,
		`{"content":[1]}`,
	))
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	caller := acceptQuestions(func(_ context.Context, q tool.Question) (json.RawMessage, error) {
		return json.RawMessage(`{ "of":` + string(q.Params) + `,"n":1.50}`), nil
	})
	if got := callFor(t, s, skill, "echo", `{"z":1e400,"a":"<"}`, caller); string(got.Raw) != `{"content":[1]}` {
		t.Errorf("got %s", got.Raw)
	}
	callFor(t, s, skill, "echo", `{}`, caller)
	answered := func(schema string) string {
		return `{ "of":{"mode":"form","message":"?","requestedSchema":` + schema + `},"n":1.50}`
	}
	same := `{"name":"echo","arguments":{"z":1e400,"a":"<"}`
	want := []string{
		same,
		same + `,"inputResponses":{"b\n":` + answered(`{"n":1e400}`) + `,"a":` + answered(`{}`) + `},"requestState":"q\/\u00e9 \ud83d"`,
		same + `,"inputResponses":{"c":` + answered(`{}`) + `}`,
		same + `,"requestState":""`,
		same + `,"requestState":"x"`,
		`{"name":"echo","arguments":{}`,
	}
	ids := map[string]bool{}
	got := upstream.listRequests("tools/call")
	if len(got) != len(want) {
		t.Fatalf("%d calls arrived", len(got))
	}
	for i, m := range got {
		ids[string(m.ID)] = true
		if params := paramsOf(t, m); params != want[i] {
			t.Errorf("call %d: %s", i, params)
		}
	}
	if len(ids) != len(want) {
		t.Errorf("ids %v", ids)
	}
}

func TestParallelCallsKeepTheirStatesApart(t *testing.T) {
	t.Parallel()
	upstream := newModernServer(func(w http.ResponseWriter, _ *http.Request, m message) {
		var params struct {
			Arguments    json.RawMessage
			RequestState json.RawMessage
		}
		if err := json.Unmarshal(m.Params, &params); err != nil {
			t.Error(err)
		}
		switch state := `"` + strings.Trim(string(params.Arguments), "{}\":1") + `"`; {
		case params.RequestState == nil:
			writeAnswer(w, m, inputRequired(`"q":`+formatInputRequest(`{}`), state))
		case string(params.RequestState) != state:
			t.Errorf("state %s of the call with %s", params.RequestState, params.Arguments)
			fallthrough
		default:
			writeAnswer(w, m, complete)
		}
	})
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	errs := make(chan error, 26)
	for letter := 'a'; letter <= 'z'; letter++ {
		go func() {
			_, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo", Arguments: json.RawMessage(fmt.Sprintf(`{"%c":1}`, letter)), Caller: giveAnswer(accepted)})
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestInputThatCannotBeGiven: the caller gets no question, and the failure has a possible effect.
func TestInputThatCannotBeGiven(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 300<<10)
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprintf(`"q%d":%s`, i, formatInputRequest(`{}`))
	}
	tests := map[string]struct{ result, says string }{
		"nothing asked":   {`{"resultType":"input_required"}`, "neither"},
		"no object":       {`{"resultType":"input_required","inputRequests":[]}`, "not a JSON object"},
		"not offered":     {inputRequired(`"a":`+formatInputRequest(`{}`)+`,"b":{"method":"tasks/list","params":{}}`, ""), "not offered by this client: tasks/list"},
		"no method":       {inputRequired(`"a":{"params":{}}`, ""), "not offered"},
		"method no name":  {inputRequired(`"a":{"method":1}`, ""), "method is not a name"},
		"unknown mode":    {inputRequired(`"a":{"method":"elicitation/create","params":{"mode":"video"}}`, ""), `mode "video"`},
		"no params":       {inputRequired(`"a":{"method":"elicitation/create"}`, ""), "params"},
		"a key twice":     {inputRequired(`"a":`+formatInputRequest(`{}`)+`,"a":`+formatInputRequest(`{}`), ""), "twice"},
		"many questions":  {inputRequired(strings.Join(many, ","), ""), "more than 16"},
		"large question":  {inputRequired(`"a":`+formatInputRequest(`{"x":"`+big+`"}`), ""), "larger than 65536"},
		"large state":     {inputRequired("", `"`+big+`"`), "larger than 262144"},
		"state no string": {inputRequired("", `{}`), "requestState is not a string"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newModernServer(answerInTurn(test.result))
			s := newSource(t, mcptool.Config{})
			f := failCallFor(t.Context(), t, s, httpSkill(upstream.serve(t).URL), refuseQuestions(t))
			if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if n := upstream.countRequests("tools/call"); n != 1 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

// TestInputIsNotOffered: no capabilities are declared for a caller without answers, or to servers of an earlier
// revision.
func TestInputIsNotOffered(t *testing.T) {
	t.Parallel()
	wants := answerInTurn(inputRequired(`"q":`+formatInputRequest(`{}`), ""))
	sampling := refuseQuestions(t)
	sampling.Capabilities = json.RawMessage(`{"sampling":{}}`)
	for name, test := range map[string]struct {
		upstream *script
		caller   tool.Caller
		says     string
	}{
		"nobody answers": {newModernServer(wants), tool.Caller{}, "did not declare elicitation"},
		"not declared":   {newModernServer(wants), sampling, "did not declare elicitation"},
		"2025-11-25":     {&script{at: map[string]act{"tools/call": wants}}, refuseQuestions(t), "not offered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, mcptool.Config{})
			f := failCallFor(t.Context(), t, s, httpSkill(test.upstream.serve(t).URL), test.caller)
			if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if n := test.upstream.countRequests("tools/call"); n != 1 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

func TestRoundsAreBounded(t *testing.T) {
	t.Parallel()
	upstream := newModernServer(answerInTurn(inputRequired("", `"again"`)))
	s := newSource(t, mcptool.Config{})
	f := failCallFor(t.Context(), t, s, httpSkill(upstream.serve(t).URL), refuseQuestions(t))
	if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, "more than 10 times") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
	if n := upstream.countRequests("tools/call"); n != 11 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestFailureOfALaterRoundMayHaveHadAnEffect covers failures that have no effect in a first round.
func TestFailureOfALaterRoundMayHaveHadAnEffect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then act
		kind tool.FailureKind
	}{
		"JSON-RPC error": {rpcError(200, -32602, "no"), tool.JSONRPCError},
		"400":            {answerStatus(400, "text/plain", "no"), tool.TransportFailure},
		"401":            {answerUnauthorized(401), tool.TransportFailure},
		"404":            {answerStatus(404, "", ""), tool.TransportFailure},
		"500":            {answerStatus(500, "", ""), tool.TransportFailure},
		"closes":         {hangUp, tool.TransportFailure},
		"hangs":          {waitForClient, tool.TransportFailure},
		"a task":         {answerInTurn(`{"resultType":"task"}`), tool.ProtocolFailure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, then := withBehavior(t, name, test.then)
			upstream := newModernServer(func(w http.ResponseWriter, r *http.Request, m message) {
				if strings.Contains(string(m.Params), "inputResponses") {
					then(w, r, m)
					return
				}
				writeAnswer(w, m, inputRequired(`"q":`+formatInputRequest(`{}`), ""))
			})
			s := newSource(t, mcptool.Config{})
			f := failCallFor(ctx, t, s, httpSkill(upstream.serve(t).URL), giveAnswer(accepted))
			if f.Kind != test.kind || f.Effect != tool.EffectPossible {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if n := upstream.countRequests("tools/call"); n != 2 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

func TestQuestionWithoutAnAnswerFailsTheCall(t *testing.T) {
	t.Parallel()
	reason := errors.New("the secret reason")
	upstream := newModernServer(answerInTurn(inputRequired(`"q":`+formatInputRequest(`{}`), ""), complete))
	s := newSource(t, mcptool.Config{})
	f := failCallFor(t.Context(), t, s, httpSkill(upstream.serve(t).URL), acceptQuestions(func(context.Context, tool.Question) (json.RawMessage, error) {
		return nil, reason
	}))
	if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !errors.Is(f, reason) || strings.Contains(f.Message, "secret") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
	if n := upstream.countRequests("tools/call"); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestServerThatCannotGoOnIsNotCalledAgain: while the question is open, a server of an earlier revision replaces the
// first one. To that server the call would be new.
func TestServerThatCannotGoOnIsNotCalledAgain(t *testing.T) {
	t.Parallel()
	upstream := newModernServer(answerInTurn(inputRequired(`"q":`+formatInputRequest(`{}`), `"s"`), complete))
	var old atomic.Bool
	upstream.at["server/discover"] = func(w http.ResponseWriter, r *http.Request, m message) {
		if old.Load() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answerDiscover(w, r, m)
	}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	f := failCallFor(withTimeout(t, 20*time.Second), t, s, skill, acceptQuestions(func(context.Context, tool.Question) (json.RawMessage, error) {
		old.Store(true)
		s.Forget(skill.SkillID)
		return json.RawMessage(accepted), nil
	}))
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, "cannot continue the call") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
	if n := upstream.countRequests("tools/call"); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestRefusedByReviewer: the server learns in the form of its era that a reviewer refused, and a call that cannot
// continue names that reason.
func TestRefusedByReviewer(t *testing.T) {
	t.Parallel()
	refuses := acceptQuestions(func(context.Context, tool.Question) (json.RawMessage, error) {
		return nil, &tool.Failure{
			Kind: tool.JSONRPCError, Message: "a reviewer rejected this request", RPC: json.RawMessage(`{"code":-1,"message":"a reviewer rejected this request"}`),
		}
	})
	sampling := `"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`
	s := newSource(t, mcptool.Config{})
	upstream := newModernServer(answerInTurn(inputRequired(`"a":{`+sampling+`}`, "")))
	f := failCallFor(t.Context(), t, s, httpSkill(upstream.serve(t).URL), refuses)
	if f.Effect != tool.EffectPossible || !strings.HasSuffix(f.Message, "the server asks for input, and a reviewer rejected this request") {
		t.Errorf("effect %s: %s", f.Effect, f.Message)
	}
	legacy, _ := newAsker(`{"jsonrpc":"2.0","id":"1",` + sampling + `}`)
	told := make(chan message, 1)
	usual := legacy.at["answer"]
	legacy.at["answer"] = func(w http.ResponseWriter, r *http.Request, m message) {
		told <- m
		usual(w, r, m)
	}
	_, err := s.Call(t.Context(), httpSkill(legacy.serve(t).URL), tool.CallRequest{Tool: "t", Caller: refuses})
	if err != nil {
		t.Fatal(err)
	}
	if m := <-told; !strings.Contains(string(m.Error), "a reviewer rejected this request") || m.Result != nil {
		t.Errorf("the server got %s %s", m.Result, m.Error)
	}
}
