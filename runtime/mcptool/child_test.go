package mcptool_test

import (
	"context"
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
