// Package e2e_test owns the tests that run Holdpoint as its users do: the built program, in processes that are killed and restarted,
// on a real PostgreSQL, with real skill servers and clients, over its public surfaces only.
//
// A missing PostgreSQL, Node.js or npm package is a failure. `task setup` installs them.
package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// program is the command under test.
var program holdpoint.Program

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == skill.StdioArgument {
		if err := skill.RunStdio(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	raiseParallel()
	dir, err := os.MkdirTemp("", "holdpoint-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = skill.CopyBinary(dir)
	}
	if err == nil {
		// The tests of an image bring its program, and what starts the image as a server. Tests that kill servers need their own process.
		program = holdpoint.Program{Path: os.Getenv("HOLDPOINT_E2E_PROGRAM"), Server: os.Getenv("HOLDPOINT_E2E_SERVER")}
		if program.Path == "" {
			program, err = holdpoint.Build(context.Background(), dir, raceDetector)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stopPooler(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// raiseParallel runs more tests in parallel than there are processors, because most of them wait.
func raiseParallel() {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "8") // the flag is an int
	}
}
