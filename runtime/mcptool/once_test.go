package mcptool_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

type act = func(http.ResponseWriter, *http.Request, message)

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request, _ message) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
}

// resetConnection closes it with a RST.
func resetConnection(w http.ResponseWriter, _ *http.Request, _ message) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// waitForClient waits until the client leaves.
func waitForClient(_ http.ResponseWriter, r *http.Request, _ message) { <-r.Context().Done() }

func answerStatus(code int, contentType, body string) act {
	return func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// withBehavior returns a context for a call to a server with this behavior. If the server hangs, the time runs out once the
// call has arrived.
func withBehavior(t testing.TB, name string, does act) (context.Context, act) {
	t.Helper()
	if name != "hangs" {
		return withTimeout(t, time.Minute), does
	}
	ctx, end := context.WithCancelCause(t.Context())
	t.Cleanup(func() { end(nil) })
	return ctx, func(w http.ResponseWriter, r *http.Request, m message) {
		end(context.DeadlineExceeded)
		does(w, r, m)
	}
}

func TestCallIsNotSentAgainAfterTheFirstByte(t *testing.T) {
	t.Parallel()
	ends := map[string]act{
		"closes":             hangUp,
		"resets":             resetConnection,
		"hangs":              waitForClient,
		"answers 500":        answerStatus(500, "text/html", "<h1>oops</h1>"),
		"answers 500 in RPC": answerStatus(500, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Internal error"}}`),
		"answers 503":        answerStatus(503, "text/plain", "try later"),
		"closes in the middle": func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0",`))
			_ = http.NewResponseController(w).Flush()
			hangUp(w, r, m)
		},
		"closes in the middle of an event": func(w http.ResponseWriter, r *http.Request, m message) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: {\"jsonrpc\":\"2.0\",\"id\""))
			_ = http.NewResponseController(w).Flush()
			hangUp(w, r, m)
		},
		"ends the stream early": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n"))
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{session: "s1"}
			skill := httpSkill(upstream.serve(t).URL)
			skill.Headers = map[string]string{"Idempotency-Key": "k", "X-Idempotency-Key": "k"} // net/http repeats such requests
			s := newSource(t, mcptool.Config{})
			callTool(t, s, skill, "echo", `{}`) // so that the next call uses a kept connection
			ctx, end := withBehavior(t, name, end)
			upstream.mu.Lock()
			upstream.at = map[string]act{"tools/call": end}
			upstream.mu.Unlock()
			f := failCall(ctx, t, s, skill)
			if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if n := upstream.countRequests("tools/call"); n != 2 {
				t.Errorf("%d calls arrived, want the first and this one", n)
			}
			upstream.mu.Lock()
			upstream.at = nil
			upstream.mu.Unlock()
			callTool(t, s, skill, "echo", `{}`)
			if n := upstream.countRequests("initialize"); n != 1 {
				t.Errorf("%d sessions, want the first to be kept", n)
			}
		})
	}
}

func TestTimedOutCallIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, arrived := withBehavior(t, "hangs", waitForClient)
	upstream := &script{session: "s1", at: map[string]act{"tools/call": arrived}}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	if _, err := s.List(t.Context(), skill); err != nil { // connects
		t.Fatal(err)
	}
	failCall(ctx, t, s, skill)
	eventually.Holds(t, "the server is told", func() bool { return upstream.countRequests("notifications/cancelled") == 1 })
	if id := string(upstream.lastRequest("tools/call").ID); !strings.Contains(string(upstream.lastRequest("notifications/cancelled").Params), `"requestId":`+id) {
		t.Errorf("cancelled %s, called %s", upstream.lastRequest("notifications/cancelled").Params, id)
	}
}

func TestRefusedConnectionHasNoEffect(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(&script{session: "s1"})
	skill := httpSkill(upstream.URL)
	s := newSource(t, mcptool.Config{})
	callTool(t, s, skill, "echo", `{}`)
	upstream.CloseClientConnections()
	upstream.Close()
	// The first call may still use the kept connection. Each effect is either none or possible.
	failCall(t.Context(), t, s, skill)
	f := failCall(t.Context(), t, s, skill)
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
}

// TestKeptConnectionThatClosed: the server closes an idle connection. The next call uses a new one.
func TestKeptConnectionThatClosed(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1"}
	h := upstream.serve(t)
	skill := httpSkill(h.URL)
	s := newSource(t, mcptool.Config{})
	for range 20 {
		callTool(t, s, skill, "echo", `{}`)
		h.CloseClientConnections()
		f, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo"})
		if err != nil && asFailure(t, err).Effect != tool.EffectPossible {
			t.Errorf("an unsent call failed: %v %v", err, f)
		}
	}
	if n := upstream.countRequests("tools/call"); n > 40 {
		t.Errorf("%d calls arrived, want 40", n)
	}
}

func TestSessionIsMadeAnewOn404(t *testing.T) {
	t.Parallel()
	forgotten := answerStatus(404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		left := 1
		upstream := &script{session: "s1"}
		upstream.at = map[string]act{"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
			mu.Lock()
			again := left > 0
			left--
			mu.Unlock()
			if again {
				forgotten(w, r, m)
				return
			}
			upstream.standard(w, m)
		}}
		s := newSource(t, mcptool.Config{})
		callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
		if calls, sessions := upstream.countRequests("tools/call"), upstream.countRequests("initialize"); calls != 2 || sessions != 2 {
			t.Errorf("%d calls, %d sessions", calls, sessions)
		}
	})
	t.Run("always", func(t *testing.T) {
		t.Parallel()
		upstream := &script{session: "s1", at: map[string]act{"tools/call": forgotten}}
		s := newSource(t, mcptool.Config{})
		f := failCall(t.Context(), t, s, httpSkill(upstream.serve(t).URL))
		if f.Kind != tool.SessionInvalid || f.Effect != tool.EffectNone {
			t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
		}
		if calls, sessions := upstream.countRequests("tools/call"), upstream.countRequests("initialize"); calls != 2 || sessions != 2 {
			t.Errorf("%d calls, %d sessions", calls, sessions)
		}
	})
}

// TestManyCallsMeetALostSession: all calls share one new session.
func TestManyCallsMeetALostSession(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	session := "s1"
	upstream := &script{}
	upstream.at = map[string]act{
		"initialize": func(w http.ResponseWriter, _ *http.Request, m message) {
			mu.Lock()
			w.Header().Set("Mcp-Session-Id", session)
			mu.Unlock()
			upstream.standard(w, m)
		},
		"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
			mu.Lock()
			known := r.Header.Get("Mcp-Session-Id") == session
			mu.Unlock()
			if !known {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			upstream.standard(w, m)
		},
	}
	skill := httpSkill(upstream.serve(t).URL)
	s := newSource(t, mcptool.Config{})
	callTool(t, s, skill, "echo", `{}`)
	mu.Lock()
	session = "s2" // the server was restarted
	mu.Unlock()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if _, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := upstream.countRequests("initialize"); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}
