package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// The cost of the endpoint itself: an auto-approved echo with free services, compared with the official SDK's handler.

type stubCalls struct {
	call.Call
	fakeGate
}

func (s *stubCalls) Submit(context.Context, call.Submission) (call.Ticket, error) {
	return call.Ticket{ID: s.ID, Status: call.Executing}, nil
}

func (s *stubCalls) Wait(context.Context, uuid.UUID, call.Listener) (*call.Call, error) {
	return &s.Call, nil
}
func (s *stubCalls) MarkDelivered(context.Context, uuid.UUID) error { return nil }
func (s *stubCalls) Questions(context.Context, call.Viewer, uuid.UUID) ([]call.Question, error) {
	return nil, nil
}

func (s *stubCalls) WaitDeadline(context.Context, call.Viewer, uuid.UUID, call.Status) (time.Time, error) {
	return time.Time{}, nil
}

func (s *stubCalls) Answer(context.Context, call.Viewer, uuid.UUID, int, call.Answer) error {
	return call.ErrNotFound
}
func (s *stubCalls) RequestCancel(context.Context, call.Viewer, uuid.UUID) error { return nil }
func (s *stubCalls) Get(context.Context, call.Viewer, uuid.UUID) (call.Call, error) {
	return s.Call, nil
}

const echoResult = `{"content":[{"type":"text","text":"0123456789012345678901234567890123456789012345678901234567890123"}]}`

func ourHandler(b *testing.B) http.Handler {
	b.Helper()
	agents := newFakeAgents(b, echoTool)
	server, err := mcpserver.New(mcpserver.Config{
		Calls:  &stubCalls{Call: call.Call{ID: uuid.New(), Status: call.Succeeded, Result: json.RawMessage(echoResult)}},
		Agents: agents, Catalog: agents, Identity: fakeIdentity{}, Limits: &fakeLimits{}, Resources: &fakeResources{}, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Version: "1", PublicURL: "http://localhost",
	})
	if err != nil {
		b.Fatal(err)
	}
	mux := http.NewServeMux()
	server.Mount(mux)
	return mux
}

func sdkHandler(b *testing.B, stateless bool) http.Handler {
	b.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "files__echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("0123456789", 6) + "0123"}}}, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: stateless, Logger: slog.New(slog.DiscardHandler)})
}

// contender is a handler, with its request and response for an echo.
type contender struct {
	handler func(b *testing.B) http.Handler
	modern  bool
}

func listContenders() map[string]contender {
	return map[string]contender{
		"ours/2025-11-25": {ourHandler, false},
		"ours/2026-07-28": {ourHandler, true},
		"sdk/2025-11-25":  {func(b *testing.B) http.Handler { return sdkHandler(b, false) }, false},
		"sdk/2026-07-28":  {func(b *testing.B) http.Handler { return sdkHandler(b, true) }, true},
	}
}

// prepare returns a function that makes requests. Those of the legacy era belong to a session.
func (c contender) prepare(b *testing.B, base string, send func(*http.Request) (http.Header, string)) func() *http.Request {
	b.Helper()
	build := func(body string, headers []string) *http.Request {
		r, err := http.NewRequest(http.MethodPost, base+"/agents/billing/mcp", bytes.NewReader([]byte(body)))
		if err != nil {
			b.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {"Bearer key-billing"}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	arguments := `{"message":"0123456789012345678901234567890123456789012345678901234567890123"}`
	if c.modern {
		body, headers := modernRequest("tools/call", `"name":"files__echo","arguments":`+arguments, "Mcp-Name", "files__echo")
		return func() *http.Request { return build(body, headers) }
	}
	header, _ := send(build(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil))
	session := []string{"Mcp-Session-Id", header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	send(build(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session))
	return func() *http.Request { return build(callBody("1", "echo", arguments), session) }
}

// BenchmarkHandler measures the handlers alone.
func BenchmarkHandler(b *testing.B) {
	for name, c := range listContenders() {
		b.Run(name, func(b *testing.B) {
			handler := c.handler(b)
			send := func(r *http.Request) (http.Header, string) {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w.Header(), w.Body.String()
			}
			request := c.prepare(b, "http://localhost", send)
			if _, body := send(request()); !strings.Contains(body, "0123456789") {
				b.Fatal(body)
			}
			b.ReportAllocs()
			for b.Loop() {
				send(request())
			}
		})
	}
}

// BenchmarkHTTP measures them behind net/http, with a client on a kept connection.
func BenchmarkHTTP(b *testing.B) {
	for name, c := range listContenders() {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(c.handler(b))
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			send := func(r *http.Request) (http.Header, string) {
				response, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if err != nil {
					b.Fatal(err)
				}
				return response.Header, string(body)
			}
			request := c.prepare(b, server.URL, send)
			if _, body := send(request()); !strings.Contains(body, "0123456789") {
				b.Fatal(body)
			}
			b.ReportAllocs()
			for b.Loop() {
				send(request())
			}
		})
	}
}

// BenchmarkParked measures the memory of one waiting client, including its connection.
func BenchmarkParked(b *testing.B) {
	bench := newBench(b)
	bench.calls.arrived = make(chan uuid.UUID, 1)
	headers := bench.startSession()
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	const clients = 2000
	arguments := `{"text":"` + strings.Repeat("x", 190) + `","n":`
	for b.Loop() {
		before := memory()
		conns := make([]net.Conn, clients)
		status := make([]byte, len("HTTP/1.1 200 OK"))
		for i := range conns {
			conn, err := bench.listener.dial(b.Context(), "", "")
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = conn
			body := callBody("1", "gated", arguments+strconv.Itoa(i)+"}")
			if err := bench.newRequest(b.Context(), body, headers...).Write(conn); err != nil {
				b.Fatal(err)
			}
			<-bench.calls.arrived
			if _, err := io.ReadFull(conn, status); err != nil {
				b.Fatal(err)
			}
			go io.Copy(io.Discard, conn) // it ends with the connection
		}
		b.ReportMetric(float64(memory()-before)/clients/1024, "KiB/client")
		for _, conn := range conns {
			conn.Close()
		}
	}
}
