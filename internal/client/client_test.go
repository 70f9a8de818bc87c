package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// server is a fake Holdpoint. steps answers an agent's requests in order, and calls answers the API.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	steps []http.HandlerFunc
	calls map[string]string // the API's answers by call id
	list  []string          // the API's list, newest first
	got   []string          // bodies of requests to the endpoint
	path  []string
}

func newServer(t *testing.T, steps ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{steps: steps, calls: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /agents/{agent}/mcp", s.endpoint)
	mux.HandleFunc("GET /api/v1/calls/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		text, ok := s.calls[r.PathValue("id")]
		s.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text)
	})
	mux.HandleFunc("GET /api/v1/calls", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(w, `{"items":[%s],"next_cursor":null}`, strings.Join(s.list, ","))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) endpoint(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.got = append(s.got, string(body))
	s.path = append(s.path, r.URL.EscapedPath())
	if len(s.steps) == 0 {
		s.mu.Unlock()
		http.Error(w, "no more steps", http.StatusTeapot)
		return
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	s.mu.Unlock()
	step(w, r)
}

// setCall sets the API's answer about a call.
func (s *server) setCall(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id] = text
}

func (s *server) wantCalls(calls ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(calls, s.list...)
}

// calledTools returns the names of the called tools, in order.
func (s *server) calledTools(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, body := range s.got {
		var m struct {
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		names = append(names, m.Params.Name)
	}
	return strings.Join(names, " ")
}

func (s *server) client(t *testing.T) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Config{
		URL: s.URL, Token: "secret", HTTP: &http.Client{Transport: transport},
		Retry: time.Millisecond, Patience: time.Second, Silence: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const id = "01980000-0000-7000-8000-000000000001"

func answerWith(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,%s}`, body)
	}
}

// answerEnded answers that the call ended with a status.
func answerEnded(status string) http.HandlerFunc {
	return answerWith(`"result":{"content":[{"type":"text","text":"it is ` + status + `"}],"isError":true,` +
		`"_meta":{"dev.holdpoint/call":{"id":"` + id + `","status":"` + status + `","code":"` + status + `"}}}`)
}

// answerHeld begins a stream with the call's id, and continues with then.
func answerHeld(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Holdpoint-Call", id)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": keepalive\n\n")
		w.(http.Flusher).Flush()
		then(w, r)
	}
}

func formatEvent(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n: keepalive\n\n")
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,%s}\n\n", body)
	}
}

// cutConnection closes the connection.
func cutConnection(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

func call(arguments string) client.ToolCall {
	return client.ToolCall{Agent: "billing", Tool: "files__write", Arguments: json.RawMessage(arguments)}
}

func TestCall(t *testing.T) {
	t.Parallel()
	const done = `{"status":"succeeded","failure":null}`
	const parked = `{"status":"parked","deadline":"2026-01-01T00:00:00Z"}`
	tests := []struct {
		name   string
		steps  []http.HandlerFunc
		state  string // status of the call in the API
		tools  string // the called tools, in order
		status string
	}{
		{
			"answered at once", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Holdpoint-Call", id)
				answerWith(`"result":{"content":[]}`)(w, r)
			}}, done, "files__write", "succeeded",
		},
		{"held to the end", []http.HandlerFunc{answerHeld(formatEvent(`"result":{"content":[]}`))}, done, "files__write", "succeeded"},
		{"rejected", []http.HandlerFunc{answerEnded("rejected")}, "", "files__write", "rejected"},
		{"pending, then rejected", []http.HandlerFunc{answerEnded("parked"), answerEnded("rejected")}, "", "files__write holdpoint_await", "rejected"},
		{
			"pending for long",
			[]http.HandlerFunc{answerEnded("parked"), answerEnded("approved"), answerEnded("executing"), answerEnded("expired")},
			"",
			"files__write holdpoint_await holdpoint_await holdpoint_await", "expired",
		},
		{"cut while held", []http.HandlerFunc{answerHeld(cutConnection), answerEnded("rejected")}, parked, "files__write holdpoint_await", "rejected"},
		{
			"cut again and again",
			[]http.HandlerFunc{answerHeld(cutConnection), cutConnection, answerHeld(cutConnection), cutConnection, cutConnection, answerEnded("rejected")},
			parked,
			"files__write holdpoint_await holdpoint_await holdpoint_await holdpoint_await holdpoint_await", "rejected",
		},
		{
			"the server is starting", []http.HandlerFunc{
				answerHeld(cutConnection), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
				answerWith(`"error":{"code":-32603,"message":"internal error"}`), answerEnded("rejected"),
			}, parked, "files__write holdpoint_await holdpoint_await holdpoint_await", "rejected",
		},
		{"the call's own error", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Holdpoint-Call", id)
			answerWith(`"error":{"code":-32603,"message":"of the skill"}`)(w, r)
		}}, `{"status":"failed","failure":"jsonrpc_error"}`, "files__write", "failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, test.steps...)
			if test.state != "" {
				s.setCall(id, test.state)
			}
			outcome, err := s.client(t).Call(t.Context(), call(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			if outcome.Status != test.status || outcome.CallID != id {
				t.Errorf("got %+v", outcome)
			}
			if got := s.calledTools(t); got != test.tools {
				t.Errorf("called %s, want %s", got, test.tools)
			}
		})
	}
}

// TestCallTellsWhatItWaitsFor: the call waits for a connection, then, in the same response, for an approval, then for a
// connection again.
func TestCallTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	const unconnected = `{"status":"needs_connection","deadline":"2026-01-01T00:00:00Z","message":"nobody connected it"}`
	told := make(chan client.Progress, 10)
	release := make(chan struct{})
	var s *server
	s = newServer(t,
		answerHeld(func(w http.ResponseWriter, r *http.Request) {
			<-release
			s.setCall(id, unconnected)
			formatEvent(`"result":{"content":[],"isError":true,"_meta":{"dev.holdpoint/call":{"id":"`+id+`","status":"needs_connection"}}}`)(w, r)
		}),
		answerHeld(func(w http.ResponseWriter, r *http.Request) {
			<-release
			formatEvent(`"result":{"content":[]}`)(w, r)
		}),
	)
	s.setCall(id, unconnected)
	c := call(`{}`)
	c.OnProgress = func(n client.Progress) { told <- n }
	ended := make(chan client.Outcome, 1)
	go func() {
		outcome, err := s.client(t).Call(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		ended <- outcome
	}()
	next := func(want client.Progress) {
		t.Helper()
		select {
		case got := <-told:
			want.CallID = id
			if got != want {
				t.Errorf("told %+v, want %+v", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("not told of %+v", want)
		}
	}
	deadline := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	next(client.Progress{Status: "needs_connection", Deadline: deadline, Reason: "nobody connected it"})
	s.setCall(id, `{"status":"parked","deadline":"2026-01-01T00:01:00Z","message":null}`)
	next(client.Progress{Status: "parked", Deadline: deadline.Add(time.Minute)})
	release <- struct{}{}
	next(client.Progress{Status: "needs_connection", Deadline: deadline, Reason: "nobody connected it"})
	s.setCall(id, `{"status":"succeeded","failure":null}`)
	release <- struct{}{}
	if outcome := <-ended; outcome.Status != "succeeded" {
		t.Errorf("got %+v", outcome)
	}
	if len(told) != 0 {
		t.Errorf("told %+v", <-told)
	}
}

// TestCallCutEarly: if no id was received, the call is resent only if the server does not have it.
func TestCallCutEarly(t *testing.T) {
	t.Parallel()
	const before = `{"id":"old","name":"files__write","arguments":{"n":1}}`
	const ours = `{"id":"` + id + `","name":"files__write","arguments":{"n":1}}`
	const others = `{"id":"other","name":"files__write","arguments":{"n":2}}`
	t.Run("the server has it", func(t *testing.T) {
		t.Parallel()
		s := newServer(t)
		s.wantCalls(before)
		s.steps = []http.HandlerFunc{
			func(w http.ResponseWriter, r *http.Request) { s.wantCalls(others, ours); cutConnection(w, r) }, answerEnded("rejected"),
		}
		outcome, err := s.client(t).Call(t.Context(), call(` { "n" : 1 } `))
		if err != nil || outcome.Status != "rejected" {
			t.Errorf("got %+v, %v", outcome, err)
		}
		if got := s.calledTools(t); got != "files__write holdpoint_await" {
			t.Errorf("called %s", got)
		}
	})
	t.Run("the server does not have it", func(t *testing.T) {
		t.Parallel()
		s := newServer(t)
		s.wantCalls(before)
		s.steps = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { s.wantCalls(others); cutConnection(w, r) }, answerEnded("rejected")}
		if outcome, err := s.client(t).Call(t.Context(), call(`{"n":1}`)); err != nil || outcome.Status != "rejected" {
			t.Errorf("got %+v, %v", outcome, err)
		}
		if got := s.calledTools(t); got != "files__write files__write" {
			t.Errorf("called %s", got)
		}
	})
	t.Run("with an idempotency key", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, cutConnection, cutConnection, answerEnded("rejected"))
		keyed := call(`{"n":1}`)
		keyed.IdempotencyKey = "k"
		if outcome, err := s.client(t).Call(t.Context(), keyed); err != nil || outcome.Status != "rejected" {
			t.Errorf("got %+v, %v", outcome, err)
		}
		if got := s.calledTools(t); got != "files__write files__write files__write" || !strings.Contains(s.got[2], `"dev.holdpoint/idempotency_key":"k"`) {
			t.Errorf("called %s: %s", got, s.got[2])
		}
	})
	t.Run("nobody can say", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, cutConnection)
		c := s.client(t)
		c.HTTP = &http.Client{Transport: onlyMCP{c.HTTP.Transport}}
		_, err := c.Call(t.Context(), call(`{}`))
		if !errors.Is(err, client.ErrAmbiguous) {
			t.Errorf("got %v", err)
		}
	})
}

// onlyMCP refuses the API.
type onlyMCP struct{ http.RoundTripper }

func (o onlyMCP) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		return nil, errors.New("refused")
	}
	return o.RoundTripper.RoundTrip(r)
}

func TestCallStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newServer(t, answerHeld(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	s.setCall(id, `{"status":"parked","deadline":"2026-01-01T00:00:00Z"}`)
	toolCall := call(`{}`)
	toolCall.OnProgress = func(n client.Progress) {
		if n.CallID == id && n.Status == "parked" && n.Deadline.Year() == 2026 {
			cancel()
		}
	}
	_, err := s.client(t).Call(ctx, toolCall)
	var stopped *client.StoppedError
	if !errors.As(err, &stopped) || stopped.CallID != id {
		t.Errorf("got %v", err)
	}
}

func TestCallGivesUp(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t)
	s.Close()
	_, err := c.Call(t.Context(), call(`{}`))
	var lost *client.LostError
	if !errors.As(err, &lost) || lost.Sent {
		t.Errorf("got %v", err)
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	s := newServer(t, answerHeld(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		answerEnded("rejected"), answerEnded("rejected"), answerEnded("rejected")) // a slow machine may wait again
	s.setCall(id, `{"status":"parked"}`)
	c := s.client(t)
	c.Silence = 2 * time.Second
	if outcome, err := c.Call(t.Context(), call(`{}`)); err != nil || outcome.Status != "rejected" {
		t.Errorf("got %+v, %v", outcome, err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such credential", http.StatusUnauthorized)
	})
	_, err := s.client(t).Call(t.Context(), call(`{}`))
	var problem *client.Problem
	if !errors.As(err, &problem) || problem.Status != 401 || problem.Detail != "no such credential" {
		t.Errorf("got %v", err)
	}
}

func TestExactArguments(t *testing.T) {
	t.Parallel()
	const arguments = `{"big":9007199254740993, "huge":1e400,"zero":-0,"html":"<&>","esc":"\u003c\ud83d\ude00","dup":1,"dup":2}`
	s := newServer(t, answerEnded("rejected"))
	c := s.client(t)
	toolCall := call(arguments)
	toolCall.Agent = "a/b"
	if _, err := c.Call(t.Context(), toolCall); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.got[0], `"arguments":`+arguments+`}}`) {
		t.Errorf("sent %s", s.got[0])
	}
	if s.path[0] != "/agents/a%2Fb/mcp" {
		t.Errorf("path %s", s.path[0])
	}
	toolCall.Arguments = json.RawMessage(`{}},"x":{`)
	if _, err := c.Call(t.Context(), toolCall); err == nil {
		t.Error("arguments that are no JSON were sent")
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	s := newServer(t,
		answerWith(`"result":{"tools":[{"name":"a","x":1e400}],"nextCursor":"2","_meta":{"dev.holdpoint/problems":[{"skill":"s","kind":"transport","error":"e"}]}}`),
		answerWith(`"result":{"tools":[{"name":"b"}]}`))
	found, err := s.client(t).Tools(t.Context(), "billing")
	if err != nil || len(found.Items) != 2 || string(found.Items[0]) != `{"name":"a","x":1e400}` {
		t.Errorf("got %s, %v", found.Items, err)
	}
	if len(found.Problems) != 1 || found.Problems[0].Skill != "s" {
		t.Errorf("problems %v", found.Problems)
	}
	if !strings.Contains(s.got[1], `"cursor":"2"`) {
		t.Errorf("second request %s", s.got[1])
	}
}
