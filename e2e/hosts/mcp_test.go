//go:build hosts

package hosts_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// asksTool is a way in which Claude Code asks a tool of Holdpoint's MCP endpoint: docs/coding-agents.md has the settings.
type asksTool struct {
	name string
	tool string
	mode mode
	// allows and refuses are answers of the tool.
	allows, refuses string
	timeout         int // of the hooks, in seconds; 0: a day
}

func waysToAskTools() []asksTool {
	hook, e := host.FindHook(host.ClaudeCode), &host.Event{}
	approved, rejected := host.Verdict{Allow: true, Reason: "Approved by rita."}, host.Verdict{Reason: "Rejected by rita."}
	allowsPermission := strings.Replace(string(host.AnswerPermission(approved, &host.Event{Arguments: []byte("{}")})), `,"updatedInput":{}`, "", 1)
	return []asksTool{
		{"mcp_tool", "hook", mode{"bypassPermissions", []string{"--permission-mode", "bypassPermissions"}}, string(hook.Answer(approved)), string(hook.Answer(rejected)), 0},
		{
			"--permission-prompt-tool", "permission",
			mode{"default", []string{"--permission-prompt-tool", "mcp__holdpoint__permission"}},
			allowsPermission, string(host.AnswerPermission(rejected, e)), 0,
		},
	}
}

// serverNamed returns MCP settings with a server that has the tools.
func serverNamed(name, url string) string {
	return encode(object{"mcpServers": object{name: object{"type": "http", "url": url, "headers": object{"Authorization": "Bearer ${HOLDPOINT_KEY}"}}}})
}

// install writes the settings with which Claude Code asks the tool at an address.
func (w *asksTool) install(r *run, url string) {
	r.writeFile(filepath.Join(r.home, "mcp.json"), serverNamed("holdpoint", url))
	r.writeFile(filepath.Join(r.home, ".claude/settings.json"), w.settings())
}

// settings returns the settings with the hooks.
func (w *asksTool) settings() string {
	input := object{}
	for _, name := range []string{
		"hook_event_name", "tool_name", "tool_input", "tool_use_id", "session_id", "cwd", "agent_type", "tool_response", "error",
	} {
		input[name] = "${" + name + "}"
	}
	hook := []any{object{"hooks": []any{object{
		"type": "mcp_tool", "server": "holdpoint", "tool": "hook", "input": input, "timeout": cmp.Or(w.timeout, day), "onFailure": "block",
	}}}}
	hooks := object{"PostToolUse": hook, "PostToolUseFailure": hook}
	if w.tool == "hook" {
		hooks["PreToolUse"] = hook
	}
	return encode(object{"hooks": hooks})
}

// claudeWithKey is Claude Code with a key in its environment.
func claudeWithKey(key string) agent {
	a := claudeCode()
	plain := a.command
	a.command = func(r *run, m mode) ([]string, []string) {
		args, env := plain(r, m)
		return args, append(env, "HOLDPOINT_KEY="+strings.TrimSpace(key))
	}
	return a
}

// claudeCode is Claude Code with the key of its agent at the server.
func (s *server) claudeCode(t *testing.T) agent {
	t.Helper()
	key, err := os.ReadFile(s.keys[host.ClaudeCode])
	if err != nil {
		t.Fatal(err)
	}
	return claudeWithKey(string(key))
}

// TestToolDecisions lets Claude Code ask the tools of a real server: a call runs after an approval only, and not while the server is down.
func TestToolDecisions(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	a := s.claudeCode(t)
	for _, way := range waysToAskTools() {
		start := func(t *testing.T, url, name string) *run {
			t.Helper()
			r := newRun(t, a, newModel(t, a.shell("echo hi > "+name)))
			way.install(r, url+"/agents/with-claude-code/hooks/claude-code/mcp?wait=3600")
			r.start(way.mode)
			return r
		}
		for _, approve := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", way.name, approve), func(t *testing.T) {
				t.Parallel()
				name := fmt.Sprintf("tool-%s-%t", way.tool, approve)
				r := start(t, s.URL, name)
				d := &decided{s.pending(t, r, name), approve, "not on a Thursday", func() bool { return r.hasFile(name) }}
				s.decide(t, r, d)
				s.wantDecided(t, r, d)
			})
		}
		t.Run(way.name+"/away", func(t *testing.T) {
			t.Parallel()
			r := start(t, "http://127.0.0.1:1", "away")
			r.wait()
			// Without its permission tool, Claude Code does not start.
			if r.hasFile("away") || r.model.toldResults() == "" && !strings.Contains(r.output.String(), "mcp__holdpoint__permission") {
				t.Errorf("the tool ran: %t; the model was told %s; it printed %s", r.hasFile("away"), r.model.toldResults(), r.output.String())
			}
		})
	}
}

// TestToolOfAnotherServer lets a user add a server of the same name, which allows all. Only a file of the machine with all MCP servers holds.
func TestToolOfAnotherServer(t *testing.T) {
	t.Parallel()
	way := waysToAskTools()[0]
	for _, isHeld := range []bool{true, false} {
		t.Run(strconv.FormatBool(isHeld), func(t *testing.T) {
			t.Parallel()
			a := claudeWithKey("key")
			r := newRun(t, a, newModel(t, a.shell("echo hi > "+markOf(0, kindShell))))
			r.copyEtc()
			r.writeFile(r.settingsFile(), way.settings())
			if isHeld {
				refuses := newFaultyTools(t, way.tool, []toolFailure{{text: way.refuses}})
				r.writeFile(r.inEtc("/etc/claude-code/managed-mcp.json"), serverNamed("holdpoint", refuses.URL))
			}
			r.writeFile(filepath.Join(r.home, "mcp.json"), serverNamed("holdpoint", newFaultyTools(t, way.tool, []toolFailure{{text: way.allows}}).URL))
			r.start(way.mode)
			r.wait()
			if ran := r.has(kindShell, 0); ran == isHeld {
				t.Errorf("the tool ran: %t; it printed %s; its model was told %s", ran, r.output.String(), r.model.toldResults())
			}
		})
	}
}

// TestToolFailures lets Claude Code ask a tool whose server fails, or a proxy before it.
func TestToolFailures(t *testing.T) {
	t.Parallel()
	for _, way := range waysToAskTools() {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			way.timeout = 60
			a, list := claudeCode(), way.failures()
			var steps []step
			for i := range list {
				steps = append(steps, a.shell("echo hi > "+markOf(i, kindShell)))
			}
			r := newRun(t, a, newModel(t, steps...))
			way.install(r, newFaultyTools(t, way.tool, list).URL)
			r.start(way.mode)
			r.wait()
			for i, f := range list {
				if ran := r.has(kindShell, i); ran != (f.runs != nil) {
					t.Errorf("%s: the tool ran: %t", f.name, ran)
				}
			}
			if last := markOf(len(list)-1, kindShell); !r.model.wasTold(last) {
				t.Errorf("the model was not told of %s; it printed %s", last, r.output.String())
			}
			if t.Failed() {
				t.Logf("it printed %s; its model was told %s", r.output.String(), r.model.toldResults())
			}
		})
	}
}

// toolFailure is a failure of the server. Its text is the answer of the tool if there is no HTTP answer.
type toolFailure struct {
	failure

	text    string
	isError bool
}

func (w *asksTool) failures() []toolFailure {
	runs := []string{host.ClaudeCode}
	control := toolFailure{failure: failure{name: "allowed (the control)", runs: runs}, text: w.allows}
	list := []toolFailure{
		control,
		{failure: failure{name: "rejected"}, text: w.refuses},
		{failure: failure{name: "error of the tool"}, text: w.allows, isError: true},
		{failure: failure{name: "garbage"}, text: "<html>" + w.allows},
		{failure: failure{name: "unknown decision"}, text: strings.Replace(w.allows, `"allow"`, `"perhaps"`, 1)},
		{failure: failure{name: "ask"}, text: strings.Replace(w.allows, `"allow"`, `"ask"`, 1)},
		{failure: failure{name: "HTTP 500", answer: say(500, w.allows)}},
		{failure: failure{name: "HTTP 503", answer: say(503, w.allows)}},
		{failure: failure{name: "redirect", answer: say(302, w.allows)}},
		{failure: failure{name: "HTTP 401", answer: say(401, w.allows)}},
		{failure: failure{name: "HTTP 403", answer: say(403, w.allows)}},
		{failure: failure{name: "HTTP 429", answer: say(429, w.allows)}},
		{failure: failure{name: "HTTP 200, garbage", answer: say(200, "<html>")}},
		{failure: failure{name: "HTTP 200, `{}`", answer: say(200, "{}")}},
		{failure: failure{name: "connection reset", answer: cutOff}},
	}
	nothing, empty := toolFailure{failure: failure{name: "nothing"}}, toolFailure{failure: failure{name: "`{}`"}, text: "{}"}
	if w.tool == "hook" {
		nothing.runs, empty.runs = runs, runs
		list = append(list, toolFailure{failure: failure{name: "no answer until the timeout", answer: hang}})
	}
	list = append(list, nothing, empty)
	return append(list, control) // the failures before it did not end the connection
}

// newFaultyTools is an MCP server with one tool whose calls fail as their marks say.
func newFaultyTools(t *testing.T, tool string, list []toolFailure) *httptest.Server {
	t.Helper()
	find := func(text string) *toolFailure {
		found := mark.FindStringSubmatch(text)
		if found == nil {
			return nil
		}
		number, _ := strconv.Atoi(found[1]) // it has two digits
		return &list[number]
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "faulty", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: tool, InputSchema: object{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		f := find(string(r.Params.Arguments))
		if f == nil {
			return nil, fmt.Errorf("no mark in %s", r.Params.Arguments)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: f.text}}, IsError: f.isError}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	faulty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if f := find(string(body)); f != nil && f.answer != nil {
			f.answer(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		faulty.CloseClientConnections()
		faulty.Close()
	})
	return faulty
}
