package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// parkedTables returns the tables that have a row for each parked call.
func parkedTables() []string { return []string{"calls", "approvals", "audit_events", "river_job"} }

// readTableSizes returns the bytes of each table and its indexes after VACUUM.
func (s *stage) readTableSizes(ctx context.Context) (map[string]int64, error) {
	sizes := make(map[string]int64)
	for _, table := range parkedTables() {
		if _, err := s.pool.Exec(ctx, "VACUUM "+pgx.Identifier{table}.Sanitize()); err != nil {
			return nil, fmt.Errorf("vacuum %s: %w", table, err)
		}
		var size int64
		if err := s.pool.QueryRow(ctx, `SELECT pg_total_relation_size($1::regclass)`, table).Scan(&size); err != nil {
			return nil, fmt.Errorf("read size of %s: %w", table, err)
		}
		sizes[table] = size
	}
	return sizes, nil
}

func (s *stage) reportTables(empty, full map[string]int64, n int) {
	total := 0.0
	for _, table := range parkedTables() {
		grown := float64(full[table]-empty[table]) / float64(n)
		total += grown
		s.report.addFigure("parked", "database, of it "+table, "bytes/call", grown)
	}
	s.report.addFigure("parked", fmt.Sprintf("database, %d parked", n), "bytes/call", total).aimAtMost(1536)
}

// usage is the server's memory.
type usage struct {
	rss, peak         int64
	heap, stack       float64
	goroutines, count float64 // count: garbage collections so far
}

func (s *stage) readUsage(ctx context.Context) (usage, error) {
	var u usage
	var err error
	if u.rss, u.peak, err = readMemory(s.serve.pid()); err != nil {
		return u, err
	}
	found, err := s.readMetrics(ctx)
	u.heap, u.stack = found["go_memstats_heap_alloc_bytes"], found["go_memstats_stack_inuse_bytes"]
	u.goroutines, u.count = found["go_goroutines"], found["go_gc_duration_seconds_count"]
	return u, err
}

// waitForSteadyMemory returns the server's memory after its garbage was collected and returned to the system. Go does this at least
// every two minutes.
func (s *stage) waitForSteadyMemory(ctx context.Context) (usage, error) {
	const step = 2 * time.Second
	steadySteps, last := choose(s.bench, 8, 1), choose(s.bench, time.Now().Add(4*time.Minute), time.Now().Add(3*step))
	first, err := s.readUsage(ctx)
	before := first
	for steady := 0; err == nil && time.Now().Before(last); {
		if err := pause.For(ctx, step); err != nil {
			return before, err
		}
		var now usage
		if now, err = s.readUsage(ctx); err != nil {
			return now, err
		}
		steady++
		if moved := now.rss - before.rss; now.count == first.count || now.count != before.count || moved > before.rss/200 || -moved > before.rss/200 {
			steady = 0
		}
		before = now
		if steady == steadySteps {
			break
		}
	}
	return before, err
}

func (s *stage) reportMemory(idle, busy usage, n int) {
	each := func(name, unit string, value float64) *figure {
		return s.report.addFigure("parked", name, unit, value/float64(n))
	}
	grown := float64(busy.rss - idle.rss)
	each(fmt.Sprintf("memory of serve, %d parked and connected", n), "KiB/call", grown/1024).aimAtMost(90)
	each("memory, of it Go heap in use", "KiB/call", (busy.heap-idle.heap)/1024)
	each("memory, of it Go stacks", "KiB/call", (busy.stack-idle.stack)/1024)
	each("goroutines", "per call", busy.goroutines-idle.goroutines)
	s.report.addFigure("parked", "peak memory of serve", "MiB", float64(busy.peak)/(1<<20))
}
