// Package holdpoint owns the program under test: it builds the program, runs it in processes that tests kill, and uses only its
// public surfaces: the command line, the JSON API, the dashboard and the MCP endpoints. It shares no code with the program.
package holdpoint

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// raceOptions ends a program with the race detector at once. By default the detector sleeps for a second first.
const raceOptions = "GORACE=atexit_sleep_ms=0"

// Program is the built command.
type Program struct {
	Path   string
	Server string // runs serve and demo instead, such as a container; empty: Path does
}

// Build builds the command into dir, with failpoints, and with the race detector if the tests have it.
func Build(ctx context.Context, dir string, race bool) (Program, error) {
	path := filepath.Join(dir, "holdpoint")
	mode := []string{"-tags", "failpoint"}
	if race {
		mode = []string{"-race"} // has the failpoints too, see package failpoint
	}
	args := slices.Concat([]string{"build", "-ldflags", "-w", "-o", path}, mode, []string{"github.com/holdpoint/holdpoint/cmd/holdpoint"})
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the arguments are ours
	if said, err := cmd.CombinedOutput(); err != nil {
		return Program{}, fmt.Errorf("build holdpoint: %w\n%s", err, said)
	}
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // G302: ordinary users run it too
		return Program{}, fmt.Errorf("build holdpoint: %w", err)
	}
	return Program{Path: path}, nil
}
