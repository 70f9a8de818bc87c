package skill

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Counting is a well-behaved skill server of the official SDK, over streamable
// HTTP. Its tool "record" takes an integer n.
type Counting struct {
	*Ledger
	URL string
}

// The schema of the tool "record", here and in the raw servers.
const recordSchema = `{"type":"object","properties":{"n":{"type":"integer"},"note":{"type":"string"}},"required":["n"]}`

// NewCounting starts a server that ends with the test.
func NewCounting(t testing.TB) *Counting {
	ledger := NewLedger()
	server := CountingServer(ledger)
	url := serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil), ledger.Release)
	return &Counting{Ledger: ledger, URL: url}
}

// CountingServer is the same without a transport.
func CountingServer(ledger *Ledger) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "counting", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{
		Name: "record", Description: "Records a number.", InputSchema: json.RawMessage(recordSchema),
	}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		n := ArgumentN(r.Params.Arguments)
		if held := ledger.Record(n); held != nil {
			<-held // whatever becomes of the client: a real effect takes its time too
		}
		ledger.dawdle()
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "recorded " + n}}}, nil
	})
	return server
}

// ArgumentN is the argument n as it was written.
func ArgumentN(arguments json.RawMessage) string {
	var a struct {
		N json.RawMessage `json:"n"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return ""
	}
	return string(a.N)
}

// serve serves a handler until the test ends. Release lets go of what it holds then.
func serve(t testing.TB, handler http.Handler, release func()) string {
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		release()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}
