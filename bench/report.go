package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the content of results.json.
type report struct {
	Machine  machine    `json:"machine"`
	Subjects []*subject `json:"subjects,omitempty"`
	Figures  []*figure  `json:"figures"`
}

// machine describes the machine and the versions.
type machine struct {
	Date       string `json:"date"`
	Revision   string `json:"revision,omitempty"`
	System     string `json:"system"`
	Processor  string `json:"processor,omitempty"`
	Cores      int    `json:"cores"`
	Load       string `json:"load_before,omitempty"` // average of the last minute
	Go         string `json:"go"`
	Node       string `json:"node,omitempty"`
	PostgreSQL string `json:"postgresql"`
	Fsync      string `json:"fsync"`
	Commit     string `json:"synchronous_commit"`
	Quick      bool   `json:"quick,omitempty"`
}

// subject is a program that is measured beside others.
type subject struct {
	Phase   string `json:"phase"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Does    string `json:"does"`
	Missing string `json:"missing,omitempty"` // why it was not measured
}

// figure is one number. If it has an aim, Reached says whether it meets the aim.
type figure struct {
	Phase   string   `json:"phase"`
	Subject string   `json:"subject,omitempty"`
	Name    string   `json:"name"`
	Value   float64  `json:"value"`
	Unit    string   `json:"unit"`
	Low     *float64 `json:"lowest_round,omitempty"` // of the rounds whose median it is
	High    *float64 `json:"highest_round,omitempty"`
	Aim     string   `json:"aim,omitempty"`
	Reached *bool    `json:"reached,omitempty"`
}

// addFigure adds a figure.
func (r *report) addFigure(phase, name, unit string, value float64) *figure {
	f := &figure{Phase: phase, Name: name, Unit: unit, Value: roundFigure(value)}
	r.Figures = append(r.Figures, f)
	return f
}

// addTimes adds the median and the p99 of durations.
func (r *report) addTimes(phase, name string, took []time.Duration) (half, most *figure) {
	slices.Sort(took)
	return r.addFigure(phase, name+"p50", "ms", percentile(took, 0.50, time.Millisecond)),
		r.addFigure(phase, name+"p99", "ms", percentile(took, 0.99, time.Millisecond))
}

// addMedian adds the median of rounds, with the lowest and the highest of them.
func (r *report) addMedian(phase, name, unit string, rounds []float64) *figure {
	return r.addFigure(phase, name, unit, median(rounds)).addSpread(rounds)
}

// aimAtMost, aimBelow and aimAtLeast set the aim.
func (f *figure) aimAtMost(limit float64) {
	reached := f.Value <= limit
	f.Aim, f.Reached = "≤ "+formatNumber(limit), &reached
}

func (f *figure) aimBelow(limit float64) {
	reached := f.Value < limit
	f.Aim, f.Reached = "< "+formatNumber(limit), &reached
}

func (f *figure) aimAtLeast(limit float64) {
	reached := f.Value >= limit
	f.Aim, f.Reached = "≥ "+formatNumber(limit), &reached
}

// addSpread adds the lowest and the highest round.
func (f *figure) addSpread(rounds []float64) *figure {
	if len(rounds) > 1 {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range rounds {
			low, high = min(low, v), max(high, v)
		}
		low, high = roundFigure(low), roundFigure(high)
		f.Low, f.High = &low, &high
	}
	return f
}

// roundFigure keeps three significant digits, and all digits before the point.
func roundFigure(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, max(0, 2-math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*scale) / scale
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// printTable writes the figures as a table.
func (r *report) printTable(w io.Writer) error {
	m := r.Machine
	fmt.Fprintf(w, "\n%s, %d cores, Go %s, PostgreSQL %s (fsync %s), %s\n\n", m.System, m.Cores, m.Go, m.PostgreSQL, m.Fsync, m.Date)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "phase\tfigure\tvalue\tunit\trounds\taim\t")
	for _, f := range r.Figures {
		rounds, aim := "", f.Aim
		if f.Low != nil {
			rounds = formatNumber(*f.Low) + " to " + formatNumber(*f.High)
		}
		switch {
		case f.Reached == nil:
		case *f.Reached:
			aim += "  reached"
		default:
			aim += "  MISSED"
		}
		name := f.Name
		if f.Subject != "" {
			name = f.Subject + ", " + name
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t\n", f.Phase, name, formatNumber(f.Value), f.Unit, rounds, aim)
	}
	for _, s := range r.Subjects {
		if s.Missing != "" {
			fmt.Fprintf(table, "%s\t%s %s\tnot measured: %s\n", s.Phase, s.Name, s.Version, s.Missing)
		}
	}
	return table.Flush()
}

func (r *report) writeFile(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil { //nolint:gosec // G306: it is for everyone
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

func (b *bench) readMachine(ctx context.Context) error {
	m := machine{
		Date: time.Now().UTC().Format(time.DateOnly), System: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), Go: strings.TrimPrefix(runtime.Version(), "go"), Quick: b.quick,
	}
	m.readProc()
	err := b.db.Pool().QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'),
		current_setting('synchronous_commit')`).Scan(&m.PostgreSQL, &m.Fsync, &m.Commit)
	if err != nil {
		return fmt.Errorf("read the database's settings: %w", err)
	}
	git := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty")
	git.Dir = b.root
	if out, err := git.Output(); err == nil { // a source archive has no revision
		m.Revision = strings.TrimSpace(string(out))
	}
	b.report.Machine = m
	return nil
}
