package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

type ask = func(context.Context, tool.Question) (json.RawMessage, error)

// everything has all capabilities that a caller can declare.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// acceptQuestions returns a caller that accepts all questions.
func acceptQuestions(ask ask) tool.Caller {
	return tool.Caller{Capabilities: json.RawMessage(everything), Ask: func(ctx context.Context, questions []tool.Question) ([]json.RawMessage, error) {
		answers := make([]json.RawMessage, len(questions))
		for i, q := range questions {
			var err error
			if answers[i], err = ask(ctx, q); err != nil {
				return nil, err
			}
		}
		return answers, nil
	}}
}

// giveAnswer returns a caller that always gives the same answer.
func giveAnswer(text string) tool.Caller {
	return acceptQuestions(func(context.Context, tool.Question) (json.RawMessage, error) { return json.RawMessage(text), nil })
}

const accepted = `{"action":"accept","content":{}}`

// refuseQuestions returns a caller that fails the test if it is asked.
func refuseQuestions(t testing.TB) tool.Caller {
	t.Helper()
	return acceptQuestions(func(_ context.Context, question tool.Question) (json.RawMessage, error) {
		t.Errorf("asked %s", question.Params)
		return nil, errors.New("nobody is here")
	})
}

// askingServer is an SDK server with a tool that asks a question and returns the answer.
func askingServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "asking", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if answer, ok := r.Params.InputResponses["who"].(*mcp.ElicitResult); ok {
				text, err := json.Marshal(answer)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text) + r.Params.RequestState}}}, err
			}
			return &mcp.CallToolResult{
				InputRequests: mcp.InputRequestMap{"who": &mcp.ElicitParams{
					Mode: "form", Message: "Who is there?",
					RequestedSchema: json.RawMessage(`{"type":"object","properties":{"age":{"type":"integer","default":30},"name":{"type":"string"}}}`),
				}},
				RequestState: "s",
			}, nil
		})
	return server
}

// TestServerIsAnswered covers every era, and stdio.
func TestServerIsAnswered(t *testing.T) {
	t.Parallel()
	for name, skill := range everyWay(askingServer, "asking") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := skill(t)
			s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
			caller := acceptQuestions(func(_ context.Context, question tool.Question) (json.RawMessage, error) {
				if question.Method != "elicitation/create" || !strings.Contains(string(question.Params), `"message":"Who is there?"`) {
					t.Errorf("asked %s %s", question.Method, question.Params)
				}
				return json.RawMessage(`{"action":"accept","content":{"age":30,"name":"Ann"}}`), nil
			})
			want := `{"action":"accept","content":{"age":30,"name":"Ann"}}s`
			if got := textOf(t, callFor(t, s, server, "ask", `{}`, caller)); got != want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// formatEvent is a message on a stream.
func formatEvent(text string) string { return "data: " + text + "\n\n" }

// formatQuestion returns a question of a server before 2026-07-28.
func formatQuestion(id, schema string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":"?","requestedSchema":` + schema + `}}`
}

// newAsker is a server of 2025-11-25 that sends messages on a call's stream, waits for as many answers, and returns them.
func newAsker(messages ...string) (*script, chan message) {
	answers := make(chan message, 16)
	return &script{session: "s1", at: map[string]act{
		"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
			write := startEvents(w)
			for _, text := range messages {
				write(formatEvent(text))
				select {
				case <-answers:
				case <-r.Context().Done():
					return
				}
			}
			write(formatEvent(answerText(m, `{"content":[]}`)))
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusAccepted)
			answers <- m
		},
	}}, answers
}

