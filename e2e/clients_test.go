package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// withKey adds an agent's key to each request.
type withKey struct{ key string }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Agent-API-Key", k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// TestGoSDKClient: the official Go SDK, with the newest revision, lists tools, makes a call and waits for its approval,
// and gets progress meanwhile.
func TestGoSDKClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, strings.Replace(oneSkill(counting.URL, ""), "wait_budget: 2s", "wait_budget: 1m", 1))
	var progress atomic.Int64
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress.Add(1) },
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint:   p.URL + "/agents/worker/mcp",
		HTTPClient: &http.Client{Transport: withKey{w.newAgent(p, "worker").Key}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 2 {
		t.Fatalf("it lists %+v, %v", tools, err)
	}
	type ended struct {
		result *mcp.CallToolResult
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "counting__record", Arguments: map[string]int{"n": 1}}
		params.SetProgressToken("token")
		result, err := session.CallTool(t.Context(), params)
		done <- ended{result, err}
	}()
	eventually.Succeeds(t, patience, "progress while the call waits", func() error {
		if progress.Load() == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	if err := <-approveUntilDecided(t, "1", newStubborn(holdpoint.Agent{}, p)); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil || got.result.IsError || len(got.result.Content) != 1 {
		t.Fatalf("the call ended with %+v, %v", got.result, got.err)
	}
	if text, ok := got.result.Content[0].(*mcp.TextContent); !ok || text.Text != "recorded 1" {
		t.Errorf("the call ended with %+v", got.result.Content[0])
	}
}

// TestSessionOutlivesItsProcess: any process can serve any session.
func TestSessionOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	first, second := w.startServer(), w.startServer()
	w.applyManifest(first, oneSkill(counting.URL, "auto_approve: true\n"))
	agent := w.newAgent(first, "worker")
	bearer := http.Header{"Authorization": {"Bearer " + agent.Key}}
	_, header, err := holdpoint.Post(t.Context(), first.URL+"/agents/worker/mcp", bearer, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`)
	if err != nil || header.Get("Mcp-Session-Id") == "" {
		t.Fatalf("initialize: session %q, %v", header.Get("Mcp-Session-Id"), err)
	}
	first.Kill()
	bearer.Set("Mcp-Session-Id", header.Get("Mcp-Session-Id"))
	bearer.Set("MCP-Protocol-Version", "2025-11-25")
	answer, _, err := holdpoint.Post(t.Context(), second.URL+"/agents/worker/mcp", bearer, "tools/call",
		`{"name":"counting__record","arguments":{"n":1}}`)
	if err != nil || answer.Text() != "recorded 1" {
		t.Errorf("the other process answers %s, %v", answer.Raw, err)
	}
	bearer.Set("Mcp-Session-Id", "01890000-0000-7000-8000-000000000000")
	_, _, err = holdpoint.Post(t.Context(), second.URL+"/agents/worker/mcp", bearer, "tools/list", `{}`)
	var refused *holdpoint.RefusedError
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("a session that never was: %v, want 404", err)
	}
}

// TestCommands: each command has help.
func TestCommands(t *testing.T) {
	t.Parallel()
	c := holdpoint.CLI{Program: program, URL: "http://127.0.0.1:1"}
	for _, command := range []string{
		"", "demo", "serve", "apply", "agent", "agent key", "agent key create", "token", "token create", "tools", "call", "connect",
		"approvals", "approvals list", "approvals show", "approvals approve", "approvals reject", "migrate", "doctor", "version",
		"completion bash",
	} {
		args := append(strings.Fields(command), "--help")
		if out := c.Must(t, args...); !strings.Contains(out, "holdpoint "+command) {
			t.Errorf("holdpoint %s --help prints\n%s", command, out)
		}
	}
	if out := c.Must(t, "completion", "bash"); !strings.Contains(out, "complete") {
		t.Errorf("holdpoint completion bash prints\n%.300s", out)
	}
	c.Must(t, "version")
	if ran := c.Run(t, "approvals", "list"); ran.Code != 1 || !strings.Contains(ran.Stderr, "127.0.0.1:1") {
		t.Errorf("without a server: exit code %d\n%s", ran.Code, ran.Stderr)
	}
	if ran := c.Run(t, "nosuch"); ran.Code != 1 {
		t.Errorf("an unknown command: exit code %d, want 1", ran.Code)
	}
}
