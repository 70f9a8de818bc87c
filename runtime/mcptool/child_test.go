package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// runChild runs a skill server in its own process.
func runChild(mode string) {
	switch mode {
	case "echo":
		_ = echoServer().Run(context.Background(), &mcp.StdioTransport{})
	case "asking":
		_ = askingServer().Run(context.Background(), &mcp.StdioTransport{})
	case "library":
		_ = libraryServer().Run(context.Background(), &mcp.StdioTransport{})
	case "reporting":
		_ = reportingServer().Run(context.Background(), &mcp.StdioTransport{})
	case "traced":
		_ = tracedServer().Run(context.Background(), &mcp.StdioTransport{})
	case "changing": // announces changed tools under 2026-07-28
		server := echoServer()
		server.AddTool(&mcp.Tool{Name: "change", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				addEcho(server, "other")
				return &mcp.CallToolResult{}, nil
			})
		_ = server.Run(context.Background(), &mcp.StdioTransport{})
	case "dies":
		fmt.Fprintln(os.Stderr, "cannot find \u202e the configuration, key", os.Getenv("API_KEY"))
		os.Exit(3)
	case "prints": // a program that is not a server
		for range 3 {
			writeLine("Welcome to the program!")
		}
		select {}
	case "mute":
		select {}
	case "bench":
		runBenchServer()
	case "parent":
		runParent()
	default:
		(&rawChild{at: rawActs(mode)}).run()
	}
}

type rawAct = func(m message, params toolParams)

// rawActs returns the special behaviors of a raw child.
func rawActs(mode string) map[string]rawAct {
	acts := map[string]rawAct{
		"change": func(m message, _ toolParams) {
			writeLine(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			writeLine(answerText(m, `{}`))
		},
		"crash": func(message, toolParams) {
			fmt.Fprintln(os.Stderr, "panic: out of cheese")
			os.Exit(2)
		},
		"hang":    func(message, toolParams) {},
		"babbles": func(message, toolParams) { writeLine("<html>not what was asked for") },
		"noisy": func(m message, _ toolParams) {
			writeLine("debug: called")
			writeLine("[1,2,3]")
			writeLine(`{"jsonrpc":"2.0","id":4711,"result":{}}`)
			writeLine(answerText(m, `{"content":[]}`))
		},
		"huge": func(m message, _ toolParams) {
			_, _ = os.Stdout.WriteString(`{"result":{"id":1,"a":["`)
			piece := strings.Repeat("x", 1<<20)
			for range 100 {
				_, _ = os.Stdout.WriteString(piece)
			}
			writeLine(`"]},"jsonrpc":"2.0","id":` + string(m.ID) + `}`)
		},
		"ping": func(m message, _ toolParams) {
			writeLine(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			writeLine(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
			pongs = append(pongs, m)
		},
		"deaf": func(m message, _ toolParams) { // stops reading
			writeLine(answerText(m, `{}`))
			select {}
		},
		"shut": func(m message, _ toolParams) { // closes its input but keeps running
			_ = os.Stdin.Close()
			writeLine(answerText(m, `{}`))
			select {}
		},
		"about": func(m message, _ toolParams) { writeLine(answerText(m, describeEnvironment())) },
		"spawn": func(m message, _ toolParams) {
			child := exec.Command("sleep", "1000")
			if err := child.Start(); err != nil {
				panic(err)
			}
			writeLine(answerText(m, fmt.Sprintf(`{"pid":%d}`, child.Process.Pid)))
		},
	}
	if mode == "silent" { // ignores unknown methods
		acts["server/discover"] = func(message, toolParams) {}
	}
	if mode == "tasks" {
		addTasks(acts)
	}
	if mode == "stubborn" { // exits only on SIGKILL
		signal.Ignore(syscall.SIGTERM)
		acts["EOF"] = func(message, toolParams) { select {} }
	}
	return acts
}

// addTasks turns calls into tasks of 2026-07-28 that ask the caller and end with the answer.
func addTasks(acts map[string]rawAct) {
	acts["server/discover"] = func(m message, _ toolParams) {
		writeLine(answerText(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
	}
	acts["tools/call"] = func(m message, _ toolParams) { writeLine(answerText(m, handle)) }
	given := "null"
	acts["tasks/update"] = func(m message, _ toolParams) {
		text, _ := json.Marshal(string(m.Params))
		given = string(text)
		writeLine(answerText(m, complete))
	}
	acts["tasks/get"] = func(m message, _ toolParams) {
		if given == "null" {
			writeLine(answerText(m, newTask("input_required", `,"inputRequests":{"a":`+formatInputRequest(`{}`)+`}`)))
			return
		}
		writeLine(answerText(m, newTask("completed", `,"result":{"content":[{"type":"text","text":`+given+`}]}`)))
	}
}

// pongs are calls that wait for the client's answers.
var pongs []message

// describeEnvironment describes the environment of a child.
func describeEnvironment() string {
	dir, _ := os.Getwd()
	text, _ := json.Marshal(map[string]any{
		"env": os.Environ(), "dir": dir, "pid": os.Getpid(), "group": syscall.Getpgrp(),
	})
	return string(text)
}

// childSkill returns a skill whose server is this test binary.
func childSkill(t testing.TB, mode string) tool.Server {
	t.Helper()
	return tool.Server{
		SkillID: uuid.New(), Skill: mode, Revision: 1, Transport: tool.Stdio,
		Command: []string{binary()}, Env: map[string]string{"MCPTOOL_TEST_SERVER": mode, "GORACE": "atexit_sleep_ms=0"},
	}
}

// rawChild is a server of 2025-11-25, without an SDK.
type rawChild struct {
	// at overrides the answers to methods and tools.
	at   map[string]rawAct
	seen []string
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
			if last := c.at["EOF"]; last != nil {
				last(message{}, toolParams{})
			}
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
		case m.Method == "" && len(pongs) > 0: // the client's answers; the last one completes the calls
			c.seen = append(c.seen, string(line))
			if len(c.seen) == 2 {
				text, _ := json.Marshal(strings.Join(c.seen, ""))
				writeLine(answerText(pongs[0], `{"content":[{"type":"text","text":`+string(text)+`}]}`))
			}
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
		writeLine(answerText(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`))
	case "tools/list":
		writeLine(answerText(m, `{"tools":[{"name":"mirror","inputSchema":{"type":"object"}}]}`))
	case "tools/call":
		if params.Name == "verbatim" { // returns its arguments unchanged
			writeLine(`{"result":` + string(params.Arguments) + `,"jsonrpc":"2.0","id":` + string(m.ID) + `}`)
			return
		}
		text, _ := json.Marshal(string(params.Arguments))
		writeLine(answerText(m, `{"content":[{"type":"text","text":`+string(text)+`}]}`))
	case "server/discover":
		writeLine(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

// writeLine writes one line to stdout.
func writeLine(line string) { _, _ = os.Stdout.WriteString(line + "\n") }
