package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// measureParkingRate counts parked calls per second. Each call is held open on its own connection, which exists before.
func measureParkingRate(ctx context.Context, s *stage) error {
	first := 0
	round := func(n, submitters int) (float64, error) {
		took, err := s.parkOnce(ctx, first, n, submitters)
		first += n
		return float64(n) / took.Seconds(), err
	}
	if _, err := round(choose(s.bench, 2000, 200), 16); err != nil { // warm up
		return err
	}
	rates := map[int][]float64{}
	sizes := map[int]int{1: choose(s.bench, 1000, 100), 16: choose(s.bench, 4000, 400)}
	for i := range choose(s.bench, 7, 3) {
		for _, submitters := range []int{1, 16} {
			rate, err := round(sizes[submitters], submitters)
			if err != nil {
				return err
			}
			rates[submitters] = append(rates[submitters], rate)
		}
		s.logf("  round %d: %.0f parked/s with 1 client, %.0f with 16", i+1, rates[1][i], rates[16][i])
	}
	s.report.addMedian("parked", "1 client: calls parked", "calls/s", rates[1])
	s.report.addMedian("parked", "16 clients: calls parked", "calls/s", rates[16]).aimAtLeast(2000)
	return s.profileLoad(ctx, "parked", func(_ context.Context, d time.Duration) error {
		for until := time.Now().Add(d); time.Now().Before(until); {
			if _, err := round(sizes[16], 16); err != nil {
				return err
			}
		}
		return nil
	})
}

// parkOnce parks n calls and disconnects their clients.
func (s *stage) parkOnce(ctx context.Context, first, n, submitters int) (time.Duration, error) {
	clients, err := connectClients(ctx, s.gatedTarget(), n, submitters, submitters)
	if err != nil {
		return 0, err
	}
	_, took, err := clients.parkCalls(first)
	clients.close()
	if err != nil {
		return 0, err
	}
	return took, s.waitForGoroutines(ctx, 200)
}

// waitForGoroutines waits until the server has let go of clients that left.
func (s *stage) waitForGoroutines(ctx context.Context, below float64) error {
	return s.serve.waitFor(ctx, time.Minute, func(ctx context.Context) bool {
		found, err := s.readMetrics(ctx)
		return err == nil && found["go_goroutines"] < below
	})
}

// measureFootprint measures the size of many parked calls, in the database and in the server's memory. Each client stays connected
// with its own session.
func measureFootprint(ctx context.Context, s *stage) error {
	n := choose(s.bench, 10_000, 1000)
	if err := checkFileLimit(n + 200); err != nil {
		return err
	}
	const warmUp = 100
	if _, err := s.parkOnce(ctx, 0, warmUp, 16); err != nil {
		return err
	}
	idle, err := s.waitForSteadyMemory(ctx)
	if err != nil {
		return err
	}
	clients, err := connectClients(ctx, s.gatedTarget(), n, 16, n)
	if err != nil {
		return err
	}
	defer clients.close()
	empty, err := s.readTableSizes(ctx)
	if err != nil {
		return err
	}
	calls, took, err := clients.parkCalls(warmUp)
	if err != nil {
		return err
	}
	s.logf("  %d calls parked in %.1f s", n, took.Seconds())
	full, err := s.readTableSizes(ctx)
	if err != nil {
		return err
	}
	busy, err := s.waitForSteadyMemory(ctx)
	if err != nil {
		return err
	}
	watched := n - n/20 - n/100 // the answers to the others show that they are connected
	if err := s.checkParked(ctx, calls[:watched]); err != nil {
		return err
	}
	s.reportTables(empty, full, n)
	s.reportMemory(idle, busy, n)
	if err := s.writeSnapshot(ctx, "footprint"); err != nil {
		return err
	}
	return s.answerAmong(ctx, calls, watched, warmUp)
}

// answerAmong approves the calls from watched on, and measures how soon their clients have the answers while all others wait. The
// number of the first call is first.
func (s *stage) answerAmong(ctx context.Context, calls []heldCall, watched, first int) error {
	warm := len(calls) / 100
	targets, err := s.readApprovals(ctx, calls, watched)
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
	_, most := s.report.addTimes("parked", fmt.Sprintf("%d connected, 50 approvals/s: approve request to the agent's answer, ", len(calls)), took)
	most.aimBelow(50)
	return nil
}

// checkParked checks that all calls are parked and their clients connected.
func (s *stage) checkParked(ctx context.Context, calls []heldCall) error {
	var waiting int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE status = 'pending'`).Scan(&waiting); err != nil {
		return fmt.Errorf("count parked calls: %w", err)
	}
	gone := 0
	for _, call := range calls {
		if !call.isConnected() {
			gone++
		}
	}
	if waiting < len(calls) || gone > 0 {
		return fmt.Errorf("of %d calls %d are parked, and %d clients were disconnected", len(calls), waiting, gone)
	}
	return nil
}

// checkFileLimit checks that n files may be open. Go raises the limit as far as it may.
func checkFileLimit(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if limit.Cur < uint64(n) { //nolint:gosec // G115: n is some thousands
		return fmt.Errorf("%d files may be open, and %d must: raise the limit (ulimit -n)", limit.Cur, n)
	}
	return nil
}
