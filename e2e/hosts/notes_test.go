//go:build hosts

package hosts_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notes is an MCP server of somebody else. Its tool save keeps a text.
type notes struct {
	*httptest.Server

	mu    sync.Mutex
	saved []string
}

func newNotes(t testing.TB) *notes {
	t.Helper()
	n := &notes{}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	type note struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "save", Description: "Saves a note."},
		func(_ context.Context, _ *mcp.CallToolRequest, in note) (*mcp.CallToolResult, any, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.saved = append(n.saved, in.Text)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "saved " + in.Text}}}, nil, nil
		})
	n.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(func() {
		n.CloseClientConnections()
		n.Close()
	})
	return n
}

// has reports whether a text was saved.
func (n *notes) has(text string) bool { return n.count(text) > 0 }

// count returns how often a text was saved.
func (n *notes) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	times := 0
	for _, saved := range n.saved {
		if saved == text {
			times++
		}
	}
	return times
}
