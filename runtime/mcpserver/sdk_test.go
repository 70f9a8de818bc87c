package mcpserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// withKey adds the agent's key to the SDK's requests.
type withKey struct{ next http.RoundTripper }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer key-billing")
	return k.next.RoundTrip(r)
}

func (b *bench) connect(ctx context.Context, version string, options *mcp.ClientOptions) *mcp.ClientSession {
	b.t.Helper()
	return b.connectTo(ctx, billing, version, options)
}

func (b *bench) connectTo(ctx context.Context, endpoint, version string, options *mcp.ClientOptions) *mcp.ClientSession {
	b.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, options)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: withKey{b.client.Transport}}, DisableStandaloneSSE: version == "",
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		b.t.Fatalf("connect: %v", err)
	}
	b.t.Cleanup(func() {
		if err := session.Close(); err != nil {
			b.t.Errorf("close: %v", err)
		}
	})
	return session
}

// The official client works unchanged, in every era.
func TestOfficialClient(t *testing.T) {
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T) {
				b := newBench(t)
				var heard []string
				session := b.connect(t.Context(), version, &mcp.ClientOptions{
					ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
						heard = append(heard, n.Params.Message)
					},
				})
				if got := session.InitializeResult().ProtocolVersion; got != version {
					t.Errorf("negotiated %s", got)
				}
				var names []string
				for tool, err := range session.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, tool.Name)
				}
				if got := strings.Join(names, " "); got != "files__echo files__gated files__slow files__head holdpoint_await" {
					t.Errorf("tools %s", got)
				}
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "files__echo", Arguments: map[string]any{"a": 1}})
				if err != nil || result.Content[0].(*mcp.TextContent).Text != `{"a":1}` {
					t.Errorf("echo: %v %v", result, err)
				}
				go func() {
					id := <-b.calls.arrived
					time.AfterFunc(25*time.Second, func() { b.calls.finishCall(id, succeedWith("done")) })
				}()
				params := &mcp.CallToolParams{Name: "files__gated", Arguments: map[string]any{}, Meta: mcp.Meta{}}
				params.SetProgressToken("p")
				result, err = session.CallTool(t.Context(), params)
				if err != nil || result.IsError || result.Meta["dev.holdpoint/call"] == nil {
					t.Errorf("gated: %v %v", result, err)
				}
				synctest.Wait()
				if len(heard) != 3 {
					t.Errorf("progress %q", heard)
				}
				if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nope"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
					t.Errorf("unknown tool: %v", err)
				}
			})
		})
	}
}

// Its timeout ends the wait only. The next session gets the outcome.
func TestOfficialClientTimesOut(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T) {
				b := newBench(t)
				params := &mcp.CallToolParams{Name: "files__gated", Arguments: map[string]any{"a": 1}}
				short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if _, err := b.connect(t.Context(), version, nil).CallTool(short, params); err == nil {
					t.Error("no time-out")
				}
				synctest.Wait()
				b.calls.finishCall(<-b.calls.arrived, call.Call{Status: call.Rejected, Code: call.CodeRejected, Message: "no"})
				result, err := b.connect(t.Context(), version, nil).CallTool(t.Context(), params)
				if err != nil || !result.IsError || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, "rejected") {
					t.Errorf("%v %v", result, err)
				}
				synctest.Wait()
				if got := len(b.calls.deliveries()); got != 1 {
					t.Errorf("%d deliveries", got)
				}
			})
		})
	}
}
