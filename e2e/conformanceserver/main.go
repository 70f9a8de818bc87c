// Command conformanceserver starts the server that the MCP conformance suite tests, and runs a command against it:
//
//	conformanceserver -holdpoint PATH -everything PATH COMMAND [ARGUMENT...]
//
// A new Holdpoint serves two agents. Both have the suite's fixtures, auto-approved and under their own names: "legacy" from a server
// with sessions (MCP 2025-11-25), "modern" from a server without them (2026-07-28) and from this program, which serves the tasks.
// -everything is the fixture server of the official Go SDK, built from that module. The suite sends no credential, so a proxy before
// each agent adds its key. The command finds the URLs of the proxies in CONFORMANCE_LEGACY and CONFORMANCE_MODERN. Its exit code
// becomes the exit code of this program.
//
// The database is DATABASE_URL, or an embedded cluster that ends with this program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	readyTime = 90 * time.Second // initdb of a cluster on a machine under load
	stopTime  = 30 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformanceserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("conformanceserver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	program := flags.String("holdpoint", "", "the command `holdpoint`")
	everything := flags.String("everything", "", "the fixture server of the Go SDK")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *program == "" || *everything == "" || flags.NArg() == 0 {
		return errors.New("-holdpoint, -everything and a command must be given")
	}
	dir, err := os.MkdirTemp("", "holdpoint-conformance-server-")
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // G302: the account of the database passes through
		return err
	}
	h := &setup{env: env, program: *program, dir: dir}
	defer func() {
		if err != nil {
			h.printLogs(stderr)
		}
		h.stopAll()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := h.startAll(ctx, *everything); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, flags.Arg(0), flags.Args()[1:]...) //nolint:gosec // G204: the command is an argument
	cmd.Env = append(slices.Clone(env), "CONFORMANCE_LEGACY="+h.legacy, "CONFORMANCE_MODERN="+h.modern)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd.Run()
}

// printLogs prints the end of each log.
func (h *setup) printLogs(to io.Writer) {
	const tail = 2 << 10
	logs, _ := filepath.Glob(filepath.Join(h.dir, "*.log")) // the pattern is right
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if len(text) > tail {
			text = text[len(text)-tail:]
		}
		fmt.Fprintf(to, "--- %s\n%s\n", filepath.Base(name), text)
	}
}
