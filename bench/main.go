// Package main owns the measurements: what a tool call costs on its way through
// Holdpoint, and what a parked one costs while it waits. It builds the command, starts it
// as operators do, talks to it as agents and reviewers do, and asserts nothing.
// See README.md for what each figure means.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

// skillRole is the argument that makes this program the skill server.
const skillRole = "skill-server"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what a run can be told.
type options struct {
	quick      bool
	only       string
	out        string // empty: nothing is written
	binary     string // empty: it is built
	cpuProfile string // a directory; empty: no profiles
	database   string // DATABASE_URL; empty: a cluster of our own
}

// phase is one group of figures, measured on a database and a server of its own.
type phase struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

func phases() []phase {
	return []phase{{"overhead", overhead}, {"approval", approvalPath}, {"parked", parked}, {"talks", talks}, {"dashboard", dashboard}, {"openapi", openAPI}, {"slow", slowConnections}}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == skillRole {
		return serveSkill(ctx, stdin, stdout)
	}
	if len(args) > 0 && args[0] == importRole {
		return importDocument(ctx, args[1:], stdout)
	}
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	opts.database = getenv("DATABASE_URL")
	debug.SetGCPercent(400) // ours; the programs that are measured have their defaults
	b, err := newBench(ctx, opts, getenv, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	for _, p := range phases() {
		if opts.only != "" && opts.only != p.name {
			continue
		}
		b.sayf("%s", p.name)
		if err := p.run(ctx, b); err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
	}
	if err := b.report.print(stdout); err != nil {
		return err
	}
	if opts.out == "" {
		return nil
	}
	b.sayf("writing %s", opts.out)
	return b.report.write(opts.out)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := make([]string, 0, len(phases()))
	for _, p := range phases() {
		names = append(names, p.name)
	}
	flags.BoolVar(&opts.quick, "quick", false, "few and short rounds: to see that it works, not for figures")
	flags.StringVar(&opts.only, "only", "", "measure one `phase`: "+strings.Join(names, ", "))
	flags.StringVar(&opts.out, "out", "", "write the figures to `file` (default bench/results.json of a whole run, else nothing)")
	flags.StringVar(&opts.binary, "binary", "", "measure this holdpoint `file` instead of building one")
	flags.StringVar(&opts.cpuProfile, "cpuprofile", "", "write profiles of the server into `dir`, taken after the figures")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.only != "" && !slices.Contains(names, opts.only):
		return opts, fmt.Errorf("-only %q: want one of %s", opts.only, strings.Join(names, ", "))
	case opts.out == "" && opts.only == "" && !opts.quick:
		opts.out = filepath.Join("bench", "results.json")
	}
	return opts, nil
}
