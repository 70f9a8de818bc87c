//go:build hosts

package hosts_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

var (
	// built is the command under test.
	built holdpoint.Program
	// modules is the folder of the agents.
	modules string
	update  = flag.Bool("update", false, "write the table into docs/coding-agents.md")
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.Contains(arg, "test.parallel") }) {
		_ = flag.Set("test.parallel", "12") // the flag is an int; most of the time, agents wait
	}
	dir, err := os.MkdirTemp("", "holdpoint-hosts-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		modules, err = filepath.Abs("node_modules")
	}
	if err == nil {
		built, err = holdpoint.Build(context.Background(), dir, false)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
