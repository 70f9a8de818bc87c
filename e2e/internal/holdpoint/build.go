// Package holdpoint owns the program under test: it builds it, runs it as
// processes of its own that may be killed, and talks to them over what is public only:
// the command line, the JSON API and the agents' MCP endpoints. It shares no code
// with what it tests.
package holdpoint

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program is the built command.
type Program struct {
	Path string
}

// Build builds the command into dir, with failpoints, and with the race detector if
// the tests have it.
func Build(ctx context.Context, dir string, race bool) (Program, error) {
	path := filepath.Join(dir, "holdpoint")
	args := []string{"build", "-tags", "failpoint", "-o", path}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/holdpoint/holdpoint/cmd/holdpoint")...) //nolint:gosec // G204: its arguments are ours
	if said, err := cmd.CombinedOutput(); err != nil {
		return Program{}, fmt.Errorf("build holdpoint: %w\n%s", err, said)
	}
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // G302: ordinary users run it too
		return Program{}, fmt.Errorf("build holdpoint: %w", err)
	}
	return Program{Path: path}, nil
}
