package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// crowd is the number of clients besides one at which overhead is measured.
const crowd = 32

// echoText is what is echoed.
var echoText = filled("", 64)

// sample is one round of one way to the tool.
type sample struct {
	p50, p99 float64 // µs
	rate     float64 // calls/s
	calls    int
	serve    float64 // µs of processor time a call
	database float64 // likewise
}

// series are the rounds of one way at one number of clients.
type series []sample

func (s series) pick(f func(sample) float64) []float64 {
	values := make([]float64, len(s))
	for i := range s {
		values[i] = f(s[i])
	}
	return values
}

func p50(s sample) float64         { return s.p50 }
func p99(s sample) float64         { return s.p99 }
func rate(s sample) float64        { return s.rate }
func serveCPU(s sample) float64    { return s.serve }
func databaseUse(s sample) float64 { return s.database }

// overhead compares an auto-approved call through Holdpoint with the same call made directly.
func overhead(ctx context.Context, b *bench) error {
	s, err := b.newStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	direct, err := openMany(ctx, s.direct(), crowd)
	if err != nil {
		return err
	}
	defer closeMany(direct)
	through, err := openMany(ctx, s.through(), crowd)
	if err != nil {
		return err
	}
	defer closeMany(through)
	for _, clients := range [][]*wire{direct, through} { // warm up
		if _, err := s.drive(ctx, clients, pick(b, 3*time.Second, time.Second)); err != nil {
			return err
		}
	}
	for _, n := range []int{1, crowd} {
		if err := s.compare(ctx, direct[:n], through[:n]); err != nil {
			return err
		}
	}
	if _, peak, err := memory(s.serve.pid()); err == nil {
		b.report.add("overhead", "peak memory of serve", "MiB", float64(peak)/(1<<20))
	}
	return s.profile(ctx, "overhead", func(ctx context.Context, d time.Duration) error {
		_, err := s.drive(ctx, through, d)
		return err
	})
}

// compare takes rounds of both ways in turns, so that both see the same weather.
func (s *stage) compare(ctx context.Context, direct, through []*wire) error {
	length := pick(s.bench, 2500*time.Millisecond, 300*time.Millisecond)
	var straight, gate series
	for round := range pick(s.bench, 9, 3) {
		for _, side := range []struct {
			clients []*wire
			into    *series
		}{{direct, &straight}, {through, &gate}} {
			one, err := s.drive(ctx, side.clients, length)
			if err != nil {
				return err
			}
			*side.into = append(*side.into, one)
		}
		s.sayf("  %2d clients, round %d: direct %.0f µs, through %.0f µs; %.0f/s, %.0f/s", len(direct), round+1,
			straight[round].p50, gate[round].p50, straight[round].rate, gate[round].rate)
	}
	s.tell(len(direct), straight, gate)
	return nil
}

// tell adds the figures of one comparison.
func (s *stage) tell(n int, direct, through series) {
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
		}{{"p50", "µs", p50}, {"p99", "µs", p99}, {"calls", "calls/s", rate}} {
			values := side.of.pick(f.of)
			r.add("overhead", at+", "+side.name+": "+f.name, f.unit, median(values)).spread(values)
		}
	}
	ratio := func(name string, f func(sample) float64) *figure {
		a, b := through.pick(f), direct.pick(f)
		return r.add("overhead", at+", through / direct: "+name, "ratio", median(a)/median(b)).spread(pairwise(a, b))
	}
	if f := ratio("p50", p50); n == 1 {
		f.atMost(3.3)
	}
	ratio("p99", p99)
	if f := ratio("calls/s", rate); n == crowd {
		f.atLeast(0.30)
	}
	if used := median(through.pick(serveCPU)); used > 0 {
		r.add("overhead", at+", processor time of serve", "µs/call", used)
	}
	if used := median(through.pick(databaseUse)); used > 0 {
		r.add("overhead", at+", processor time of PostgreSQL", "µs/call", used)
	}
}

// drive makes calls from all clients, each one after the other, for a time.
func (s *stage) drive(ctx context.Context, clients []*wire, length time.Duration) (sample, error) {
	before := s.meter(ctx)
	var all []time.Duration
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failure error
	began := time.Now()
	for _, w := range clients {
		wg.Go(func() {
			took, err := w.repeat(ctx, began.Add(length))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil {
				failure = err
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	if failure != nil {
		return sample{}, failure
	}
	serve, database := s.meter(ctx).since(before)
	slices.Sort(all)
	n := float64(len(all))
	return sample{
		p50: percentile(all, 0.50, time.Microsecond), p99: percentile(all, 0.99, time.Microsecond),
		rate: n / elapsed.Seconds(), calls: len(all), serve: serve / n, database: database / n,
	}, nil
}

// repeat calls until the time is over, and says how long each call took.
func (w *wire) repeat(ctx context.Context, until time.Time) ([]time.Duration, error) {
	var took []time.Duration
	for now := time.Now(); now.Before(until) && ctx.Err() == nil; {
		if err := w.call(echoText); err != nil {
			return nil, err
		}
		then := now
		now = time.Now()
		took = append(took, now.Sub(then))
	}
	return took, ctx.Err()
}

func openMany(ctx context.Context, t target, n int) ([]*wire, error) {
	wires := make([]*wire, 0, n)
	for range n {
		w, err := open(ctx, t)
		if err != nil {
			closeMany(wires)
			return nil, err
		}
		wires = append(wires, w)
	}
	return wires, nil
}

func closeMany(wires []*wire) {
	for _, w := range wires {
		w.close()
	}
}
