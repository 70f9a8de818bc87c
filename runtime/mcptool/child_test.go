package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// runChild is a skill server, in a process of its own.
func runChild(mode string) {
	switch mode {
	case "echo":
		_ = echoServer().Run(context.Background(), &mcp.StdioTransport{})
	case "changing": // announces other tools, in the era of 2026-07-28
		server := echoServer()
		server.AddTool(&mcp.Tool{Name: "change", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				addEcho(server, "other")
				return &mcp.CallToolResult{}, nil
			})
		_ = server.Run(context.Background(), &mcp.StdioTransport{})
	case "mirror":
		(&rawChild{at: map[string]func(message, toolParams){"change": func(m message, _ toolParams) {
			say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			say(answerText(m, `{}`))
		}}}).run()
	}
}

// childSkill is a skill whose server is this test binary.
func childSkill(t testing.TB, mode string) tool.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return tool.Server{
		SkillID: uuid.New(), Skill: mode, Revision: 1, Transport: tool.Stdio,
		Command: []string{self}, Env: map[string]string{"MCPTOOL_TEST_SERVER": mode},
	}
}

func TestListAndCallOverStdio(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
	server := childSkill(t, "echo")
	listing, err := s.List(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if len(listing.Tools) != 1 {
		t.Errorf("tools %v", listing.Tools)
	}
	t.Log(listing.ProtocolVersion)
	if got := textOf(t, call(t, s, server, "echo", `{"a":1}`)); got != `{"a":1}` {
		t.Errorf("echo %s", got)
	}
}

// rawChild is a server of 2025-11-25 without an SDK.
type rawChild struct {
	// at are the methods, and the tools, that it does not answer as usual.
	at map[string]func(m message, params toolParams)
}

type toolParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func (c *rawChild) run() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		var params toolParams
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintln(os.Stderr, "unreadable:", err)
			os.Exit(9)
		}
		_ = json.Unmarshal(m.Params, &params)
		m.body = line
		switch {
		case c.at[m.Method] != nil:
			c.at[m.Method](m, params)
		case m.Method == "tools/call" && c.at[params.Name] != nil:
			c.at[params.Name](m, params)
		default:
			c.standard(m, params)
		}
	}
}

func (c *rawChild) standard(m message, params toolParams) {
	switch m.Method {
	case "initialize":
		say(answerText(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`))
	case "tools/list":
		say(answerText(m, `{"tools":[{"name":"mirror","inputSchema":{"type":"object"}}]}`))
	case "tools/call":
		if params.Name == "verbatim" { // its arguments are its result
			say(`{"result":` + string(params.Arguments) + `,"jsonrpc":"2.0","id":` + string(m.ID) + `}`)
			return
		}
		text, _ := json.Marshal(string(params.Arguments))
		say(answerText(m, `{"content":[{"type":"text","text":`+string(text)+`}]}`))
	case "server/discover":
		say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

// say writes one line to stdout.
func say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }
