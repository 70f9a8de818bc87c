package mcpserver_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// For any body there is no panic and no internal error, and the answer is JSON.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		callBody("1", "echo", `{"a":[1,"\ud83d\ude00",{"b":null}]}`), callBody(`"\u0061"`, "gated", `{}`), listBody,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x","capabilities":{},"clientInfo":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `[{}]`, `{"id":1}`, "\xff", `{"params":`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"call_id":7},"_meta":{"progressToken":1}}}`,
	} {
		f.Add(body, false)
		f.Add(body, true)
	}
	agents := newFakeAgents(f, echoTool, gateTool)
	server, err := mcpserver.New(mcpserver.Config{
		Calls:  &stubCalls{Call: call.Call{ID: uuid.New(), Status: call.Succeeded, Result: json.RawMessage(echoResult)}},
		Agents: agents, Catalog: agents, Identity: fakeIdentity{}, Limits: &fakeLimits{}, Resources: &fakeResources{}, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), PublicURL: "http://localhost",
	})
	if err != nil {
		f.Fatal(err)
	}
	mux := http.NewServeMux()
	server.Mount(mux)
	f.Fuzz(func(t *testing.T, body string, newest bool) {
		r := httptest.NewRequest(http.MethodPost, "/agents/billing/mcp", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer key-billing")
		if newest {
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "tools/call")
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code >= 500 || strings.Contains(w.Body.String(), "internal error") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("not JSON: %s", w.Body)
		}
	})
}
