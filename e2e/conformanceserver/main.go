// Command conformanceserver puts together what the MCP conformance suite tests as a server, and runs a command
// against it:
//
//	conformanceserver -holdpoint PATH -everything PATH COMMAND [ARGUMENT...]
//
// A Holdpoint of its own serves two agents. Both have the suite's fixtures under their own names and
// auto-approved: "legacy" from a server with sessions (MCP 2025-11-25), "modern" from one without
// (2026-07-28) and, beside it, the tasks that this program serves. The fixtures of the
// official Go SDK are a program (-everything), built from that module. The suite sends no credential, so in front
// of each agent is a proxy that adds its key, and nothing else. The command finds their URLs in
// CONFORMANCE_LEGACY and CONFORMANCE_MODERN, and its exit code is this program's.
//
// The database is DATABASE_URL's, or else an embedded cluster that lives as long as the program.
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
		return errors.New("want -holdpoint, -everything and a command")
	}
	dir, err := os.MkdirTemp("", "holdpoint-conformance-server-")
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // G302: as root, the database is an ordinary user's, who passes through
		return err
	}
	h := &house{env: env, program: *program, dir: dir}
	defer func() {
		if err != nil {
			h.tell(stderr)
		}
		h.stop()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := h.build(ctx, *everything); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, flags.Arg(0), flags.Args()[1:]...) //nolint:gosec // G204: whoever runs this says what to run
	cmd.Env = append(slices.Clone(env), "CONFORMANCE_LEGACY="+h.legacy, "CONFORMANCE_MODERN="+h.modern)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd.Run()
}

// tell shows the end of what the servers wrote.
func (h *house) tell(to io.Writer) {
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
