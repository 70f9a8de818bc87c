package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

type elicit = func(context.Context, uuid.UUID, mcptool.Elicitation) (mcptool.ElicitationAnswer, error)

// accept accepts every form, with these fields.
func accept(content map[string]json.RawMessage) elicit {
	return func(context.Context, uuid.UUID, mcptool.Elicitation) (mcptool.ElicitationAnswer, error) {
		return mcptool.ElicitationAnswer{Action: mcptool.ElicitationAccept, Content: content}, nil
	}
}

// never fails the test when a question gets through.
func never(t testing.TB) elicit {
	t.Helper()
	return func(_ context.Context, _ uuid.UUID, question mcptool.Elicitation) (mcptool.ElicitationAnswer, error) {
		t.Errorf("asked %q", question.Message)
		return mcptool.ElicitationAnswer{}, errors.New("nobody is here")
	}
}

// askingServer is an SDK server with a tool that asks who is there and returns
// the answer.
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

// TestServerIsAnswered: in every era, and over stdio.
func TestServerIsAnswered(t *testing.T) {
	t.Parallel()
	skills := map[string]func(testing.TB) tool.Server{
		"stdio": func(t testing.TB) tool.Server { t.Helper(); return childSkill(t, "asking") },
	}
	for name, options := range eras() {
		skills[name] = func(t testing.TB) tool.Server {
			t.Helper()
			return httpSkill(serve(t, askingServer(), options).URL)
		}
	}
	for name, skill := range skills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := skill(t)
			s := newSource(t, mcptool.Config{
				DataDir: t.TempDir(),
				Elicit: func(_ context.Context, skillID uuid.UUID, question mcptool.Elicitation) (mcptool.ElicitationAnswer, error) {
					if skillID != server.SkillID || question.Message != "Who is there?" || !strings.Contains(string(question.Schema), `"name"`) {
						t.Errorf("skill %s was asked %+v", skillID, question)
					}
					return mcptool.ElicitationAnswer{
						Action: mcptool.ElicitationAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(`"Ann"`)},
					}, nil
				},
			})
			want := `{"action":"accept","content":{"age":30,"name":"Ann"}}s`
			if got := textOf(t, call(t, s, server, "ask", `{}`)); got != want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// event is a message on a stream.
func event(text string) string { return "data: " + text + "\n\n" }

// form is a question of a server before 2026-07-28.
func form(id, schema string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":"?","requestedSchema":` + schema + `}}`
}

// asker is a server of 2025-11-25 that sends messages on a call's stream, waits
// for as many answers, and answers the call with them.
func asker(messages ...string) (*script, chan message) {
	answers := make(chan message, 16)
	return &script{session: "s1", at: map[string]act{
		"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
			write := events(w)
			for _, text := range messages {
				write(event(text))
				select {
				case <-answers:
				case <-r.Context().Done():
					return
				}
			}
			write(event(answerText(m, `{"content":[]}`)))
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusAccepted)
			answers <- m
		},
	}}, answers
}

func TestServerAsksOnTheCallsStream(t *testing.T) {
	t.Parallel()
	failing := func(context.Context, uuid.UUID, mcptool.Elicitation) (mcptool.ElicitationAnswer, error) {
		return mcptool.ElicitationAnswer{}, errors.New("the secret reason")
	}
	answers := func(answer mcptool.ElicitationAnswer) elicit {
		return func(context.Context, uuid.UUID, mcptool.Elicitation) (mcptool.ElicitationAnswer, error) {
			return answer, nil
		}
	}
	question := form(`"q/1"`, `{"properties":{"a":{"type":"string","default":"x"}}}`)
	tests := map[string]struct {
		elicit  elicit
		message string
		want    string
	}{
		"accepted":       {accept(nil), question, `{"jsonrpc":"2.0","id":"q/1","result":{"action":"accept","content":{"a":"x"}}}`},
		"declined":       {answers(mcptool.ElicitationAnswer{Action: mcptool.ElicitationDecline}), question, `{"jsonrpc":"2.0","id":"q/1","result":{"action":"decline"}}`},
		"cancelled":      {answers(mcptool.ElicitationAnswer{Action: mcptool.ElicitationCancel}), question, `{"jsonrpc":"2.0","id":"q/1","result":{"action":"cancel"}}`},
		"failed":         {failing, question, `{"jsonrpc":"2.0","id":"q/1","error":{"code":-32603,"message":"there was no answer to be had"}}`},
		"no action":      {answers(mcptool.ElicitationAnswer{}), question, `{"jsonrpc":"2.0","id":"q/1","error":{"code":-32603,"message":"there was no answer to be had"}}`},
		"field not JSON": {accept(map[string]json.RawMessage{"a": json.RawMessage(`x"`)}), question, `{"jsonrpc":"2.0","id":"q/1","error":{"code":-32603,"message":"there was no answer to be had"}}`},
		"a URL": {
			never(t), strings.Replace(question, `"message"`, `"mode":"url","message"`, 1),
			`{"jsonrpc":"2.0","id":"q/1","error":{"code":-32602,"message":"only forms are offered, not mode \"url\""}}`,
		},
		"no params": {
			never(t), `{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}`,
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"read JSON: EOF"}}`,
		},
		"too large": {
			never(t), form("7", `{"x":"`+strings.Repeat("x", 70<<10)+`"}`),
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the question is larger than 65536 bytes"}}`,
		},
		"not offered": {
			never(t), `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`,
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"not offered by this client: sampling/createMessage"}}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream, _ := asker(test.message)
			s := newSource(t, mcptool.Config{Elicit: test.elicit})
			call(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
			if got := string(upstream.last("answer").body); got != test.want {
				t.Errorf("got %s", got)
			}
			if got := upstream.last("answer").header.Get("Mcp-Session-Id"); got != "s1" {
				t.Errorf("in session %q", got)
			}
			if got := string(upstream.last("initialize").Params); !strings.Contains(got, `"capabilities":{"elicitation":{"form":{}}}`) {
				t.Errorf("initialize %s", got)
			}
		})
	}
}

// TestServerAsksOnItsOwnStream: the stream is open before the first call is sent.
func TestServerAsksOnItsOwnStream(t *testing.T) {
	t.Parallel()
	upstream, answers := asker()
	questions := make(chan string, 2)
	questions <- form("1", `{}`) // while no call is on its way
	upstream.at["GET"] = func(w http.ResponseWriter, r *http.Request, _ message) {
		write := events(w)
		for {
			select {
			case question := <-questions:
				write(event(question))
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
		questions <- form("2", `{}`)
		if got := <-answers; string(got.Result) != `{"action":"accept","content":{}}` {
			t.Errorf("got %s", got.body)
		}
		upstream.standard(w, m)
	}
	s := newSource(t, mcptool.Config{Elicit: accept(nil)})
	skill := httpSkill(upstream.serve(t).URL)
	if _, err := s.List(t.Context(), skill); err != nil {
		t.Fatal(err)
	}
	call(t, s, skill, "echo", `{}`)
}

// TestFirstCallWaitsForTheServersStream: what the server asks before it is open is lost.
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
				t.Error("the call came before the stream")
			case <-timer.C:
			}
			events(w)
			hang(w, r, m)
		},
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
			close(called)
			upstream.standard(w, m)
		},
	}
	s := newSource(t, mcptool.Config{Elicit: never(t)})
	call(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
}

// TestSilentStreamHoldsNoCallUp: nor does one that is refused.
func TestSilentStreamHoldsNoCallUp(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]act{"silent": hang, "refused": status(405, "", "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{session: "s1", at: map[string]act{"GET": get}}
			s := newSource(t, mcptool.Config{Elicit: never(t)})
			call(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
		})
	}
}
