package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func itoa(n int) string { return strconv.Itoa(n) }

// runParent keeps a child as a server process would, and waits to be killed.
func runParent() {
	s := mcptool.New(mcptool.Config{DataDir: os.Getenv("MCPTOOL_TEST_DIR"), Stdio: anyCommand})
	result, err := s.Call(context.Background(), tool.Server{
		SkillID: uuid.New(), Skill: "raw", Revision: 1, Transport: tool.Stdio,
		Command: []string{os.Getenv("MCPTOOL_TEST_BINARY")}, Env: map[string]string{"MCPTOOL_TEST_SERVER": "stubborn", "GORACE": "atexit_sleep_ms=0"},
	}, tool.CallRequest{Tool: "about", Arguments: json.RawMessage(`{}`)})
	if err != nil {
		panic(err)
	}
	writeLine(string(result.Raw))
	select {}
}

// TestChildrenDieWithTheirParent: this holds for SIGKILL, and for a child that ignores SIGTERM and the end of its
// input.
func TestChildrenDieWithTheirParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere a child has to mind the end of its input")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	dir := t.TempDir()
	letPass(t, dir)
	parent.Env = []string{"MCPTOOL_TEST_SERVER=parent", "MCPTOOL_TEST_DIR=" + dir, "MCPTOOL_TEST_BINARY=" + binary()}
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var child aboutText
	if err != nil || json.Unmarshal(line, &child) != nil {
		_ = parent.Process.Kill()
		t.Fatal(string(line), err)
	}
	if !isAlive(child.PID) {
		t.Fatal("the child does not run")
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	eventually.Holds(t, "the child is gone", func() bool { return !isAlive(child.PID) || isZombie(child.PID) })
}
