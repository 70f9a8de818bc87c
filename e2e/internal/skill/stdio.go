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

// StdioArgument is the first argument of a test binary that runs as a stdio skill server.
const StdioArgument = "stdio-skill"

// StdioBinary is a copy of this test binary that every account can read. CopyBinary sets it.
var StdioBinary string

// CopyBinary copies the test binary to StdioBinary.
func CopyBinary(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	StdioBinary = filepath.Join(dir, "stdio-skill")
	return exec.CommandContext(context.Background(), "cp", self, StdioBinary).Run() //nolint:gosec // G204: this test binary
}

// StdioCommand returns the command of a skill that runs this test binary.
func StdioCommand(t testing.TB, file string) []string {
	var err error
	for _, folder := range []string{filepath.Dir(file), filepath.Dir(filepath.Dir(file))} {
		if err == nil {
			err = os.Chmod(folder, 0o777) //nolint:gosec // G302: the skill's account writes to it
		}
	}
	if err != nil {
		t.Fatalf("make the test binary a skill: %v", err)
	}
	return []string{StdioBinary, StdioArgument, file}
}

// RunStdio runs the server. The tool "environ" returns the environment. "record" appends n and the process ID to the file; it never
// answers if a file with the suffix ".hold" exists. "shell" and "attack" run their arguments.
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
			said, err := exec.CommandContext(ctx, "/bin/sh", "-c", given.Script).CombinedOutput() //nolint:gosec // G204: the tool runs scripts
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
			if err := runAttack(ctx, given.Act, given.Target); err != nil {
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

// StdioArrivals reads the file of the tool "record": process IDs by n.
func StdioArrivals(file string) map[string][]string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // no call has arrived
	}
	arrivals := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if n, pid, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			arrivals[n] = append(arrivals[n], pid)
		}
	}
	return arrivals
}
