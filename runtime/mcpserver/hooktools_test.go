package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/limit"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

const hookTools = "http://hold.example.com/agents/billing/hooks/claude-code/mcp?skill=laptop"

// toolMessage is the message of Claude Code to the tool of a hook: its input is a text.
func toolMessage(event string) map[string]any {
	return map[string]any{
		"hook_event_name": event, "tool_name": "Bash", "tool_input": `{"command":"ls","n":1.0}`, "tool_use_id": "toolu_1", "session_id": "s", "cwd": "/w",
		"agent_type": "", "tool_response": `{"stdout":"hi"}`, "error": "",
	}
}

// ask calls a tool with a message, and returns its text.
func ask(t *testing.T, session *mcp.ClientSession, name string, arguments any) string {
	t.Helper()
	p := &mcp.CallToolParams{Name: name, Arguments: arguments}
	p.SetProgressToken("p")
	result, err := session.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError || result.StructuredContent != nil || len(result.Content) != 1 {
		t.Fatalf("%+v: must be one text", result)
	}
	return result.Content[0].(*mcp.TextContent).Text
}

// TestHookTools asks the two tools with the official client in every era, and reports outcomes.
func TestHookTools(t *testing.T) {
	for _, version := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T) {
				b := newBench(t)
				var heard atomic.Int32
				session := b.connectTo(t.Context(), hookTools, version, &mcp.ClientOptions{
					ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { heard.Add(1) },
				})
				list, err := session.ListTools(t.Context(), nil)
				if err != nil || len(list.Tools) != 2 {
					t.Fatal(list, err)
				}
				permission := map[string]any{"tool_name": "Bash", "input": json.RawMessage(`{"command":"ls","n":1.0}`), "tool_use_id": "toolu_2"}
				id := uuid.New()
				b.calls.passage = call.Passage{ID: id, Allowed: true, Message: "go"}
				b.calls.waitEnds = func(wait context.Context) { _ = pause.For(wait, time.Minute) }
				if said := decodeJSON(t, ask(t, session, "hook", toolMessage("PreToolUse"))); memberAt(said, "hookSpecificOutput", "permissionDecision") != "allow" {
					t.Error(said)
				}
				if heard.Load() < 3 {
					t.Errorf("%d signs of life in a minute", heard.Load())
				}
				b.calls.waitEnds = nil
				if said := ask(t, session, "permission", permission); said != `{"behavior":"allow","updatedInput":{"command":"ls","n":1.0}}` {
					t.Error(said)
				}
				for i, directory := range []string{"/w", ""} {
					if sub := b.calls.asked[i]; string(sub.Arguments) != `{"command":"ls","n":1.0}` || sub.Gate.Directory != directory || sub.Gate.Host != "claude-code" {
						t.Errorf("submitted %+v %s", sub.Gate, sub.Arguments)
					}
				}
				after := toolMessage("PostToolUse")
				for _, callID := range []string{"toolu_1", "toolu_2"} {
					after["tool_use_id"] = callID
					if said := ask(t, session, "hook", after); said != "{}" {
						t.Error(said)
					}
				}
				if len(b.calls.reports) != 2 || !strings.HasSuffix(b.calls.reports[1], ` succeeded {"stdout":"hi"}`) {
					t.Errorf("reported %q", b.calls.reports)
				}
				b.calls.passage = call.Passage{ID: id, Message: "not today", Final: true}
				if said := ask(t, session, "permission", permission); said != `{"behavior":"deny","message":"not today"}` {
					t.Error(said)
				}
			})
		})
	}
}

// TestPermissionsOfTwoSessions: a model repeats the id of a call in two sessions, and each outcome is stored for the call of its session.
func TestPermissionsOfTwoSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	permission := map[string]any{"tool_name": "Bash", "input": map[string]any{"command": "ls"}, "tool_use_id": "toolu_1"}
	var sessions []*mcp.ClientSession
	var calls []uuid.UUID
	for range 2 {
		session, id := b.connectTo(t.Context(), hookTools, "2025-11-25", nil), uuid.New()
		b.calls.passage = call.Passage{ID: id, Allowed: true}
		ask(t, session, "permission", permission)
		sessions, calls = append(sessions, session), append(calls, id)
	}
	for i, session := range sessions {
		ask(t, session, "hook", toolMessage("PostToolUse"))
		if len(b.calls.reports) != i+1 || !strings.HasPrefix(b.calls.reports[i], calls[i].String()) {
			t.Errorf("session %d: reported %q, want call %s", i, b.calls.reports, calls[i])
		}
	}
}

