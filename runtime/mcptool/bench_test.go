package mcptool_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// BenchmarkEcho compares one echo call through this package with the same call
// made by the SDK's client. Both reach one SDK server in this process.
func BenchmarkEcho(b *testing.B) {
	arguments := json.RawMessage(`{"message":"` + string(make64()) + `"}`)
	for name, options := range eras() {
		server := echoServer()
		h := serve(b, server, options)
		b.Run(name+"/holdpoint", func(b *testing.B) {
			s := newSource(b, mcptool.Config{})
			skill := httpSkill(h.URL)
			request := tool.CallRequest{CallID: uuid.New(), Tool: "echo", Arguments: arguments}
			benchmark(b, func() error {
				_, err := s.Call(b.Context(), skill, request)
				return err
			})
		})
		b.Run(name+"/sdk", func(b *testing.B) {
			client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
			session, err := client.Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: h.URL}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = session.Close() }()
			benchmark(b, func() error {
				_, err := session.CallTool(b.Context(), &mcp.CallToolParams{Name: "echo", Arguments: arguments})
				return err
			})
		})
	}
}

// BenchmarkEchoStdio does the same over pipes, against this binary as a child.
func BenchmarkEchoStdio(b *testing.B) {
	s := newSource(b, mcptool.Config{DataDir: b.TempDir()})
	skill := childSkill(b, "echo")
	request := tool.CallRequest{CallID: uuid.New(), Tool: "echo", Arguments: json.RawMessage(`{"message":"` + string(make64()) + `"}`)}
	benchmark(b, func() error {
		_, err := s.Call(b.Context(), skill, request)
		return err
	})
}

func benchmark(b *testing.B, call func() error) {
	b.Helper()
	if err := call(); err != nil { // connects
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.Run("1", func(b *testing.B) {
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("32", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func make64() []byte {
	text := make([]byte, 64)
	for i := range text {
		text[i] = 'x'
	}
	return text
}
