package main

import (
	"context"
	"fmt"
	"time"
)

// The flags of the stage on which retention is measured. A third of the generated calls goes, a third loses arguments and results.
const (
	keepContent = "--keep-content=30d"
	keepCalls   = "--keep-calls=60d"
	keepEvents  = "--keep-events=60d"
)

// keptTables are the tables that grow with calls.
func keptTables() []string { return []string{"calls", "approvals", "call_facts", "audit_events"} }

// measureRetention measures what a million calls take in the database, how fast old ones are deleted, and what calls notice of it.
func measureRetention(ctx context.Context, s *stage) error {
	n := choose(s.bench, s.calls, 20_000)
	began := time.Now()
	if err := s.fillPast(ctx, n); err != nil {
		return err
	}
	s.logf("  made %d calls in %s", n, time.Since(began).Round(time.Second))
	if err := s.reportKeptSizes(ctx, n); err != nil {
		return err
	}
	through, err := connectClients(ctx, s.openTarget(), 4, 1, 4)
	if err != nil {
		return err
	}
	defer through.close()
	length := choose(s.bench, 2500*time.Millisecond, 300*time.Millisecond)
	drive := func(rounds int, more func() (bool, error)) (series, error) {
		var samples series
		for again := true; again && len(samples) < rounds; {
			one, err := s.driveCalls(ctx, through.wires, length)
			if err != nil {
				return nil, err
			}
			samples = append(samples, one)
			if again, err = more(); err != nil {
				return nil, err
			}
		}
		return samples, nil
	}
	always := func() (bool, error) { return true, nil }
	if _, err := drive(2, always); err != nil { // warm up
		return err
	}
	before, err := drive(choose(s.bench, 9, 3), always)
	if err != nil {
		return err
	}
	watch, stop := context.WithCancel(ctx)
	longest := make(chan time.Duration, 1)
	go func() { longest <- s.watchBatches(watch) }()
	began = time.Now()
	_, err = s.pool.Exec(ctx, `INSERT INTO river_job (kind, args, max_attempts, queue, priority, state) VALUES ('retention', '{}', 1, 'default', 1, 'available')`)
	var during series
	if err == nil {
		during, err = drive(1000, func() (more bool, err error) {
			err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE kind = 'retention' AND state IN ('available', 'running'))`).Scan(&more)
			return more, err
		})
	}
	took := time.Since(began)
	stop()
	locked := <-longest
	if err != nil {
		return err
	}
	return s.reportDeletion(ctx, took, locked, before, during)
}

// reportDeletion adds how fast rows were deleted, and what calls took before and meanwhile.
func (s *stage) reportDeletion(ctx context.Context, took, locked time.Duration, before, during series) error {
	var deleted int64
	if err := s.pool.QueryRow(ctx, `SELECT sum(deleted) FROM retention_progress`).Scan(&deleted); err != nil {
		return fmt.Errorf("read progress: %w", err)
	}
	r := &s.report
	r.addFigure("retention", "rows deleted or emptied, while calls pass", "rows/s", float64(deleted)/took.Seconds())
	r.addFigure("retention", "longest transaction", "ms", float64(locked.Microseconds())/1000)
	r.addMedian("retention", "calls, without retention: p50", "µs", before.valuesOf(p50))
	r.addMedian("retention", "calls, without retention: p99", "µs", before.valuesOf(p99))
	r.addMedian("retention", "calls, with retention: p50", "µs", during.valuesOf(p50))
	r.addMedian("retention", "calls, with retention: p99", "µs", during.valuesOf(p99))
	r.addMedian("retention", "calls, without retention: calls", "calls/s", before.valuesOf(callRate))
	r.addMedian("retention", "calls, with retention: calls", "calls/s", during.valuesOf(callRate))
	return nil
}

// reportKeptSizes adds what n calls take in the database.
func (s *stage) reportKeptSizes(ctx context.Context, n int) error {
	var all int64
	for _, table := range keptTables() {
		var size int64
		if err := s.pool.QueryRow(ctx, `SELECT pg_total_relation_size($1::text::regclass)`, table).Scan(&size); err != nil {
			return fmt.Errorf("measure %s: %w", table, err)
		}
		all += size
		s.report.addFigure("retention", "size of "+table+" per million calls", "MB", float64(size)/float64(n))
	}
	s.report.addFigure("retention", "size per million calls", "MB", float64(all)/float64(n))
	return nil
}

// watchBatches returns how long the longest transaction that deleted rows took, until ctx ends. Its locks are held as long.
func (s *stage) watchBatches(ctx context.Context) (longest time.Duration) {
	for ctx.Err() == nil {
		var seconds float64
		err := s.pool.QueryRow(ctx, `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float8 FROM pg_stat_activity a JOIN pg_locks l USING (pid)
			WHERE l.relation = 'retention_progress'::regclass AND l.mode = 'RowShareLock'`).Scan(&seconds)
		if err == nil {
			longest = max(longest, time.Duration(seconds*float64(time.Second)))
		}
	}
	return longest
}

// fillPast makes calls of the last 90 days: three in four auto-approved with two events, the others approved, with facts and four events.
func (s *stage) fillPast(ctx context.Context, n int) error {
	const perInsert = 200_000
	_, err := s.pool.Exec(ctx, `CREATE FUNCTION uuidv7_at(at timestamptz, g int) RETURNS uuid LANGUAGE sql IMMUTABLE
		AS $$ SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(g::text), 1, 3) || '8' || substr(md5(g::text), 4, 15))::uuid $$;
		INSERT INTO call_counting (until) VALUES (holdpoint_now() - interval '2 hours') ON CONFLICT (singleton) DO UPDATE SET until = excluded.until;
		CREATE TABLE past (g int, id uuid, at timestamptz)`)
	if err != nil {
		return fmt.Errorf("fill the past: %w", err)
	}
	steps := []string{
		`TRUNCATE past`,
		`INSERT INTO past SELECT g, uuidv7_at(at, g), at FROM (SELECT g, holdpoint_now() - interval '3 hours' - ($3::int - g) * interval '90 days' / $3 AS at
			FROM generate_series($1::int, $2::int) AS g) AS t`,
		`INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, finished_at, claimed_at, delivered_at, gated, status, tool, exposed_name, pin, arguments, result, measured)
			SELECT p.id, a.id, s.id, 1, p.at, p.at + interval '20 ms', p.at, CASE WHEN p.g % 4 = 0 THEN p.at END, p.g % 4 = 0, 'succeeded', 'echo', 'echo__echo', sha256('pin'),
				convert_to('{"text":"' || (SELECT string_agg(md5((p.g * 20 + i)::text), ' ') FROM generate_series(1, 12) AS i) || '"}', 'UTF8'),
				convert_to('{"content":[{"type":"text","text":"' || (SELECT string_agg(md5((p.g * 20 - i)::text), ' ') FROM generate_series(1, 24) AS i) || '"}]}', 'UTF8'),
				ARRAY[NULL, 400, 800, 20, 30, NULL, 2000, NULL, 500]
			FROM past p, (SELECT id FROM agents LIMIT 1) AS a, (SELECT id FROM skills LIMIT 1) AS s ORDER BY p.g`,
		`INSERT INTO approvals (call_id, digest, created_at, deadline, decided_at, decided_by, status, rule, agent_id, skill_id, tool)
			SELECT p.id, sha256(p.id::text::bytea), p.at, p.at + interval '5 min', p.at + interval '1 min', (SELECT id FROM people LIMIT 1), 'approved', 'gated', a.id, s.id, 'echo'
			FROM past p, (SELECT id FROM agents LIMIT 1) AS a, (SELECT id FROM skills LIMIT 1) AS s WHERE p.g % 4 = 0 ORDER BY p.g`,
		`INSERT INTO call_facts (call_id, agent_id, skill_id, tool, added_at, facts) SELECT p.id, a.id, s.id, 'echo', p.at,
				convert_to('[' || (SELECT string_agg('{"p":"/field' || i || '","k":115,"v":"value ' || p.g % 40 || '"}', ',') FROM generate_series(1, 6) AS i) || ']', 'UTF8')
			FROM past p, (SELECT id FROM agents LIMIT 1) AS a, (SELECT id FROM skills LIMIT 1) AS s WHERE p.g % 4 = 0 ORDER BY p.g`,
		`INSERT INTO audit_events (at, subject_id, actor_kind, actor_id, action, credential_kind, credential_id, address)
			SELECT p.at, p.id, 'agent', a.id, e.action, 'agent_key', a.id::text, '10.0.0.1' FROM past p, (SELECT id FROM agents LIMIT 1) AS a,
			LATERAL unnest(CASE WHEN p.g % 4 = 0 THEN '{call.parked,approval.approved,call.executing,call.succeeded}'::text[] ELSE '{call.allowed,call.succeeded}' END) AS e(action) ORDER BY p.g`,
	}
	for from := 1; from <= n; from += perInsert {
		for i, step := range steps {
			var args []any
			if i == 1 {
				args = []any{from, min(from+perInsert-1, n), n}
			}
			if _, err := s.pool.Exec(ctx, step, args...); err != nil {
				return fmt.Errorf("fill the past, step %d: %w", i, err)
			}
		}
	}
	for _, sql := range []string{`DROP TABLE past`, `VACUUM ANALYZE`, `CHECKPOINT`} {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("fill the past: %w", err)
		}
	}
	return nil
}
