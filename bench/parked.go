package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// parked measures how fast calls are parked, and what each one costs while it waits.
func parked(ctx context.Context, b *bench) error {
	if err := parkingRate(ctx, b); err != nil {
		return err
	}
	return footprint(ctx, b)
}

// parkingRate counts parked calls a second. Each is held open on a connection of its
// own that was there before.
func parkingRate(ctx context.Context, b *bench) error {
	s, err := b.newStage(ctx, "--max-connections", "20000")
	if err != nil {
		return err
	}
	defer s.close()
	first := 0
	round := func(n, submitters int) (float64, error) {
		took, err := s.parkOnce(ctx, first, n, submitters)
		first += n
		return float64(n) / took.Seconds(), err
	}
	if _, err := round(pick(b, 2000, 200), 16); err != nil { // warm up
		return err
	}
	rates := map[int][]float64{}
	sizes := map[int]int{1: pick(b, 1000, 100), 16: pick(b, 4000, 400)}
	for i := range pick(b, 7, 3) {
		for _, submitters := range []int{1, 16} {
			rate, err := round(sizes[submitters], submitters)
			if err != nil {
				return err
			}
			rates[submitters] = append(rates[submitters], rate)
		}
		s.sayf("  round %d: %.0f parked/s with 1 client, %.0f with 16", i+1, rates[1][i], rates[16][i])
	}
	b.report.add("parked", "1 client: calls parked", "calls/s", median(rates[1])).spread(rates[1])
	b.report.add("parked", "16 clients: calls parked", "calls/s", median(rates[16])).spread(rates[16]).atLeast(2000)
	return s.profile(ctx, "parked", func(_ context.Context, d time.Duration) error {
		for until := time.Now().Add(d); time.Now().Before(until); {
			if _, err := round(sizes[16], 16); err != nil {
				return err
			}
		}
		return nil
	})
}

// parkOnce parks n calls, and lets their clients leave.
func (s *stage) parkOnce(ctx context.Context, first, n, submitters int) (time.Duration, error) {
	clients, err := enlist(ctx, s.gated(), n, submitters, submitters)
	if err != nil {
		return 0, err
	}
	_, took, err := clients.park(first)
	clients.dismiss()
	if err != nil {
		return 0, err
	}
	return took, s.serve.until(ctx, time.Minute, func(ctx context.Context) bool {
		found, err := s.metrics(ctx)
		return err == nil && found["go_goroutines"] < 200
	})
}

// footprint measures what many parked calls take, in the database and in the
// server's memory, with their clients connected, each in a session of its own.
func footprint(ctx context.Context, b *bench) error {
	s, err := b.newStage(ctx, "--max-connections", "20000")
	if err != nil {
		return err
	}
	defer s.close()
	n := pick(b, 10_000, 1000)
	if err := enoughFiles(n + 200); err != nil {
		return err
	}
	const warmUp = 100
	if _, err := s.parkOnce(ctx, 0, warmUp, 16); err != nil {
		return err
	}
	idle, err := s.settled(ctx)
	if err != nil {
		return err
	}
	clients, err := enlist(ctx, s.gated(), n, 16, n)
	if err != nil {
		return err
	}
	defer clients.dismiss()
	empty, err := s.tableSizes(ctx)
	if err != nil {
		return err
	}
	calls, took, err := clients.park(warmUp)
	if err != nil {
		return err
	}
	s.sayf("  %d calls parked in %.1f s", n, took.Seconds())
	full, err := s.tableSizes(ctx)
	if err != nil {
		return err
	}
	busy, err := s.settled(ctx)
	if err != nil {
		return err
	}
	watched := n - n/20 - n/100 // whether the others are still there, their answers will tell
	if err := s.stillParked(ctx, calls[:watched]); err != nil {
		return err
	}
	s.tellTables(empty, full, n)
	s.tellMemory(idle, busy, n)
	if err := s.snapshot(ctx, "footprint"); err != nil {
		return err
	}
	return s.answerAmong(ctx, calls, watched, warmUp)
}

// answerAmong approves the last of the calls, and measures how soon their clients have the answers while all others wait. The
// first call has the number first.
func (s *stage) answerAmong(ctx context.Context, calls []held, watched, first int) error {
	warm := len(calls) / 100
	targets, err := s.examine(ctx, calls, watched)
	if err != nil {
		return err
	}
	for _, call := range targets {
		call.number += first
	}
	if err := s.approveAll(ctx, targets[:warm], 50); err != nil {
		return err
	}
	if err := s.approveAll(ctx, targets[warm:], 50); err != nil {
		return err
	}
	var took []time.Duration
	for _, call := range targets[warm:] {
		took = append(took, call.answered.Sub(call.sent))
	}
	slices.Sort(took)
	at := fmt.Sprintf("%d connected, 50 approvals/s: approve request to the agent's answer, ", len(calls))
	s.report.add("parked", at+"p50", "ms", percentile(took, 0.50, time.Millisecond))
	s.report.add("parked", at+"p99", "ms", percentile(took, 0.99, time.Millisecond)).below(50)
	return nil
}

// stillParked makes sure that what was measured was there.
func (s *stage) stillParked(ctx context.Context, calls []held) error {
	var waiting int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE status = 'pending'`).Scan(&waiting); err != nil {
		return fmt.Errorf("count parked calls: %w", err)
	}
	gone := 0
	for _, call := range calls {
		if !call.connected() {
			gone++
		}
	}
	if waiting < len(calls) || gone > 0 {
		return fmt.Errorf("of %d calls %d are parked, and %d clients were disconnected", len(calls), waiting, gone)
	}
	return nil
}

// enoughFiles checks that so many connections may be open. Go has raised the limit already.
func enoughFiles(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if limit.Cur < uint64(n) { //nolint:gosec // G115: n is some thousands
		return fmt.Errorf("%d files may be open, and %d must: raise the limit (ulimit -n)", limit.Cur, n)
	}
	return nil
}
