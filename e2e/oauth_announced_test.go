package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/e2e/internal/protected"
)

// TestToolsArriveWithAnAnnouncement: a conversation starts without the skill's tools and says so. When a person
// connects the skill, the client is notified and finds them.
func TestToolsArriveWithAnAnnouncement(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", ""} { // with a session, and the SDK's newest
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			w := newPersonalWorld(t, authserver.Config{}, protected.Config{})
			p := w.startServer()
			w.applyManifest(p, oneSkill(w.skill.URL, "auto_approve: true\n"))
			agent := w.newAgent(p, "worker")
			changed := make(chan struct{}, 10)
			client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint: agent.URL + "/agents/worker/mcp", HTTPClient: &http.Client{Transport: withKey{agent.Key}},
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Close() })
			tools := func() []string {
				t.Helper()
				list, err := session.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, tool := range list.Tools {
					names = append(names, tool.Name)
				}
				return names
			}
			if got := tools(); slices.Contains(got, "counting__record") {
				t.Fatalf("the tools before connecting: %q", got)
			}
			if version != "" && !strings.Contains(session.InitializeResult().Instructions, "needs_connection") {
				t.Errorf("the conversation does not say what is missing: %s", session.InitializeResult().Instructions)
			}
			w.connectAs(p, bootstrapToken, w.as.NewPerson(t, "ada"))
			for deadline := time.After(patience); !slices.Contains(tools(), "counting__record"); {
				select {
				case <-changed:
				case <-deadline:
					t.Fatal("no announcement brought the tools")
				}
			}
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "counting__record", Arguments: map[string]any{"n": 1}})
			if err != nil || result.IsError || w.skill.Subject("1") != "ada" {
				t.Errorf("the call: %v, %+v, on behalf of %q", err, result, w.skill.Subject("1"))
			}
		})
	}
}
