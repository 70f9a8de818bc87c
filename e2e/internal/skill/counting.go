package skill

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Counting is a skill server of the official SDK over streamable HTTP. Its tool "record" takes an integer n.
type Counting struct {
	*Ledger
	URL string
}

// recordSchema is the schema of the tool "record".
const recordSchema = `{"type":"object","properties":{"n":{"type":"integer"},"note":{"type":"string"}},"required":["n"]}`

// NewCounting starts a server that ends with the test.
func NewCounting(t testing.TB) *Counting {
	ledger := NewLedger()
	server := CountingServer(ledger)
	url := serveHandler(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil), ledger.Release)
	return &Counting{Ledger: ledger, URL: url}
}

// CountingServer returns the server of [Counting] without a transport.
func CountingServer(ledger *Ledger) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "counting", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{
		Name: "record", Description: "Records a number.", InputSchema: json.RawMessage(recordSchema),
	}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		n := ArgumentN(r.Params.Arguments)
		if held := ledger.Record(n); held != nil {
			<-held // even if the client disconnects, as a real effect does
		}
		ledger.waitForPace()
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "recorded " + n}}}, nil
	})
	return server
}

// ArgumentN returns the bytes of the argument n.
func ArgumentN(arguments json.RawMessage) string {
	var a struct {
		N json.RawMessage `json:"n"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return ""
	}
	return string(a.N)
}

// serveHandler serves a handler until the test ends, and then releases held calls.
func serveHandler(t testing.TB, handler http.Handler, release func()) string {
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		release()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}
