package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// bench is an endpoint with fake services on a network in memory, so that tests can control time.
type bench struct {
	t        testing.TB
	calls    *fakeCalls
	agents   *fakeAgents
	people   fakeIdentity
	limits   *fakeLimits
	others   *fakeResources
	server   *mcpserver.Server
	client   *http.Client
	log      *worldtest.Log
	guards   *fakeGuards
	listener *pipeListener
}

var ann = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")

const (
	echoTool = `{"name":"echo","x-unknown":[1.0,"ü"],"inputSchema":{"type":"object"}}`
	gateTool = `{"title":"A gate","name":"gated","inputSchema":{"type":"object"}}`
	slowTool = `{"name":"slow","inputSchema":{"type":"object"}}`
	headTool = `{"name":"head","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
		`"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}}`
)

func newBench(t testing.TB, change ...func(*mcpserver.Config)) *bench {
	t.Helper()
	b := &bench{
		t: t, calls: newFakeCalls(), agents: newFakeAgents(t, echoTool, gateTool, slowTool, headTool),
		limits:   &fakeLimits{},
		guards:   &fakeGuards{},
		others:   &fakeResources{},
		log:      &worldtest.Log{},
		listener: &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	b.people = fakeIdentity{
		"token-ann":  {Person: identity.Person{ID: ann}, Agents: []string{"billing", "ghost"}},
		"token-bert": {Person: identity.Person{ID: uuid.New()}, Agents: []string{"other"}},
	}
	b.calls.outcome = func(sub call.Submission) call.Call {
		return call.Call{Status: call.Succeeded, Result: json.RawMessage(
			`{"content":[{"type":"text","text":` + string(quoteJSON(string(sub.Arguments))) + `}]}`)}
	}
	cfg := mcpserver.Config{
		Calls: b.calls, Agents: b.agents, Catalog: b.agents, Identity: b.people, Limits: b.limits, Resources: b.others, Guards: b.guards, Now: time.Now, Version: "1.2.3",
		Logger: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})), PublicURL: "https://hold.example.com",
	}
	for _, f := range change {
		f(&cfg)
	}
	server, err := mcpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.server = server
	mux := http.NewServeMux()
	server.Mount(mux)
	// These timeouts are too short for any wait: the endpoint sets its own deadlines.
	h := &http.Server{Handler: mux, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second}
	go func() {
		if err := h.Serve(b.listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	transport := &http.Transport{DialContext: b.listener.dial}
	b.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func quoteJSON(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

const billing = "http://hold.example.com/agents/billing/mcp"

// newRequest makes a request of the agent billing. A header "" removes a default.
func (b *bench) newRequest(ctx context.Context, body string, headers ...string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, billing, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key-billing")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (b *bench) sendRequest(r *http.Request) answer {
	b.t.Helper()
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (b *bench) post(body string, headers ...string) answer {
	b.t.Helper()
	return b.sendRequest(b.newRequest(context.Background(), body, headers...))
}

// startSession starts a legacy session and returns its headers.
func (b *bench) startSession() []string {
	b.t.Helper()
	a := b.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if a.status != http.StatusOK {
		b.t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	return []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
}

func callBody(id, tool, arguments string) string {
	return `{"method":"tools/call","params":{"name":"files__` + tool + `","arguments":` + arguments + `},"jsonrpc":"2.0","id":` + id + `}`
}

// modernRequest adds the headers and members that MCP 2026-07-28 requires.
func modernRequest(method, params string, extra ...string) (body string, headers []string) {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	if params != "" {
		params += ","
	}
	headers = append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}, extra...)
	return `{"jsonrpc":"2.0","id":"m","method":"` + method + `","params":{` + params + meta + `}}`, headers
}

// readEvents reads a stream of events: comments as they are, data without its label.
func readEvents(body io.Reader) []string {
	var seen []string
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, ":"):
			seen = append(seen, line)
		case strings.HasPrefix(line, "data: "):
			seen = append(seen, strings.TrimPrefix(line, "data: "))
		}
	}
	return seen
}

// decodeJSON reads JSON for comparison.
func decodeJSON(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// memberAt returns a part of decoded JSON; nil if there is none.
func memberAt(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = object[step]
		case int:
			array, ok := v.([]any)
			if !ok || step >= len(array) {
				return nil
			}
			v = array[step]
		}
	}
	return v
}

// pipeListener is a network in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
