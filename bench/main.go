// Package main owns the measurements: the cost of a tool call on its way through Holdpoint, and of a parked call while it waits.
// It builds the command, starts it as operators do, and talks to it as agents and reviewers do. It asserts nothing. README.md
// explains each figure.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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

// options are the flags of a run.
type options struct {
	quick      bool
	only       string
	page       bool
	out        string // empty: write nothing
	calls      int    // generated ones, to measure retention
	binary     string // empty: build one
	cpuProfile string // a directory; empty: no profiles
	database   string // DATABASE_URL; empty: an embedded cluster
}

// phase is one group of figures.
type phase struct {
	name  string
	parts []func(ctx context.Context, b *bench) error
}

func listPhases() []phase {
	type part = func(context.Context, *bench) error
	return []phase{
		{"overhead", []part{onStage(measureOverhead)}},
		{"approval", []part{onStage(measureApprovalPath)}},
		{gatePhase, []part{onStage(measureGate), onStage(measureGuardAlerts, "--trusted-hosts=127.0.0.1")}},
		{"rules", []part{onStage(measureRules)}},
		{"parked", []part{onStage(measureParkingRate, "--max-connections=20000"), onStage(measureFootprint, "--max-connections=20000")}},
		{"talks", []part{onStage(measureTalks)}},
		{"dashboard", []part{onStage(measureLongQueue), onStage(measureLag, "--max-connections=20000")}},
		{"wide", []part{onStage(measureWideHouse)}},
		{"openapi", []part{measureOpenAPI}},
		{"retention", []part{onStage(measureRetention, keepContent, keepCalls, keepEvents)}},
		{"slow", []part{measureSlowConnections}},
		{crowdPhase, []part{onStage(measureCrowd, crowdFlags...)}},
		{peersPhase, []part{measurePeers}},
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == skillRole {
		return serveSkill(ctx, args[1:], stdin, stdout)
	}
	if len(args) > 0 && args[0] == holdRole {
		return holdClients(ctx, stdin, stdout)
	}
	if len(args) > 0 && args[0] == importRole {
		return importDocument(ctx, args[1:], stdout)
	}
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	if opts.page {
		return renderPeersPage(ctx)
	}
	if opts.only == cellsPhase {
		return printCells(stdout)
	}
	opts.database = getenv("DATABASE_URL")
	debug.SetGCPercent(400) // of this program; the measured programs keep their defaults
	b, err := newBench(ctx, opts, getenv, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	for _, p := range listPhases() {
		if opts.only != p.name && (opts.only != "" || p.name == peersPhase || p.name == crowdPhase) {
			continue
		}
		b.logf("%s", p.name)
		for _, measure := range p.parts {
			if err := measure(ctx, b); err != nil {
				return fmt.Errorf("measure %s: %w", p.name, err)
			}
		}
	}
	if err := b.report.printTable(stdout); err != nil {
		return err
	}
	if opts.out == "" {
		return nil
	}
	b.logf("writing %s", b.out)
	if err := b.report.writeFile(b.out); err != nil || opts.out != peersFile {
		return err
	}
	return b.report.writePeersPage(b.root)
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := make([]string, 0, len(listPhases())+1)
	for _, p := range listPhases() {
		names = append(names, p.name)
	}
	names = append(names, cellsPhase)
	flags.BoolVar(&opts.quick, "quick", false, "few and short rounds, to try the program; the figures mean nothing")
	flags.BoolVar(&opts.page, "page", false, "write docs/peers.md and its chart from bench/peers.json, and measure nothing")
	flags.IntVar(&opts.calls, "calls", 1_000_000, "`number` of generated calls to measure retention")
	flags.StringVar(&opts.only, "only", "", "measure one `phase`: "+strings.Join(names, ", ")+" (computed)")
	flags.StringVar(&opts.out, "out", "", "write the figures to `file` (default bench/results.json of a whole run, bench/peers.json of peers, else nothing)")
	flags.StringVar(&opts.binary, "binary", "", "measure this holdpoint `file` instead of building one")
	flags.StringVar(&opts.cpuProfile, "cpuprofile", "", "write profiles of the server into `dir`, taken after the figures")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.only != "" && !slices.Contains(names, opts.only):
		return opts, fmt.Errorf("-only %q: must be one of %s", opts.only, strings.Join(names, ", "))
	case opts.out == "" && opts.only == peersPhase && !opts.quick:
		opts.out = peersFile
	case opts.out == "" && opts.only == "" && !opts.quick:
		opts.out = resultsFile
	}
	return opts, nil
}