func TestServerAsksOnTheCallsStream(t *testing.T) {
	t.Parallel()
	fails := func(err error) tool.Caller {
		return acceptQuestions(func(context.Context, tool.Question) (json.RawMessage, error) { return nil, err })
	}
	declares := func(capabilities string) tool.Caller {
		caller := refuseQuestions(t)
		caller.Capabilities = json.RawMessage(capabilities)
		return caller
	}
	const noAnswer = `{"jsonrpc":"2.0","id":"q/1","error":{"code":-32603,"message":"there was no answer to be had"}}`
	refused := func(code int, message string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"error":{"code":%d,"message":%q}}`, code, message)
	}
	asked := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
	}
	const notDeclared = "the client of this call cannot be asked: it did not declare "
	question := formatQuestion(`"q/1"`, `{"properties":{"a":{"type":"string","default":"x"}}}`)
	tests := map[string]struct {
		caller  tool.Caller
		message string
		want    string
	}{
		"accepted":  {giveAnswer(`{ "action":"accept","content":{"a":1e400}}`), question, `{"jsonrpc":"2.0","id":"q/1","result":{ "action":"accept","content":{"a":1e400}}}`},
		"a URL":     {giveAnswer(`{"action":"accept"}`), asked("elicitation/create", `{"mode":"url","url":"https://a.example"}`), `{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}`},
		"sampling":  {giveAnswer(`{"role":"assistant"}`), asked("sampling/createMessage", `{"messages":[]}`), `{"jsonrpc":"2.0","id":7,"result":{"role":"assistant"}}`},
		"roots":     {giveAnswer(`{"roots":[]}`), `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`, `{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}`},
		"failed":    {fails(errors.New("the secret reason")), question, noAnswer},
		"no answer": {giveAnswer(``), question, noAnswer},
		"no object": {giveAnswer(`true`), question, noAnswer},
		"not JSON":  {giveAnswer(`{"a":x}`), question, noAnswer},
		"its own error": {
			fails(&tool.Failure{Kind: tool.JSONRPCError, RPC: json.RawMessage(`{"code":-1,"message":"User rejected sampling request"}`)}),
			asked("sampling/createMessage", `{}`), `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"User rejected sampling request"}}`,
		},
		"nobody":           {tool.Caller{Capabilities: json.RawMessage(everything)}, asked("roots/list", `{}`), refused(-32601, notDeclared+"roots")},
		"no elicitation":   {declares(`{"sampling":{},"roots":{}}`), asked("elicitation/create", `{}`), refused(-32601, notDeclared+"elicitation")},
		"no sampling":      {declares(`{"elicitation":{}}`), asked("sampling/createMessage", `{}`), refused(-32601, notDeclared+"sampling")},
		"no URL":           {declares(`{"elicitation":{}}`), asked("elicitation/create", `{"mode":"url"}`), refused(-32602, `the client of this call did not declare elicitation of mode "url"`)},
		"no form":          {declares(`{"elicitation":{"url":{}}}`), asked("elicitation/create", `{}`), refused(-32602, `the client of this call did not declare elicitation of mode "form"`)},
		"unknown mode":     {refuseQuestions(t), asked("elicitation/create", `{"mode":"\u202e"}`), refused(-32602, `the client of this call did not declare elicitation of mode "\\u202e"`)},
		"no params":        {refuseQuestions(t), `{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}`, refused(-32602, "params: read JSON: EOF")},
		"params no object": {refuseQuestions(t), asked("sampling/createMessage", `[]`), refused(-32602, "params: not a JSON object")},
		"too large":        {refuseQuestions(t), formatQuestion("7", `{"x":"`+strings.Repeat("x", 70<<10)+`"}`), refused(-32602, "the question is larger than 65536 bytes")},
		"not offered":      {refuseQuestions(t), asked("tasks/list", `{}`), refused(-32601, "not offered by this client: tasks/list")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream, _ := newAsker(test.message)
			s := newSource(t, mcptool.Config{})
			callFor(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`, test.caller)
			if got := string(upstream.lastRequest("answer").body); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
			if got := upstream.lastRequest("answer").header.Get("Mcp-Session-Id"); got != "s1" {
				t.Errorf("in session %q", got)
			}
			if got := string(upstream.lastRequest("initialize").Params); !strings.Contains(got, `"elicitation":{"form":{},"url":{}}`) ||
				!strings.Contains(got, `"sampling":{}`) || !strings.Contains(got, `"roots":{}`) {
				t.Errorf("initialize %s", got)
			}
		})
	}
}

// TestServerAsksOnItsOwnStream: the server's stream is open before the first call is sent.
func TestServerAsksOnItsOwnStream(t *testing.T) {
	t.Parallel()
	upstream, answers := newAsker()
	questions := make(chan string, 2)
	questions <- formatQuestion("1", `{}`) // while no call runs
	upstream.at["GET"] = func(w http.ResponseWriter, r *http.Request, _ message) {
		write := startEvents(w)
		for {
			select {
			case question := <-questions:
				write(formatEvent(question))
			case <-r.Context().Done():
				return
			}
		}
	}
	upstream.at["tools/list"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		if got := <-answers; !strings.Contains(string(got.Error), "no call is on its way") {
			t.Errorf("without a call: %s", got.body)
		}
		upstream.standard(w, m)
	}
	upstream.at["tools/call"] = func(w http.ResponseWriter, _ *http.Request, m message) {
		questions <- formatQuestion("2", `{}`)
		if got := <-answers; string(got.Result) != `{"action":"accept","content":{}}` {
			t.Errorf("got %s", got.body)
		}
		upstream.standard(w, m)
	}
	s := newSource(t, mcptool.Config{ListChanged: func(uuid.UUID) {}}) // opens the stream before the first call
	skill := httpSkill(upstream.serve(t).URL)
	if _, err := s.List(t.Context(), skill); err != nil {
		t.Fatal(err)
	}
	callFor(t, s, skill, "echo", `{}`, giveAnswer(accepted))
}

// TestFirstCallWaitsForTheServersStream: the first call waits for the stream, without which earlier questions would be
// lost.
func TestFirstCallWaitsForTheServersStream(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	upstream := &script{session: "s1"}
	upstream.at = map[string]act{
		"GET": func(w http.ResponseWriter, r *http.Request, m message) {
			timer := time.NewTimer(100 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-called:
				t.Error("the call arrived before the stream")
			case <-timer.C:
			}
			startEvents(w)
			waitForClient(w, r, m)
		},
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
			close(called)
			upstream.standard(w, m)
		},
	}
	s := newSource(t, mcptool.Config{})
	callFor(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`, refuseQuestions(t))
}

// TestSilentStreamHoldsNoCallUp: a silent or refused stream does not delay calls.
func TestSilentStreamHoldsNoCallUp(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]act{"silent": waitForClient, "refused": answerStatus(405, "", "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{session: "s1", at: map[string]act{"GET": get}}
			s := newSource(t, mcptool.Config{})
			callFor(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`, refuseQuestions(t))
		})
	}
}
