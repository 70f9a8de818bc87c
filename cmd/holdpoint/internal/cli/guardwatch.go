package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/host"
)

const (
	// watchBeat is the time between two reports of a watcher about a guard that has not changed. The server calls a guard silent after three.
	watchBeat = 15 * time.Second
	// settleTime is the pause before a guard is read again that does not hold.
	settleTime = time.Second
	// reportTimeout bounds a report, so that a server that is away does not delay the next reading of the files.
	reportTimeout = 5 * time.Second
	// The server refuses more.
	maxReportedProblems, maxReportedProblem = 20, 1000
)

// guardReporter reports to the server about one guard.
type guardReporter struct {
	api    *client.Client
	agent  string
	id     string
	report client.GuardReport
}

// newGuardReporter makes a reporter with the agent's key and the watch key of the machine.
func (e *Env) newGuardReporter(one *installedGuard) (*guardReporter, error) {
	g := one.Guard
	if g.ID == "" {
		return nil, errors.New("an earlier version installed the guard: install it again")
	}
	key, err := g.ReadWatchKey(one.machine)
	if err != nil {
		return nil, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	with := &Env{Getenv: e.Getenv, Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr, Now: e.Now, Version: e.Version, url: g.URL}
	caller := &hookCaller{Env: with, hook: host.FindHook(string(g.Host)), hookOptions: hookOptions{
		agent: g.Agent, skill: g.Skill, keyFile: g.KeyFile, wait: minHookWait, proxy: g.Proxy, caFile: g.CAFile,
	}}
	if err := caller.configure(); err != nil {
		return nil, err
	}
	scope := scopeUser
	if g.Managed {
		scope = scopeMachine
	}
	return &guardReporter{caller.api, g.Agent, g.ID, client.GuardReport{
		WatchKey: key, Host: string(g.Host), Machine: plain.Line(machine, 200), Scope: scope, Version: e.Version,
		Files: []string{one.machine.File(g.Host, g.Managed)},
	}}, nil
}

// send reports how the guard is. every is the time until the next report; zero: this is no report of a watcher.
func (r *guardReporter) send(ctx context.Context, every time.Duration, problems []string, isRemoved bool) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	report := r.report
	report.Every, report.Removed = int((every+time.Second-1)/time.Second), isRemoved
	for _, problem := range problems[:min(len(problems), maxReportedProblems)] {
		report.Problems = append(report.Problems, plain.Storable(problem, maxReportedProblem))
	}
	return r.api.ReportGuard(ctx, r.agent, r.id, report)
}

// registerGuard tells the server that a guard was installed, and starts its watcher. Without an answer the watcher tells the server later.
func (e *Env) registerGuard(ctx context.Context, one *installedGuard, edits []*guard.Edit) error {
	reporter, err := e.newGuardReporter(one)
	if err == nil {
		err = reporter.send(ctx, 0, nil, false)
	}
	if err != nil {
		e.notef("The server does not list this guard yet (%s). holdpoint guard watch registers it.", describeError(err))
	}
	isWatched, err := e.runUnit(ctx, one.machine, edits)
	if err != nil {
		return err
	}
	if !isWatched {
		e.notef("Keep `holdpoint guard watch` running, for example as a service: it reports to the server when the guard no longer holds.")
	}
	e.notef("Try it now: holdpoint guard status %s", one.Host)
	return nil
}

// unregisterGuard tells the server that a guard was removed: an operator's token deletes it there, else people are alerted.
func (e *Env) unregisterGuard(ctx context.Context, id string, reporter *guardReporter) {
	var err error
	if e.token != "" {
		var api *client.Client
		if api, err = e.newClient(e.token); err == nil {
			err = api.ForgetGuard(ctx, id)
		}
		if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusNotFound {
			err = nil
		}
	} else if reporter != nil {
		if err = reporter.send(ctx, 0, nil, true); err == nil {
			e.notef("Operators are alerted: the guard was removed without the token of one.")
		}
	}
	if err != nil {
		e.notef("The server still lists this guard (%s). An operator deletes it with: holdpoint guard forget %s", describeError(err), id)
	}
}

