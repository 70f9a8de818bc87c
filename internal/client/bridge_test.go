package client_test

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/client"
)

// bridged is a client, a bridge, and the server behind it.
type bridged struct {
	t      *testing.T
	in     *io.PipeWriter
	out    *bufio.Reader
	outEnd *io.PipeReader
	ended  chan error
	tls    *tls.Config

	mu       sync.Mutex
	log      []string
	requests []received
	announce http.HandlerFunc // serves GET; nil: there are no streams
	arrived  chan struct{}    // receives for each request
}

type received struct {
	method string
	header http.Header
	body   string
}

const token = "a-secret-key"

// newBridged starts a bridge to a server that serves POST and, if announce is given, GET.
func newBridged(t *testing.T, cfg client.Config, serve http.HandlerFunc, announce ...http.HandlerFunc) *bridged {
	t.Helper()
	b := &bridged{t: t, ended: make(chan error, 1), arrived: make(chan struct{}, 100)}
	if len(announce) > 0 {
		b.announce = announce[0]
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.requests = append(b.requests, received{r.Method, r.Header.Clone(), string(body)})
		b.mu.Unlock()
		b.arrived <- struct{}{}
		if r.URL.Path != "/agents/billing/mcp" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		switch r.Method {
		case http.MethodPost:
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			serve(w, r)
		case http.MethodGet:
			if b.announce == nil {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			b.announce(w, r)
		case http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(server.Close)
	cfg.URL = server.URL
	b.start(cfg, client.BridgeConfig{})
	return b
}

func (b *bridged) start(cfg client.Config, bridge client.BridgeConfig) {
	b.t.Helper()
	cfg.Token, cfg.Version = token, "1.2.3"
	if cfg.Retry == 0 {
		cfg.Retry = time.Millisecond
	}
	transport := &http.Transport{TLSClientConfig: b.tls}
	cfg.HTTP = &http.Client{Transport: transport}
	c, err := client.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	in, fromClient := io.Pipe()
	toClient, out := io.Pipe()
	b.in, b.out, b.outEnd = fromClient, bufio.NewReader(toClient), toClient
	bridge.Agent, bridge.In, bridge.Out = "billing", in, out
	bridge.Linger = cmp.Or(bridge.Linger, time.Minute)
	bridge.Log = func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.log = append(b.log, fmt.Sprintf(format, args...))
	}
	go func() { b.ended <- c.NewBridge(bridge).Run(b.t.Context()) }()
	b.t.Cleanup(func() {
		fromClient.Close()
		toClient.Close()
		transport.CloseIdleConnections()
		for _, text := range b.log {
			if strings.Contains(text, token) {
				b.t.Errorf("the log shows the key: %s", text)
			}
		}
	})
}

func (b *bridged) writeLine(line string) {
	b.t.Helper()
	if _, err := io.WriteString(b.in, line+"\n"); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bridged) readLine() string {
	b.t.Helper()
	line, err := b.out.ReadString('\n')
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.Contains(line, token) {
		b.t.Errorf("the client is shown the key: %s", line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (b *bridged) wantLine(want string) {
	b.t.Helper()
	if got := b.readLine(); got != want {
		b.t.Errorf("the client gets\n%s, want\n%s", got, want)
	}
}

// close closes the client's end and returns the bridge's result.
func (b *bridged) close() error {
	b.in.Close()
	return <-b.ended
}

// listRequests returns the requests so far.
func (b *bridged) listRequests() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
	initialized = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}}`
)

// serveSessions is a legacy server whose sessions are s1, s2, …. It does not know those in gone.
func serveSessions(t *testing.T, gone map[string]bool, serve http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := r.Header.Get("Mcp-Session-Id")
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.Contains(string(body), `"initialize"`):
			n++
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", n))
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, initialized)
		case gone[id]:
			http.Error(w, "this session is unknown", http.StatusNotFound)
		case id != fmt.Sprintf("s%d", n) || r.Header.Get("MCP-Protocol-Version") != "2025-11-25":
			t.Errorf("%s has session %q, version %q", body, id, r.Header.Get("MCP-Protocol-Version"))
		case strings.Contains(string(body), "notifications/"):
			w.WriteHeader(http.StatusAccepted)
		default:
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			serve(w, r)
		}
	}
}

func writeEvents(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		io.WriteString(w, e+"\n\n")
		w.(http.Flusher).Flush()
	}
}

func TestBridgePassesBytes(t *testing.T) {
	t.Parallel()
	// Spaces, escapes, numbers and order are kept. Line breaks between tokens become spaces.
	call := `{ "id":"a\u002fb" ,"jsonrpc":"2.0","method":"tools/call","params":{"name":"x","arguments":{"z":1.50,"a":"\u00e9é"}} }`
	b := newBridged(t, client.Config{}, serveSessions(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Error("there is no credential")
		}
		writeEvents(w, ": keepalive",
			"event: message\ndata: {\"jsonrpc\":\"2.0\", \"method\":\"notifications/progress\",\"params\":{\"progress\":1e2}}",
			"event: other\ndata: {\"no\":\"message\"}",
			"data: no JSON",
			"data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":\"a\\u002fb\",\"result\":{\"n\":1.50}}")
	}))
	b.writeLine(initialize)
	b.wantLine(initialized)
	b.writeLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	b.writeLine("")
	b.writeLine(call)
	b.wantLine(`{"jsonrpc":"2.0", "method":"notifications/progress","params":{"progress":1e2}}`)
	b.wantLine(`{"jsonrpc":"2.0", "id":"a\u002fb","result":{"n":1.50}}`)
	if err := b.close(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	var bodies []string
	for _, r := range b.listRequests() {
		if r.method == http.MethodPost {
			bodies = append(bodies, r.body)
		}
	}
	if !slices.Contains(bodies, call) || bodies[0] != initialize || len(bodies) != 3 {
		t.Errorf("the server got %q", bodies)
	}
	last := b.listRequests()[len(b.listRequests())-1]
	if last.method != http.MethodDelete || last.header.Get("Mcp-Session-Id") != "s1" {
		t.Errorf("the last request is %s %v", last.method, last.header)
	}
}

func TestBridgeMirrorsHeaders(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	b := newBridged(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		if m.Method == "tools/list" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"x","inputSchema":{"properties":{`+
				`"region":{"x-mcp-header":"Region"},"in":{"properties":{"n":{"x-mcp-header":"N"}}},"bad":{"x-mcp-header":"no token"}}}}]}}`, m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	})
	for i, tc := range []struct {
		method, params string
		want           map[string]string
	}{
		{"server/discover", "", map[string]string{"Mcp-Name": ""}},
		{"tools/list", "", nil},
		{"tools/call", `"name":"x","arguments":{"region":"Zürich","in":{"n":42},"bad":"y"},`, map[string]string{
			"Mcp-Name": "x", "Mcp-Param-Region": "=?base64?WsO8cmljaA==?=", "Mcp-Param-N": "42",
		}},
		{"resources/read", `"uri":"file:///a",`, map[string]string{"Mcp-Name": "file:///a"}},
		{"prompts/get", `"name":" p",`, map[string]string{"Mcp-Name": "=?base64?IHA=?="}},
		{"tasks/get", `"taskId":"t1",`, map[string]string{"Mcp-Name": "t1"}},
	} {
		b.writeLine(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`, i, tc.method, tc.params, meta))
		b.readLine()
		h := b.listRequests()[i].header
		if h.Get("Mcp-Protocol-Version") != "2026-07-28" || h.Get("Mcp-Method") != tc.method || h.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s is sent with %v", tc.method, h)
		}
		for name, want := range tc.want {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", tc.method, name, h.Get(name), want)
			}
		}
	}
	// Without sessions, cancelling ends the request.
	b.writeLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
	if err := b.close(); err != nil {
		t.Error(err)
	}
}

// TestBridgeServerSpeaks: the client gets the server's messages and its requests during a request, and the server gets
// the client's answers.
func TestBridgeServerSpeaks(t *testing.T) {
	t.Parallel()
	answered := make(chan string, 1)
	streams := make(chan string, 10) // values of Last-Event-ID
	b := newBridged(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), `"initialize"`):
			w.Header().Set("Mcp-Session-Id", "s1")
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, initialized)
		case strings.Contains(string(body), "tools/call"):
			writeEvents(w, `data: {"jsonrpc":"2.0","id":"q/1","method":"elicitation/create","params":{"message":"which?"}}`)
			if got := <-answered; got != `{"jsonrpc":"2.0","id":"q/1","result":{"action":"decline"}}` {
				t.Errorf("the server got %s", got)
			}
			writeEvents(w, `data: {"jsonrpc":"2.0","id":1,"result":{}}`)
		default:
			w.WriteHeader(http.StatusAccepted)
			answered <- string(body)
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") != "s1" {
			t.Errorf("the stream is asked for with %v", r.Header)
		}
		streams <- r.Header.Get("Last-Event-ID")
		if len(streams) == 1 {
			writeEvents(w, "id: e1\ndata:", "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}")
			return
		}
		writeEvents(w, ": keepalive")
		<-r.Context().Done()
	})
	b.writeLine(initialize)
	b.wantLine(initialized)
	b.wantLine(`{"jsonrpc":"2.0","method":"notifications/message"}`)
	b.writeLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	b.wantLine(`{"jsonrpc":"2.0","id":"q/1","method":"elicitation/create","params":{"message":"which?"}}`)
	b.writeLine(`{"jsonrpc":"2.0","id":"q/1","result":{"action":"decline"}}`)
	b.wantLine(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if first, second := <-streams, <-streams; first != "" || second != "e2" {
		t.Errorf("the streams were asked for after %q and %q", first, second)
	}
	if err := b.close(); err != nil {
		t.Error(err)
	}
}

func TestBridgeRenewsSession(t *testing.T) {
	t.Parallel()
	b := newBridged(t, client.Config{}, serveSessions(t, map[string]bool{"s1": true}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	b.writeLine(initialize)
	b.wantLine(initialized)
	b.writeLine(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	b.wantLine(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	b.wantLine(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if err := b.close(); err != nil {
		t.Error(err)
	}
}

// cutOff breaks off a response.
func cutOff(w http.ResponseWriter, events ...string) {
	writeEvents(w, events...)
	panic(http.ErrAbortHandler)
}

func TestBridgeLostConnections(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{},"_meta":{"progressToken":"p"}}}`
	t.Run("a call with an id is waited for", func(t *testing.T) {
		t.Parallel()
		b := newBridged(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if string(body) == call {
				w.Header().Set("Holdpoint-Call", "c1")
				cutOff(w, ": keepalive")
			}
			writeEvents(w, `data: {"jsonrpc":"2.0","id":7,"result":{"of":"c1"}}`)
		})
		b.writeLine(call)
		b.wantLine(`{"jsonrpc":"2.0","id":7,"result":{"of":"c1"}}`)
		const want = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"holdpoint_await",` +
			`"arguments":{"call_id":"c1"},"_meta":{"progressToken":"p"}}}`
		if got := b.listRequests(); len(got) != 2 || got[1].body != want {
			t.Errorf("the server got %v", got)
		}
	})
	t.Run("a call without is not sent again", func(t *testing.T) {
		t.Parallel()
		b := newBridged(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) { cutOff(w, ": keepalive") })
		b.writeLine(call)
		wantFault(t, b.readLine(), "connection_lost", "may be executed")
		if got := b.listRequests(); len(got) != 1 {
			t.Errorf("the server got %v", got)
		}
	})
	t.Run("what has no effect is", func(t *testing.T) {
		t.Parallel()
		n := 0
		b := newBridged(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n < 3 {
				panic(http.ErrAbortHandler)
			}
			writeEvents(w, `data: {"jsonrpc":"2.0","id":7,"result":{}}`)
		})
		b.writeLine(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		b.wantLine(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	})
	t.Run("silence is a lost connection", func(t *testing.T) {
		t.Parallel()
		b := newBridged(t, client.Config{Silence: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			writeEvents(w, ": keepalive")
			<-r.Context().Done()
		})
		b.writeLine(call)
		wantFault(t, b.readLine(), "connection_lost", "nothing was heard")
	})
}

// wantFault checks an error from the bridge itself.
func wantFault(t *testing.T, line, code string, said ...string) {
	t.Helper()
	var m struct {
		Error struct {
			Code    int
			Message string
			Data    struct{ Code string }
		}
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Error.Code != -32000 || m.Error.Data.Code != code {
		t.Errorf("the client gets %s, want the code %s", line, code)
	}
	for _, text := range said {
		if !strings.Contains(m.Error.Message, text) {
			t.Errorf("the client gets %s, want %q in it", line, text)
		}
	}
}

func TestBridgeServerAway(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	b := &bridged{t: t, ended: make(chan error, 1)}
	b.start(client.Config{URL: "http://" + address, Patience: 20 * time.Millisecond}, client.BridgeConfig{})
	b.writeLine(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"x"}}`)
	wantFault(t, b.readLine(), "unreachable", "was not sent")
	if err := b.close(); err != nil {
		t.Error(err)
	}
}

