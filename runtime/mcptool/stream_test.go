package mcptool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// startEvents starts an event stream and returns a function that writes to it.
func startEvents(w http.ResponseWriter) func(string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	return func(text string) {
		_, _ = fmt.Fprint(w, text)
		_ = flush.Flush()
	}
}

// TestServerTalksBeforeItAnswers: notifications, a ping, an unsupported request, unknown events and comments precede
// the answer.
func TestServerTalksBeforeItAnswers(t *testing.T) {
	t.Parallel()
	pinged, refused := make(chan message, 1), make(chan message, 1)
	upstream := &script{session: "s1", at: map[string]act{
		"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
			write := startEvents(w)
			write(": comment\nretry: 10\n\nid: 7\ndata:\n\nevent: endpoint\ndata: /other\n\n")
			write("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1}}\n\n")
			write("data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\n")
			write("data: {\"jsonrpc\":\"2.0\",\"id\":\"p-1\",\"method\":\"ping\"}\n\n")
			got := <-pinged
			if string(got.Result) != "{}" || got.header.Get("Mcp-Session-Id") != "s1" || got.header.Get("Mcp-Protocol-Version") != "2025-11-25" {
				t.Errorf("pong %s %v", got.body, got.header)
			}
			write("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n")
			if got := <-refused; !strings.Contains(string(got.Error), "-32601") {
				t.Errorf("refusal %s", got.body)
			}
			write("event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":" + string(m.ID) + ",\"result\":{\"content\":[]}}\n\n")
			<-r.Context().Done() // the server keeps the stream open
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m message) {
			if string(m.ID) == `"p-1"` {
				pinged <- m
			} else {
				refused <- m
			}
			w.WriteHeader(http.StatusAccepted)
		},
	}}
	s := newSource(t, mcptool.Config{})
	got := callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
	if string(got.Raw) != `{"content":[]}` {
		t.Errorf("got %s", got.Raw)
	}
}

func TestInterruptedStreamIsResumed(t *testing.T) {
	t.Parallel()
	var id atomic.Pointer[string]
	upstream := &script{session: "s1", at: map[string]act{
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
			text := string(m.ID)
			id.Store(&text)
			startEvents(w)("id: a_1\nretry: 10\ndata:\n\n")
		},
		"GET": func(w http.ResponseWriter, r *http.Request, _ message) {
			write := startEvents(w)
			switch r.Header.Get("Last-Event-ID") {
			case "a_1":
				write("id: a_2\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
			case "a_2":
				write("data: {\"jsonrpc\":\"2.0\",\"id\":" + *id.Load() + ",\"result\":{\"content\":[1]}}\n\n")
			}
		},
	}}
	s := newSource(t, mcptool.Config{})
	got := callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
	if string(got.Raw) != `{"content":[1]}` {
		t.Errorf("got %s", got.Raw)
	}
	if n := upstream.countRequests("tools/call"); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
}

func TestStreamThatCannotBeResumed(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]act{
		"refused":     answerStatus(405, "", ""),
		"never moves": func(w http.ResponseWriter, _ *http.Request, _ message) { startEvents(w)("retry: 1\n\n") },
		"closes":      hangUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{session: "s1", at: map[string]act{
				"tools/call": func(w http.ResponseWriter, _ *http.Request, _ message) { startEvents(w)("id: 1\nretry: 1\ndata:\n\n") },
				"GET":        get,
			}}
			s := newSource(t, mcptool.Config{})
			f := failCall(withTimeout(t, 20*time.Second), t, s, httpSkill(upstream.serve(t).URL))
			if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if n := upstream.countRequests("tools/call"); n != 1 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

// TestListChangedIsPassedOn covers both eras, and stdio.
func TestListChangedIsPassedOn(t *testing.T) {
	t.Parallel()
	changed := make(chan uuid.UUID, 1024)
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), ListChanged: func(id uuid.UUID) { changed <- id }})
	for name, options := range listEras() {
		server := echoServer()
		skill := httpSkill(serve(t, server, options).URL)
		callTool(t, s, skill, "echo", `{}`)
		n := 0
		// The stream opens in the background, so add tools until an announcement arrives.
		eventually.Holds(t, name, func() bool {
			n++
			addEcho(server, fmt.Sprint("other", n))
			return awaitAnnouncement(changed, skill.SkillID)
		})
	}
	for _, mode := range []string{"mirror", "changing"} {
		skill := childSkill(t, mode)
		eventually.Holds(t, mode, func() bool { // the child may not listen yet either
			callTool(t, s, skill, "change", `{}`)
			return awaitAnnouncement(changed, skill.SkillID)
		})
	}
}

