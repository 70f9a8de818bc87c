package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// tables are those that have a row for every parked call.
func tables() []string { return []string{"calls", "approvals", "audit_events", "river_job"} }

// tableSizes are the bytes of each table with its indexes, after VACUUM.
func (s *stage) tableSizes(ctx context.Context) (map[string]int64, error) {
	sizes := make(map[string]int64)
	for _, table := range tables() {
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

func (s *stage) tellTables(empty, full map[string]int64, n int) {
	total := 0.0
	for _, table := range tables() {
		grown := float64(full[table]-empty[table]) / float64(n)
		total += grown
		s.report.add("parked", "database, of it "+table, "bytes/call", grown)
	}
	s.report.add("parked", fmt.Sprintf("database, %d parked", n), "bytes/call", total).atMost(1536)
}

// usage is the server's memory.
type usage struct {
	rss, peak         int64
	heap, stack       float64
	goroutines, count float64 // and garbage collections so far
}

func (s *stage) usage(ctx context.Context) (usage, error) {
	var u usage
	var err error
	if u.rss, u.peak, err = memory(s.serve.pid()); err != nil {
		return u, err
	}
	found, err := s.metrics(ctx)
	u.heap, u.stack = found["go_memstats_heap_alloc_bytes"], found["go_memstats_stack_inuse_bytes"]
	u.goroutines, u.count = found["go_goroutines"], found["go_gc_duration_seconds_count"]
	return u, err
}

// settled is the server's memory once its garbage was collected and given back: Go
// does so every two minutes at the latest.
func (s *stage) settled(ctx context.Context) (usage, error) {
	const step = 2 * time.Second
	steadySteps, last := pick(s.bench, 8, 1), pick(s.bench, time.Now().Add(4*time.Minute), time.Now().Add(3*step))
	first, err := s.usage(ctx)
	before := first
	for steady := 0; err == nil && time.Now().Before(last); {
		select {
		case <-ctx.Done():
			return before, ctx.Err()
		case <-time.After(step):
		}
		var now usage
		if now, err = s.usage(ctx); err != nil {
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

func (s *stage) tellMemory(idle, busy usage, n int) {
	each := func(name, unit string, value float64) *figure {
		return s.report.add("parked", name, unit, value/float64(n))
	}
	grown := float64(busy.rss - idle.rss)
	each(fmt.Sprintf("memory of serve, %d parked and connected", n), "KiB/call", grown/1024).atMost(90)
	each("memory, of it Go heap in use", "KiB/call", (busy.heap-idle.heap)/1024)
	each("memory, of it Go stacks", "KiB/call", (busy.stack-idle.stack)/1024)
	each("goroutines", "per call", busy.goroutines-idle.goroutines)
	s.report.add("parked", "peak memory of serve", "MiB", float64(busy.peak)/(1<<20))
}
