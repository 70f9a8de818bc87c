package skill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// StdioArgument is the first argument that makes a test binary a stdio skill server.
const StdioArgument = "stdio-skill"

// StdioBinary is this test binary where every account reaches it, once CopyBinary was called.
var StdioBinary string

// CopyBinary makes StdioBinary.
func CopyBinary(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	StdioBinary = filepath.Join(dir, "stdio-skill")
	return exec.CommandContext(context.Background(), "cp", self, StdioBinary).Run() //nolint:gosec // G204: this test binary
}

// StdioCommand is the command of a skill that runs this test binary.
func StdioCommand(t testing.TB, file string) []string {
	var err error
	for _, folder := range []string{filepath.Dir(file), filepath.Dir(filepath.Dir(file))} {
		if err == nil {
			err = os.Chmod(folder, 0o777) //nolint:gosec // G302: the skill's account writes there
		}
	}
	if err != nil {
		t.Fatalf("make the test binary a skill: %v", err)
	}
	return []string{StdioBinary, StdioArgument, file}
}

// RunStdio is the server: "environ" answers with its environment; "record" writes n and its own
// process id to the file, a line each time, and does not answer while there
// is a file of that name with ".hold" after it; "shell" and "attack" do as they are told.
func RunStdio(file string) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "stdio", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "environ", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := json.Marshal(os.Environ())
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, err
		})
	server.AddTool(&mcp.Tool{Name: "record", InputSchema: json.RawMessage(recordSchema)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			n := ArgumentN(r.Params.Arguments)
			if err := appendLine(file, fmt.Sprintf("%s %d", n, os.Getpid())); err != nil {
				return nil, err
			}
			if _, err := os.Stat(file + ".hold"); err == nil {
				select {}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "recorded " + n}}}, nil
		})
	server.AddTool(&mcp.Tool{Name: "shell", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var given struct {
				Script string `json:"script"`
			}
			if err := json.Unmarshal(r.Params.Arguments, &given); err != nil {
				return nil, err
			}
			said, err := exec.CommandContext(ctx, "/bin/sh", "-c", given.Script).CombinedOutput() //nolint:gosec // G204: an attacker's
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s%v", said, err)}}}, nil
		})
	server.AddTool(&mcp.Tool{Name: "attack", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var given struct {
				Act    string `json:"act"`
				Target string `json:"target"`
			}
			if err := json.Unmarshal(r.Params.Arguments, &given); err != nil {
				return nil, err
			}
			text := "succeeded"
			if err := attack(ctx, given.Act, given.Target); err != nil {
				text = "refused: " + err.Error()
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	return server.Run(context.Background(), &mcp.StdioTransport{})
}

func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// StdioArrivals reads what a server's tool "record" wrote: process ids by n.
func StdioArrivals(file string) map[string][]string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // nothing arrived yet
	}
	arrivals := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if n, pid, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			arrivals[n] = append(arrivals[n], pid)
		}
	}
	return arrivals
}
