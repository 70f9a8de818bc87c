package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// libraryServer is an SDK server with a resource, a template and a prompt.
func libraryServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, nil)
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text of " + r.Params.URI}}}, nil
	}
	server.AddResource(&mcp.Resource{URI: "file:///a%20b.txt", Name: "a"}, read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "book://{id}", Name: "book"}, read)
	server.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello"}}}}, nil
	})
	return server
}

// everyWay returns skills that reach a server over each transport in each era.
func everyWay(server func() *mcp.Server, child string) map[string]func(testing.TB) tool.Server {
	ways := map[string]func(testing.TB) tool.Server{
		"stdio": func(t testing.TB) tool.Server { t.Helper(); return childSkill(t, child) },
	}
	for name, options := range listEras() {
		ways[name] = func(t testing.TB) tool.Server {
			t.Helper()
			return httpSkill(serve(t, server(), options).URL)
		}
	}
	return ways
}

func TestRequest(t *testing.T) {
	t.Parallel()
	for name, skill := range everyWay(libraryServer, "library") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := skill(t)
			s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
			for _, test := range []struct{ method, name, params, want string }{
				{"resources/list", "", ``, `"uri":"file:///a%20b.txt"`},
				{"resources/templates/list", "", ` { } `, `"uriTemplate":"book://{id}"`},
				{"resources/read", "file:///a%20b.txt", `{"uri":"file:///a%20b.txt"}`, `text of file:///a%20b.txt`},
				{"resources/read", "book://7", ` {"uri":"book://7"}`, `text of book://7`},
				{"prompts/list", "", `{}`, `"name":"greet"`},
				{"prompts/get", "greet", `{"name":"greet"}`, `"text":"hello"`},
			} {
				raw, err := s.Request(t.Context(), server, tool.Request{
					Method: test.method, Name: test.name, Params: json.RawMessage(test.params), Timeout: time.Minute,
				})
				if err != nil || !strings.Contains(string(raw), test.want) {
					t.Errorf("%s %s: %s, %v", test.method, test.name, raw, err)
				}
			}
			_, err := s.Request(t.Context(), server, tool.Request{Method: "resources/read", Name: "x:y", Params: json.RawMessage(`{"uri":"x:y"}`)})
			if f := asFailure(t, err); f.Kind != tool.JSONRPCError || f.Effect != tool.EffectNone || !strings.Contains(string(f.RPC), `"code":-32`) {
				t.Errorf("unknown resource: %+v", f)
			}
			offers, err := s.Capabilities(t.Context(), server)
			if err != nil || !offers.Resources || !offers.Prompts || offers.Completions || offers.Tasks {
				t.Errorf("capabilities %+v, %v", offers, err)
			}
			_, err = s.Request(t.Context(), server, tool.Request{Method: "completion/complete"})
			if f := asFailure(t, err); f.Kind != tool.JSONRPCError || !strings.Contains(string(f.RPC), `{"code":-32601,`) || !json.Valid(f.RPC) {
				t.Errorf("undeclared capability: %+v", f)
			}
		})
	}
}

// TestRequestAsItIsWritten checks the bytes of the request and the result.
func TestRequestAsItIsWritten(t *testing.T) {
	t.Parallel()
	const result = `{ "contents":[{"n":1e400}],"ttlMs":5, "resultType":"complete" }`
	read := func(w http.ResponseWriter, _ *http.Request, m message) { writeAnswer(w, m, result) }
	upstream := &script{at: map[string]act{
		"server/discover": func(w http.ResponseWriter, _ *http.Request, m message) {
			writeAnswer(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
		},
		"resources/read": read,
	}}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	raw, err := s.Request(t.Context(), skill, tool.Request{Method: "resources/read", Name: "a:é", Params: json.RawMessage(` {"uri":"a:\u00e9","n":1.50 } `)})
	if err != nil || string(raw) != result {
		t.Errorf("got %s, %v", raw, err)
	}
	sent := upstream.lastRequest("resources/read")
	if text, _, _ := strings.Cut(string(sent.Params), `,"_meta":`); text != `{"uri":"a:\u00e9","n":1.50` {
		t.Errorf("sent %s", sent.Params)
	}
	if h := sent.header; h.Get("Mcp-Method") != "resources/read" || h.Get("Mcp-Name") != "=?base64?YTrDqQ==?=" {
		t.Errorf("headers %v", h)
	}
	offers, err := s.Capabilities(t.Context(), skill)
	if err != nil || !offers.Stateless() || !offers.ResourcesSubscribe || !offers.Tasks || offers.Tools || offers.Offers("resources/subscribe") {
		t.Errorf("capabilities %+v, %v", offers, err)
	}
	if n := upstream.countRequests("server/discover"); n != 1 {
		t.Errorf("connected %d times", n)
	}
}

func TestRequestThatFails(t *testing.T) {
	t.Parallel()
	params := func(text string) tool.Request {
		return tool.Request{Method: "vendor/own", Params: json.RawMessage(text)}
	}
	tests := map[string]struct {
		request tool.Request
		at      act
		kind    tool.FailureKind
		says    string
		arrives int
	}{
		"a call":           {tool.Request{Method: "tools/call"}, nil, tool.JSONRPCError, "not sent", 0},
		"no method":        {tool.Request{Method: "a\r\nb"}, nil, tool.JSONRPCError, "not a method", 0},
		"params no object": {params(`[]`), nil, tool.JSONRPCError, "not a JSON object", 0},
		"params twice":     {params(`{} {}`), nil, tool.JSONRPCError, "more than one", 0},
		"a member twice":   {params(`{"a":1,"a":2}`), nil, tool.JSONRPCError, "twice", 0},
		"_meta":            {params(`{"_meta":{}}`), nil, tool.JSONRPCError, "_meta", 0},
		"an error":         {params(`{}`), rpcError(200, -32002, "no such thing"), tool.JSONRPCError, "no such thing", 1},
		"a task":           {params(`{}`), answerInTurn(`{"resultType":"task"}`), tool.ProtocolFailure, `"task"`, 1},
		"no object":        {params(`{}`), answerInTurn(`[1]`), tool.ProtocolFailure, "not a JSON object", 1},
		"too large":        {params(`{}`), answerInTurn(`{"a":"` + strings.Repeat("x", 3000) + `"}`), tool.ProtocolFailure, "larger than", 1},
		"HTTP 500":         {params(`{}`), answerStatus(500, "", ""), tool.TransportFailure, "500", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{at: map[string]act{"vendor/own": test.at}}
			s := newSource(t, mcptool.Config{Limits: mcptool.Limits{ResultBytes: 2000}})
			_, err := s.Request(t.Context(), httpSkill(upstream.serve(t).URL), test.request)
			f := asFailure(t, err)
			if f.Kind != test.kind || f.Effect != tool.EffectNone || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if n := upstream.countRequests("vendor/own"); n != test.arrives {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

func TestRequestEndsInTime(t *testing.T) {
	t.Parallel()
	upstream := &script{at: map[string]act{"vendor/own": waitForClient}}
	s := newSource(t, mcptool.Config{})
	_, err := s.Request(t.Context(), httpSkill(upstream.serve(t).URL), tool.Request{Method: "vendor/own", Timeout: 50 * time.Millisecond})
	if f := asFailure(t, err); f.Kind != tool.TransportFailure || !errors.Is(f, context.DeadlineExceeded) {
		t.Errorf("got %+v", f)
	}
}
