package holdpoint

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// CLI is the command line of a person or an agent at a server.
type CLI struct {
	Program Program
	URL     string
	Token   string
	Env     []string // added variables
}

// Ran is the result of a command.
type Ran struct {
	Stdout, Stderr string
	Code           int
}

// commandLimit bounds a command that waits for a decision.
const commandLimit = 3 * time.Minute

// Run runs a command and waits for its end.
func (c CLI) Run(t testing.TB, args ...string) Ran {
	t.Helper()
	return <-c.Start(t, args...)
}

// Start runs a command beside the test.
func (c CLI) Start(t testing.TB, args ...string) <-chan Ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	cmd := exec.CommandContext(ctx, c.Program.Path, args...) //nolint:gosec // G204: the program under test
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8", raceOptions,
		"HOLDPOINT_URL=" + c.URL, "HOLDPOINT_TOKEN=" + c.Token,
	}, c.Env...)
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatalf("run holdpoint %v: %v", args, err)
	}
	done := make(chan Ran, 1)
	go func() {
		defer cancel()
		err := cmd.Wait()
		ran := Ran{Stdout: stdout.String(), Stderr: stderr.String()}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			ran.Code = exit.ExitCode()
		} else if err != nil {
			ran.Code, ran.Stderr = -1, ran.Stderr+err.Error()
		}
		done <- ran
	}()
	return done
}

// Must runs a command that must succeed, and returns its standard output.
func (c CLI) Must(t testing.TB, args ...string) string {
	t.Helper()
	ran := c.Run(t, args...)
	if ran.Code != 0 {
		t.Fatalf("holdpoint %v: exit code %d\n%s%s", args, ran.Code, ran.Stdout, ran.Stderr)
	}
	return ran.Stdout
}