// TestHookToolsFailClosed refuses explicitly whatever goes wrong: without onFailure, Claude Code takes errors for consent.
func TestHookToolsFailClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.passage = call.Passage{ID: uuid.New(), Allowed: true}
	session := b.connectTo(t.Context(), hookTools, "2025-11-25", nil)
	refuses := func(name string, arguments any, reason string) {
		t.Helper()
		said := ask(t, session, name, arguments)
		v := decodeJSON(t, said)
		if memberAt(v, "hookSpecificOutput", "permissionDecision") != "deny" && memberAt(v, "behavior") != "deny" || !strings.Contains(said, reason) {
			t.Errorf("%s %v: %s, want a refusal because of %s", name, arguments, said, reason)
		}
	}
	refuses("hook", map[string]any{}, "tool_input: must be an object")
	refuses("hook", toolMessage("Stop"), "hook_event_name: must be PreToolUse")
	message := toolMessage("PreToolUse")
	message["tool_input"] = `{"command":"a","command":"b"}`
	refuses("hook", message, "duplicate")
	message["tool_input"] = "${tool_input}"
	refuses("hook", message, "tool_input")
	refuses("permission", map[string]any{"input": map[string]any{}}, "tool_name: must not be empty")
	refuses("permission", map[string]any{"tool_name": "Bash", "input": "ls"}, "input: must be an object")
	b.calls.err = errors.New("secret of the database")
	refuses("permission", map[string]any{"tool_name": "Bash", "input": map[string]any{}}, "internal error")
	b.calls.err = nil
	b.agents.agents["billing"].Limits = agent.Limits{CallsPerMinute: 60}
	b.limits.err = &limit.Exceeded{Kind: limit.Rate, Limit: 60, RetryAfter: time.Second}
	refuses("hook", toolMessage("PreToolUse"), "nothing was decided, try again in 1 s")
	b.limits.err = nil
	b.calls.waitEnds = func(context.Context) { panic("a bug") }
	refuses("hook", toolMessage("PreToolUse"), "internal error")
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "gate"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("an unknown tool: %v", err)
	}
	r := b.newRequest(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer key-other")
	r.URL.Path = "/agents/billing/hooks/claude-code/mcp"
	if a := b.sendRequest(r); a.status != http.StatusUnauthorized {
		t.Errorf("another agent's key: %d %s", a.status, a.body)
	}
}

// TestHookToolCancelled ends the wait of a call whose client cancels the request, as if it had left: the call goes on.
func TestHookToolCancelled(t *testing.T) {
	withFakeTime(t, func(t *testing.T) {
		var relayed []string
		b := newBench(t, func(cfg *mcpserver.Config) {
			cfg.Broadcast = func(_ context.Context, session uuid.UUID, request string) {
				relayed = append(relayed, session.String()+" "+request)
			}
		})
		post := func(body string, headers ...string) answer {
			r := b.newRequest(t.Context(), body, headers...)
			r.URL.Path, r.URL.RawQuery = "/agents/billing/hooks/claude-code/mcp", "skill=laptop"
			return b.sendRequest(r)
		}
		begin := func() []string {
			a := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			return []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
		}
		session, other := begin(), begin()
		cancel := func(id string, headers ...string) {
			t.Helper()
			if a := post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, headers...); a.status != http.StatusAccepted {
				t.Errorf("cancel: %d %s", a.status, a.body)
			}
		}
		const permission = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"permission","arguments":{"tool_name":"Bash","input":{"command":"ls"}}}}`
		id := uuid.New()
		for want, passage := range map[string]call.Passage{" left": {ID: id, Pending: true}, " not_run ": {ID: id, Allowed: true}} {
			b.calls.passage, b.calls.reports, relayed = passage, nil, nil
			b.calls.waitEnds = func(wait context.Context) {
				cancel("7")
				cancel("7", other...)
				cancel(`"7"`, session...)
				cancel("7", append(session, "Authorization", "Bearer token-ann")...)
				if wait.Err() != nil {
					t.Error("another client's notification ended the wait")
				}
				cancel("7", session...)
				<-wait.Done()
			}
			if a := post(permission, session...); a.status != http.StatusOK || strings.Contains(a.body, "result") {
				t.Errorf("answered a request that its client cancelled: %d %s", a.status, a.body)
			}
			if len(b.calls.reports) != 1 || !strings.HasSuffix(b.calls.reports[0], want) {
				t.Errorf("reported %q, want %q", b.calls.reports, want)
			}
			if len(relayed) != 3 {
				t.Errorf("told other processes %q, want the three of other requests", relayed)
			}
		}
		if a := post(permission, append(session, "Accept", "application/json")...); a.status != http.StatusNoContent || a.body != "" {
			t.Errorf("without a stream: %d %s", a.status, a.body)
		}
	})
}
