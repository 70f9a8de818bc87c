package httptool_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// received is a request as the server received it.
type received struct {
	method, uri, host string
	header            http.Header
	body              string
}

// api is a server that records requests.
type api struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

// newAPI starts a server that answers with answer; nil: 200 with {"ok":true}.
func newAPI(t testing.TB, answer http.HandlerFunc) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.got = append(a.got, received{r.Method, r.RequestURI, r.Host, r.Header.Clone(), string(body)})
		a.mu.Unlock()
		if answer == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"ok":true}`)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) requests() []received {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]received(nil), a.got...)
}

// onlyRequest returns the only request that the server got.
func (a *api) onlyRequest(t testing.TB) received {
	t.Helper()
	all := a.requests()
	if len(all) != 1 {
		t.Fatalf("the server got %d requests, want one: %+v", len(all), all)
	}
	return all[0]
}

func newSource(t testing.TB, config httptool.Config) *httptool.Source {
	t.Helper()
	s := httptool.New(config)
	t.Cleanup(s.Close)
	return s
}

// skillAt returns a skill of transport http-api with a base URL.
func skillAt(base string) tool.Server {
	return tool.Server{SkillID: uuid.New(), Skill: "shop", Revision: 1, Transport: tool.HTTPAPI, URL: base, API: &tool.API{}}
}

// defineTool returns the definition of a tool with a binding and further members.
func defineTool(t testing.TB, b openapi.Binding, members map[string]any) *tool.Definition {
	t.Helper()
	all := map[string]any{"name": "do", "inputSchema": map[string]any{"type": "object"}, tool.BindingMember: b}
	maps.Copy(all, members)
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	d, err := tool.ParseDefinition(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

func getBinding(path string, params ...openapi.Param) openapi.Binding {
	return openapi.Binding{Method: http.MethodGet, Path: path, Params: params}
}

func newParam(name, in string) openapi.Param {
	p := openapi.Param{Arg: name, Name: name, In: in, Style: openapi.StyleSimple}
	if in == openapi.InQuery || in == openapi.InCookie {
		p.Style, p.Explode = openapi.StyleForm, true
	}
	return p
}

func postBinding(path string, body openapi.Body, params ...openapi.Param) openapi.Binding {
	return openapi.Binding{Method: http.MethodPost, Path: path, Params: params, Body: &body}
}

func newRequest(d *tool.Definition, arguments string) tool.CallRequest {
	return tool.CallRequest{CallID: uuid.New(), Tool: "do", Arguments: json.RawMessage(arguments), Definition: d, Timeout: 20 * time.Second}
}

// result is a result as clients read it.
type result struct {
	tool.Result
	Content []struct {
		Type, Text, Data, MimeType string
		Resource                   struct{ URI, MimeType, Blob string }
	}
	StructuredContent json.RawMessage
}

func readResult(t testing.TB, r tool.Result) result {
	t.Helper()
	out := result{Result: r}
	if err := json.Unmarshal(r.Raw, &out); err != nil {
		t.Fatalf("result %s: %v", r.Raw, err)
	}
	return out
}

// text returns all text of a result, one element per line.
func (r result) text() string {
	var all []string
	for _, c := range r.Content {
		if c.Type == "text" {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "\n")
}

// callTool makes a call and expects an answer.
func callTool(t testing.TB, s *httptool.Source, server tool.Server, b openapi.Binding, arguments string) result {
	t.Helper()
	r, err := s.Call(t.Context(), server, newRequest(defineTool(t, b, nil), arguments))
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	return readResult(t, r)
}

// refuse makes a call whose arguments are refused, and returns the reason.
func refuseArguments(t testing.TB, b openapi.Binding, arguments string) string {
	t.Helper()
	a := newAPI(t, nil)
	r := callTool(t, newSource(t, httptool.Config{}), skillAt(a.URL), b, arguments)
	if !r.IsError || r.Effect == tool.EffectPossible || len(a.requests()) != 0 || !strings.HasPrefix(r.text(), "Nothing was sent: argument ") {
		t.Errorf("%s: error %t, effect %q, sent %d, %q; want that it is not sent", arguments, r.IsError, r.Effect, len(a.requests()), r.text())
	}
	return r.text()
}

// send makes a call and returns the received request.
func sendCall(t testing.TB, b openapi.Binding, arguments string) received {
	t.Helper()
	a := newAPI(t, nil)
	if r := callTool(t, newSource(t, httptool.Config{}), skillAt(a.URL+"/v1"), b, arguments); r.IsError {
		t.Fatalf("%s: %s", arguments, r.text())
	}
	return a.onlyRequest(t)
}

// fail makes a call and expects a failure.
func failCall(t testing.TB, s *httptool.Source, server tool.Server, r tool.CallRequest) *tool.Failure {
	t.Helper()
	got, err := s.Call(t.Context(), server, r)
	failure, ok := errors.AsType[*tool.Failure](err)
	if !ok {
		t.Fatalf("result %s, error %v; want a failure", got.Raw, err)
	}
	return failure
}

func readCloser(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }
