package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// crowd is the larger number of clients; overhead is also measured with one.
const crowd = 32

// echoedText is the text of every call.
var echoedText = filledText("", 64)

// sample is the result of one round with one target.
type sample struct {
	p50, p99 float64 // µs
	rate     float64 // calls/s
	calls    int
	serve    float64 // µs of processor time per call
	database float64 // µs of processor time per call
}

// series holds the rounds of one target with one number of clients.
type series []sample

func (s series) valuesOf(f func(sample) float64) []float64 {
	values := make([]float64, len(s))
	for i := range s {
		values[i] = f(s[i])
	}
	return values
}

func p50(s sample) float64      { return s.p50 }
func p99(s sample) float64      { return s.p99 }
func callRate(s sample) float64 { return s.rate }

// measureOverhead compares an auto-approved call through Holdpoint with the same direct call.
func measureOverhead(ctx context.Context, s *stage) error {
	direct, err := connectClients(ctx, s.directTarget(), crowd, 1, crowd)
	if err != nil {
		return err
	}
	defer direct.close()
	through, err := connectClients(ctx, s.openTarget(), crowd, 1, crowd)
	if err != nil {
		return err
	}
	defer through.close()
	for _, clients := range [][]*wire{direct.wires, through.wires} { // warm up
		if _, err := s.driveCalls(ctx, clients, choose(s.bench, 3*time.Second, time.Second)); err != nil {
			return err
		}
	}
	for _, n := range []int{1, crowd} {
		if err := s.compareTargets(ctx, direct.wires[:n], through.wires[:n]); err != nil {
			return err
		}
	}
	if _, peak, err := readMemory(s.serve.pid()); err == nil {
		s.report.addFigure("overhead", "peak memory of serve", "MiB", float64(peak)/(1<<20))
	}
	return s.profileLoad(ctx, "overhead", func(ctx context.Context, d time.Duration) error {
		_, err := s.driveCalls(ctx, through.wires, d)
		return err
	})
}

// compareTargets alternates rounds with both targets, so that both run under the same conditions.
func (s *stage) compareTargets(ctx context.Context, direct, through []*wire) error {
	length := choose(s.bench, 2500*time.Millisecond, 300*time.Millisecond)
	var straight, gate series
	for round := range choose(s.bench, 9, 3) {
		for _, side := range []struct {
			clients []*wire
			into    *series
		}{{direct, &straight}, {through, &gate}} {
			one, err := s.driveCalls(ctx, side.clients, length)
			if err != nil {
				return err
			}
			*side.into = append(*side.into, one)
		}
		s.logf("  %2d clients, round %d: direct %.0f µs, through %.0f µs; %.0f/s, %.0f/s", len(direct), round+1,
			straight[round].p50, gate[round].p50, straight[round].rate, gate[round].rate)
	}
	s.reportComparison(len(direct), straight, gate)
	return nil
}

// reportComparison adds the figures of one comparison.
func (s *stage) reportComparison(n int, direct, through series) {
	r, at := &s.report, fmt.Sprintf("%d clients", n)
	if n == 1 {
		at = "1 client"
	}
	for _, side := range []struct {
		name string
		of   series
	}{{"direct", direct}, {"through", through}} {
		for _, f := range []struct {
			name, unit string
			of         func(sample) float64
		}{{"p50", "µs", p50}, {"p99", "µs", p99}, {"calls", "calls/s", callRate}} {
			r.addMedian("overhead", at+", "+side.name+": "+f.name, f.unit, side.of.valuesOf(f.of))
		}
	}
	ratio := func(name string, f func(sample) float64) *figure {
		a, b := through.valuesOf(f), direct.valuesOf(f)
		return r.addFigure("overhead", at+", through / direct: "+name, "ratio", median(a)/median(b)).addSpread(divideRounds(a, b))
	}
	if f := ratio("p50", p50); n == 1 {
		f.aimAtMost(3.3)
	}
	ratio("p99", p99)
	if f := ratio("calls/s", callRate); n == crowd {
		f.aimAtLeast(0.30)
	}
	if used := median(through.valuesOf(func(s sample) float64 { return s.serve })); used > 0 {
		r.addFigure("overhead", at+", processor time of serve", "µs/call", used)
	}
	if used := median(through.valuesOf(func(s sample) float64 { return s.database })); used > 0 {
		r.addFigure("overhead", at+", processor time of PostgreSQL", "µs/call", used)
	}
}

// driveCalls makes calls with all clients for a time. Each client makes one call after the other.
func (s *stage) driveCalls(ctx context.Context, clients []*wire, length time.Duration) (sample, error) {
	return s.driveClients(ctx, clients, func(i int, began time.Time) ([]time.Duration, error) {
		return clients[i].repeatCalls(ctx, began.Add(length))
	})
}

// driveAtRate makes calls at a steady rate for a time. The time of a call begins when it is due, so it includes the wait for its client.
func (s *stage) driveAtRate(ctx context.Context, clients []*wire, perSecond float64, length time.Duration) (sample, error) {
	pause := time.Duration(float64(time.Second) / perSecond)
	return s.driveClients(ctx, clients, func(i int, began time.Time) ([]time.Duration, error) {
		return clients[i].paceCalls(ctx, began.Add(time.Duration(i)*pause), pause*time.Duration(len(clients)), began.Add(length))
	})
}

// driveClients runs drive for all clients. It returns the duration of each call.
func (s *stage) driveClients(ctx context.Context, clients []*wire, drive func(i int, began time.Time) ([]time.Duration, error)) (sample, error) {
	before := s.readMeter(ctx)
	var all []time.Duration
	var mu sync.Mutex
	var group errgroup.Group
	began := time.Now()
	for i := range clients {
		group.Go(func() error {
			took, err := drive(i, began)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			return err
		})
	}
	failure := group.Wait()
	elapsed := time.Since(began)
	if failure != nil {
		return sample{}, failure
	}
	serve, database := s.readMeter(ctx).usedSince(before)
	slices.Sort(all)
	n := float64(len(all))
	return sample{
		p50: percentile(all, 0.50, time.Microsecond), p99: percentile(all, 0.99, time.Microsecond),
		rate: n / elapsed.Seconds(), calls: len(all), serve: serve / n, database: database / n,
	}, nil
}

// repeatCalls makes calls until the time is over, and returns the duration of each.
func (w *wire) repeatCalls(ctx context.Context, until time.Time) ([]time.Duration, error) {
	var took []time.Duration
	for now := time.Now(); now.Before(until) && ctx.Err() == nil; {
		if err := w.callTool(echoedText); err != nil {
			return nil, err
		}
		then := now
		now = time.Now()
		took = append(took, now.Sub(then))
	}
	return took, ctx.Err()
}

// paceCalls makes a call after each pause until the time is over, and returns how long after it was due each ended.
func (w *wire) paceCalls(ctx context.Context, first time.Time, pause time.Duration, until time.Time) ([]time.Duration, error) {
	var took []time.Duration
	for due := first; due.Before(until) && ctx.Err() == nil; due = due.Add(pause) {
		time.Sleep(time.Until(due))
		if err := w.callTool(echoedText); err != nil {
			return nil, err
		}
		took = append(took, time.Since(due))
	}
	return took, ctx.Err()
}