// TestBridgeServerComesBack: messages that were not sent are sent once the server is available again.
func TestBridgeServerComesBack(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Before the server runs, connections close before TLS, so nothing can have been sent.
	n := make(chan int, 1)
	n <- 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeEvents(w, `data: {"jsonrpc":"2.0","id":7,"result":{}}`)
	}))
	server.Listener.Close()
	server.Listener = closing{listener, n}
	server.StartTLS()
	t.Cleanup(server.Close)
	b := &bridged{t: t, ended: make(chan error, 1), tls: server.Client().Transport.(*http.Transport).TLSClientConfig}
	b.start(client.Config{URL: server.URL}, client.BridgeConfig{})
	b.writeLine(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`)
	b.wantLine(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	if refused := <-n; refused < 3 {
		t.Errorf("it was refused %d times", refused)
	}
}

// closing closes the first connections.
type closing struct {
	net.Listener
	n chan int
}

func (l closing) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := <-l.n
		if n >= 3 {
			l.n <- n
			return conn, nil
		}
		l.n <- n + 1
		conn.Close()
	}
}

func TestBridgeRefusals(t *testing.T) {
	t.Parallel()
	t.Run("unauthorized", func(t *testing.T) {
		t.Parallel()
		b := newBridged(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "a key is required", http.StatusUnauthorized)
		})
		b.writeLine(initialize)
		wantFault(t, b.readLine(), "refused", "a key is required", "HOLDPOINT_TOKEN", "agent billing")
	})
	t.Run("JSON-RPC errors pass", func(t *testing.T) {
		t.Parallel()
		b := newBridged(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the message must be JSON"}}`)
		})
		b.writeLine(`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`)
		b.wantLine(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the message must be JSON"}}`)
	})
	t.Run("pages are no messages", func(t *testing.T) {
		t.Parallel()
		b := newBridged(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") })
		b.writeLine(initialize)
		wantFault(t, b.readLine(), "failed", "not an MCP message")
	})
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		n := 0
		b := newBridged(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n == 1 {
				w.Header().Set("Retry-After", "0")
				http.Error(w, "too many", http.StatusTooManyRequests)
				return
			}
			writeEvents(w, `data: {"jsonrpc":"2.0","id":7,"result":{}}`)
		})
		b.writeLine(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`)
		b.wantLine(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	})
	t.Run("a line that is too long", func(t *testing.T) {
		t.Parallel()
		b := &bridged{t: t, ended: make(chan error, 1)}
		b.start(client.Config{URL: "http://127.0.0.1:1"}, client.BridgeConfig{MaxLine: 100})
		b.writeLine(`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 100_000) + `"}`)
		wantFault(t, b.readLine(), "too_large", "100 bytes")
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestBridgeCancels: a request that the client cancels ends at once, without an answer.
func TestBridgeCancels(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	b := newBridged(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "tools/call"):
			writeEvents(w, ": keepalive")
			<-r.Context().Done()
			close(gone)
		case strings.Contains(string(body), "cancelled"):
			w.WriteHeader(http.StatusAccepted)
		default:
			writeEvents(w, `data: {"jsonrpc":"2.0","id":8,"result":{}}`)
		}
	})
	b.writeLine(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`)
	<-b.arrived
	b.writeLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	<-gone
	b.writeLine(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	b.wantLine(`{"jsonrpc":"2.0","id":8,"result":{}}`)
}

// TestBridgeEnds: at the end of input, running requests are answered, and held responses are closed.
func TestBridgeEnds(t *testing.T) {
	t.Parallel()
	release, gone := make(chan struct{}), make(chan struct{})
	b := newBridged(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "held") {
			writeEvents(w, ": keepalive", `data: {"jsonrpc":"2.0","method":"notifications/progress"}`)
			<-r.Context().Done()
			close(gone)
			return
		}
		<-release
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
	b.writeLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"held"}}`)
	b.wantLine(`{"jsonrpc":"2.0","method":"notifications/progress"}`)
	<-b.arrived
	b.writeLine(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	<-b.arrived
	b.in.Close()
	<-gone
	close(release)
	b.wantLine(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
}

// TestBridgeClientGone: the session ends with the client.
func TestBridgeClientGone(t *testing.T) {
	t.Parallel()
	b := newBridged(t, client.Config{}, serveSessions(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		writeEvents(w, `data: {"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	b.writeLine(initialize)
	b.wantLine(initialized)
	b.outEnd.Close()
	b.writeLine(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if err := <-b.ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it ends with %v", err)
	}
	if got := b.listRequests(); got[len(got)-1].method != http.MethodDelete {
		t.Errorf("the last request is %v", got[len(got)-1])
	}
}
