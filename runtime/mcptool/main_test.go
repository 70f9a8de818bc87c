package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestMain runs the tests or, in a child process of a test, a server.
func TestMain(m *testing.M) {
	if mode := os.Getenv("MCPTOOL_TEST_SERVER"); mode != "" {
		runChild(mode)
		return
	}
	goleak.VerifyTestMain(leaktest.Patient(m), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(filepath.Dir(binary()))
		os.Exit(code)
	}))
}

// anyCommand allows all commands.
var anyCommand = tool.StdioPolicy{On: true, Allow: [][]string{{}}}

// newSource returns a Source that is closed when the test ends.
func newSource(t testing.TB, config mcptool.Config) *mcptool.Source {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	letPass(t, config.DataDir)
	if config.Stdio.Allow == nil {
		config.Stdio = anyCommand
	}
	if config.Limits.DiscoverProbe == 0 {
		config.Limits.DiscoverProbe = 30 * time.Second // includes starting the child, which is slow on a busy machine
	}
	s := mcptool.New(config)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func httpSkill(url string) tool.Server {
	return tool.Server{SkillID: uuid.New(), Skill: "web", Revision: 1, Transport: tool.HTTP, URL: url}
}

// echoServer is an SDK server with a tool that returns its arguments unchanged.
func echoServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	addEcho(server, "echo")
	return server
}

func addEcho(server *mcp.Server, name string) {
	server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
}

// listEras returns the options of an SDK server over HTTP for each era.
func listEras() map[string]*mcp.StreamableHTTPOptions {
	return map[string]*mcp.StreamableHTTPOptions{
		"2025-11-25 SSE":  {},
		"2025-11-25 JSON": {JSONResponse: true},
		"2026-07-28 SSE":  {Stateless: true},
		"2026-07-28 JSON": {Stateless: true, JSONResponse: true},
	}
}

// serve serves an SDK server and closes its sessions when the test ends.
func serve(t testing.TB, server *mcp.Server, options *mcp.StreamableHTTPOptions) *httptest.Server {
	t.Helper()
	return serveHandler(t, server, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
}

func serveHandler(t testing.TB, server *mcp.Server, handler http.Handler) *httptest.Server {
	t.Helper()
	h := httptest.NewServer(handler)
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
		closeServer(h)
	})
	return h
}

// callTool calls a tool without a caller and expects a result.
func callTool(t testing.TB, s *mcptool.Source, server tool.Server, name, arguments string) tool.Result {
	t.Helper()
	return callFor(t, s, server, name, arguments, tool.Caller{})
}

// callFor calls a tool for a caller and expects a result.
func callFor(t testing.TB, s *mcptool.Source, server tool.Server, name, arguments string, caller tool.Caller) tool.Result {
	t.Helper()
	result, err := s.Call(t.Context(), server, tool.CallRequest{
		CallID: uuid.New(), Tool: name, Arguments: json.RawMessage(arguments), Caller: caller,
	})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return result
}

// failCall calls a tool without a caller and expects a failure.
func failCall(ctx context.Context, t testing.TB, s *mcptool.Source, server tool.Server) *tool.Failure {
	t.Helper()
	return failCallFor(ctx, t, s, server, tool.Caller{})
}

// failCallFor calls a tool for a caller and expects a failure.
func failCallFor(ctx context.Context, t testing.TB, s *mcptool.Source, server tool.Server, caller tool.Caller) *tool.Failure {
	t.Helper()
	result, err := s.Call(ctx, server, tool.CallRequest{
		CallID: uuid.New(), Tool: "echo", Arguments: json.RawMessage(`{}`), Caller: caller,
	})
	if err == nil {
		t.Fatalf("call succeeded: %.200s", result.Raw)
	}
	return asFailure(t, err)
}

func asFailure(t testing.TB, err error) *tool.Failure {
	t.Helper()
	var failure *tool.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("%v is not a *tool.Failure", err)
	}
	if len(failure.Message) > 4000 {
		t.Errorf("message of %d bytes", len(failure.Message))
	}
	if len(failure.Raw) > 0 && (!json.Valid(failure.Raw) || len(failure.Raw) > 400<<10) {
		t.Errorf("evidence of %d bytes, valid %t", len(failure.Raw), json.Valid(failure.Raw))
	}
	return failure
}

// textOf returns the text of a result's first content.
func textOf(t testing.TB, result tool.Result) string {
	t.Helper()
	var body struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(result.Raw, &body); err != nil || len(body.Content) == 0 {
		t.Fatalf("result %s: %v", result.Raw, err)
	}
	return body.Content[0].Text
}

// script is a scripted server: tests replace its behavior for each method.
type script struct {
	// version is the answer to initialize; by default 2025-11-25.
	version string
	// session is the session that initialize starts; "" for none.
	session string
	// at overrides methods: "tools/call", "GET", "DELETE", "notifications/cancelled", and others.
	at map[string]func(http.ResponseWriter, *http.Request, message)

	mu     sync.Mutex
	counts map[string]int
	seen   []message
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	body   []byte
	header http.Header
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := message{Method: r.Method}
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		m.body = body
		if m.Method == http.MethodPost {
			m.Method = "answer"
		}
	}
	m.header = r.Header.Clone()
	s.mu.Lock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[m.Method]++
	s.seen = append(s.seen, m)
	act := s.at[m.Method]
	s.mu.Unlock()
	if act != nil {
		act(w, r, m)
		return
	}
	s.standard(w, m)
}

// standard answers as a conforming server does.
func (s *script) standard(w http.ResponseWriter, m message) {
	switch m.Method {
	case "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	case "initialize":
		version := s.version
		if version == "" {
			version = "2025-11-25"
		}
		if s.session != "" {
			w.Header().Set("Mcp-Session-Id", s.session)
		}
		writeAnswer(w, m, `{"protocolVersion":"`+version+`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"script","version":"1"}}`)
	case "tools/list":
		writeAnswer(w, m, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		writeAnswer(w, m, `{"content":[{"type":"text","text":"done"}]}`)
	case http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *script) countRequests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[method]
}

func (s *script) lastRequest(method string) message {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range slices.Backward(s.seen) {
		if m.Method == method {
			return m
		}
	}
	return message{}
}

func (s *script) serve(t testing.TB) *httptest.Server {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(func() { closeServer(h) })
	return h
}

// quietLog discards a server's log.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// closeServer closes a server even if clients still connect and handlers wait for them to leave.
func closeServer(h *httptest.Server) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Close()
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		h.CloseClientConnections()
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// writeAnswer writes a JSON response.
func writeAnswer(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answerText(m, result))
}

func answerText(m message, result string) string {
	return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`
}

// withTimeout returns a context with a timeout, for calls that would hang.
func withTimeout(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// letPass lets other accounts traverse a test's folder and its parent.
func letPass(t testing.TB, dir string) {
	t.Helper()
	if dir == "" || os.Geteuid() != 0 {
		return
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

// binary copies this test's executable to where other accounts can run it.
var binary = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "holdpoint-mcptool-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		var self string
		if self, err = os.Executable(); err == nil {
			err = exec.Command("cp", self, filepath.Join(dir, "server")).Run()
		}
	}
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, "server")
})