// runUnit starts the watcher's service after its file was written, or stops it before the file is removed. It reports whether there is one.
func (e *Env) runUnit(ctx context.Context, m *guard.Machine, edits []*guard.Edit) (found bool, err error) {
	i := slices.IndexFunc(edits, func(edit *guard.Edit) bool { return edit.Path == m.UnitFile() })
	if i < 0 || m.Root != "" {
		return i >= 0, nil
	}
	commands := [][]string{{"daemon-reload"}, {"enable", guard.UnitName}, {"restart", guard.UnitName}}
	if edits[i].New == nil {
		commands = [][]string{{"disable", "--now", guard.UnitName}}
	}
	for _, words := range commands {
		said, err := exec.CommandContext(ctx, "systemctl", words...).CombinedOutput() //nolint:gosec // G204: words of this function
		if err != nil {
			return true, fmt.Errorf("systemctl %s: %w: %s", strings.Join(words, " "), err, bytes.TrimSpace(said))
		}
	}
	return true, nil
}

func newGuardWatchCmd(e *Env) *cobra.Command {
	var o guardOptions
	cmd := &cobra.Command{
		Use: "watch", Short: "Check all guards again and again, and report to the server",
		Long: `Read every file that guarded hosts read again and again, and report to the server, which alerts operators
when a guard no longer holds or the reports end. A line is printed when a guard no longer holds, and when
it holds again. With --until-broken the command ends with 1 at the first one, so that a service manager
can tell. It reads files only; the canary of status asks the server about a call.`,
		Example: "  holdpoint guard watch\n  holdpoint guard watch --until-broken",
		RunE:    func(cmd *cobra.Command, _ []string) error { return e.watchGuards(cmd.Context(), &o) },
	}
	bindScope(cmd, &o)
	cmd.Flags().DurationVar(&o.interval, "interval", 10*time.Second, "time between two checks")
	cmd.Flags().BoolVar(&o.untilBroken, "until-broken", false, "end with 1 when a guard does not hold")
	return cmd
}

// guardReading is the state of a guard's files at one reading.
type guardReading struct {
	installed installedGuard
	problems  []string
	isGone    bool // its record was deleted
}

// watchedGuard is what a watcher knows of a guard. It stays known after its files are gone.
type watchedGuard struct {
	guardReading
	reporter *guardReporter // nil: it could not be made yet
	isKnown  bool           // it was read before

	reportedAt time.Time // of the last report that the server took
	failure    string    // of the last report; "": the server took it
}

// knownGuards are the guards of a watcher, by the file with the hook.
type knownGuards map[string]*watchedGuard

// watchGuards checks guards until the context ends.
func (e *Env) watchGuards(ctx context.Context, o *guardOptions) error {
	if o.interval < 100*time.Millisecond || o.interval > time.Hour {
		return misusef("--interval %s: must be between 100ms and 1h", o.interval)
	}
	known := knownGuards{}
	read := func() (map[string]guardReading, error) { return e.readGuards(known, o) }
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for {
		found, err := known.readSettled(read, func() error { return pause.For(ctx, settleTime) })
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		changed := known.storeReadings(found)
		e.reportWatched(ctx, known, changed, max(o.interval, watchBeat))
		for _, file := range changed {
			problems, state := known[file].problems, "holds\n"
			if len(problems) > 0 {
				state = "DOES NOT HOLD\n  " + strings.Join(problems, "\n  ") + "\n"
			}
			if err := write(e.Stdout, Visible(file+": "+state)); err != nil {
				return err
			}
			if len(problems) > 0 && o.untilBroken {
				return &ExitError{Code: ExitFailure}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// readGuards reads the files of all guards. A known guard that is no longer installed is gone.
func (e *Env) readGuards(known knownGuards, o *guardOptions) (map[string]guardReading, error) {
	guards, err := e.listGuards(nil, o)
	if err != nil && len(known) == 0 {
		return nil, err
	}
	found := map[string]guardReading{}
	for file, w := range known {
		found[file] = guardReading{w.installed, []string{"the guard is gone"}, true}
	}
	for _, one := range guards {
		found[one.machine.File(one.Host, one.Managed)] = guardReading{one, one.listBroken(), false}
	}
	return found, nil
}

// readSettled reads the guards, and again after a pause if one no longer holds: an installation writes several files, and what was read between
// two of them is no finding.
func (known knownGuards) readSettled(read func() (map[string]guardReading, error), wait func() error) (map[string]guardReading, error) {
	found, err := read()
	if err != nil || !known.hasNewBreak(found) {
		return found, err
	}
	if err := wait(); err != nil {
		return nil, err
	}
	return read()
}

// hasNewBreak reports whether a guard does not hold that held before or was unknown.
func (known knownGuards) hasNewBreak(found map[string]guardReading) bool {
	for file, r := range found {
		if w := known[file]; len(r.problems) > 0 && (w == nil || len(w.problems) == 0) {
			return true
		}
	}
	return false
}

// storeReadings stores what was read, and returns the files of the guards that changed.
func (known knownGuards) storeReadings(found map[string]guardReading) (changed []string) {
	for _, file := range slices.Sorted(maps.Keys(found)) {
		r, w := found[file], known[file]
		if w == nil {
			w = &watchedGuard{}
			known[file] = w
		}
		if !r.isGone && (w.installed.Guard == nil || w.installed.ID != r.installed.ID) {
			w.reporter, w.reportedAt = nil, time.Time{}
		}
		if !w.isKnown || w.isGone != r.isGone || !slices.Equal(w.problems, r.problems) {
			changed = append(changed, file)
		}
		w.guardReading, w.isKnown = r, true
	}
	return changed
}

// reportWatched reports about the guards that changed, and about all whose time has come, at once.
func (e *Env) reportWatched(ctx context.Context, known knownGuards, changed []string, beat time.Duration) {
	var reports sync.WaitGroup
	for file, w := range known {
		if w.failure == "" && !slices.Contains(changed, file) && e.Now().Sub(w.reportedAt) < beat {
			continue
		}
		reports.Go(func() { w.failure = e.reportOne(ctx, w, beat) })
	}
	reports.Wait()
}

// reportOne reports about a guard, and returns why the server did not take the report. A new reason is printed.
func (e *Env) reportOne(ctx context.Context, w *watchedGuard, beat time.Duration) string {
	var err error
	if w.reporter == nil {
		w.reporter, err = e.newGuardReporter(&w.installed)
	}
	if err == nil {
		err = w.reporter.send(ctx, beat, w.problems, w.isGone)
	}
	if err == nil || ctx.Err() != nil {
		w.reportedAt = e.Now()
		return ""
	}
	if !w.isGone {
		w.reporter = nil // its keys are read again
	}
	failure := describeError(err)
	if failure != w.failure {
		e.notef("Report about the guard of %s: %s", w.installed.Host, failure)
	}
	return failure
}

// listBroken returns everything that is broken; none if the guard holds.
func (g *installedGuard) listBroken() []string {
	var lines []string
	for _, finding := range g.Check(g.machine) {
		if finding.Broken {
			lines = append(lines, finding.Line())
		}
	}
	return lines
}

func newGuardListCmd(e *Env) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "list", Short: "List the guards that the server knows, those with an alert first",
		Long: `List the coding agents on all machines whose built-in tools ask this server: whether each guard holds, and when
it was last seen. It needs the token of an operator or a reviewer.`,
		Example: "  holdpoint guard list\n  holdpoint guard list --agent laptop --json",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.ListGuards(ctx, client.ListGuardsQuery{Agent: agent})
			return printList(e, reply, err, []string{"AGENT", "HOST", "MACHINE", "SETTINGS", "STATE", "SINCE", "LAST SEEN", "BYPASSED", "ID"}, func(g *client.Guard) []string {
				return []string{g.Agent, g.Host, g.Machine, g.Scope, g.State, formatTime(&g.StateAt), formatTime(&g.SeenAt), formatTime(g.BypassedAt), g.ID}
			})
		}),
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only guards of this agent")
	return cmd
}

func newGuardForgetCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "forget ID", Short: "Delete a guard that is no longer wanted from the server's list",
		Long: `Delete a guard from the server's list, such as that of a machine that is gone. Nothing changes on the machine:
if its watcher still runs, the guard is registered again.`,
		Example: "  holdpoint guard forget 5f2c1f3e-4f6b-4f53-9d8e-1f3f9f2f6f11",
		RunE:    e.deleteOne((*client.Client).ForgetGuard, "Forgotten."),
	}
}
