//go:build hosts

package hosts_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	// program is the command under test.
	program string
	// modules is the folder of the agents.
	modules string
	update  = flag.Bool("update", false, "write the table into docs/coding-agents.md")
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.Contains(arg, "test.parallel") }) {
		_ = flag.Set("test.parallel", "14") // the flag is an int; most of the time, agents wait
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
		program = filepath.Join(dir, "holdpoint")
		var out []byte
		if out, err = exec.Command("go", "build", "-trimpath", "-o", program, "../../cmd/holdpoint").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