// awaitAnnouncement reports whether an announcement of the skill arrives shortly. It skips those of other skills.
func awaitAnnouncement(changed <-chan uuid.UUID, skill uuid.UUID) bool {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case id := <-changed:
			if id == skill {
				return true
			}
		case <-timer.C:
			return false
		}
	}
}

// TestListenerHarmsNothing: connecting and calling work, whatever the server does with the stream.
func TestListenerHarmsNothing(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]act{
		"hangs":  waitForClient,
		"405":    answerStatus(405, "", ""),
		"404":    answerStatus(404, "text/plain", "no session"),
		"500":    answerStatus(500, "", ""),
		"HTML":   answerStatus(200, "text/html", "<html>"),
		"closes": hangUp,
		"ends":   func(w http.ResponseWriter, _ *http.Request, _ message) { startEvents(w)(": bye\n\n") },
		"floods": func(w http.ResponseWriter, r *http.Request, _ message) {
			write := startEvents(w)
			for r.Context().Err() == nil {
				write("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{session: "s1", at: map[string]act{"GET": get}}
			s := newSource(t, mcptool.Config{ListChanged: func(uuid.UUID) {}})
			skill := httpSkill(upstream.serve(t).URL)
			callTool(t, s, skill, "echo", `{}`)
			eventually.Holds(t, "the stream is asked for", func() bool { return upstream.countRequests("GET") > 0 })
			for range 5 {
				callTool(t, s, skill, "echo", `{}`)
			}
			if n := upstream.countRequests("initialize"); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// TestWhatIsOffered: a session declares the capabilities of all callers; since 2026-07-28, a request declares those of
// its caller.
func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	capabilities := func(text json.RawMessage) string {
		var params struct {
			Capabilities map[string]any
			ClientInfo   mcp.Implementation
			Meta         map[string]any `json:"_meta"`
		}
		if err := json.Unmarshal(text, &params); err != nil {
			t.Fatal(err)
		}
		of := any(params.Capabilities)
		if params.Meta != nil {
			of = params.Meta["io.modelcontextprotocol/clientCapabilities"]
		} else if params.ClientInfo.Name != "holdpoint" {
			t.Errorf("client %+v", params.ClientInfo)
		}
		sorted, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		return string(sorted)
	}
	s := newSource(t, mcptool.Config{})
	upstream := &script{}
	callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
	if got := capabilities(upstream.lastRequest("initialize").Params); got != `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}` {
		t.Errorf("initialize %s", got)
	}
	if got := string(upstream.lastRequest("tools/call").Params); strings.Contains(got, "_meta") {
		t.Errorf("call %s", got)
	}
	upstream = newModernServer(answerInTurn(complete))
	skill := httpSkill(upstream.serve(t).URL)
	if _, err := s.List(t.Context(), skill); err != nil {
		t.Fatal(err)
	}
	const tasks = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
	if got := capabilities(upstream.lastRequest("tools/list").Params); got != "{"+tasks+"}" {
		t.Errorf("list %s", got)
	}
	caller := refuseQuestions(t)
	caller.Capabilities = json.RawMessage(` {"sampling":{"tools":{}}}`)
	callFor(t, s, skill, "echo", `{}`, caller)
	if got := capabilities(upstream.lastRequest("tools/call").Params); got != "{"+tasks+`,"sampling":{"tools":{}}}` {
		t.Errorf("call %s", got)
	}
	caller.Ask = nil
	callFor(t, s, skill, "echo", `{}`, caller)
	if got := capabilities(upstream.lastRequest("tools/call").Params); got != "{"+tasks+"}" {
		t.Errorf("call of a caller without answers: %s", got)
	}
}

// TestConnectionsAreKept: consecutive calls use one connection, even if answers are streams.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	for name, options := range listEras() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			peers := map[string]bool{}
			server := echoServer()
			inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
			h := serveHandler(t, server, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				peers[r.RemoteAddr] = true
				mu.Unlock()
				inner.ServeHTTP(w, r)
			}))
			s := newSource(t, mcptool.Config{})
			skill := httpSkill(h.URL)
			for range 50 {
				callTool(t, s, skill, "echo", `{}`)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(peers) > 10 {
				t.Errorf("%d connections for 50 calls", len(peers))
			}
		})
	}
}
