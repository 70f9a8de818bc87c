package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// The flags of the stage on which retention is measured. A third of the generated calls goes, a third loses arguments and results.
const (
	keepContent = "--keep-content=30d"
	keepCalls   = "--keep-calls=60d"
	keepEvents  = "--keep-events=60d"
)

// keptTables are the tables that grow with calls.
func keptTables() []string { return []string{"calls", "approvals", "call_facts", "audit_events"} }

// steadyRate is the rate of the calls that pass while retention deletes, or steadyShare of what the machine can do, if that is less.
const (
	steadyRate  = 1000
	steadyShare = 0.7
)

// measureRetention measures what a million calls take in the database, how long reads take among them, how fast old ones are deleted, and
// what calls notice of it.
func measureRetention(ctx context.Context, s *stage) error {
	n := choose(s.bench, s.calls, 20_000)
	resume, err := s.pauseRetention(ctx)
	if err != nil {
		return err
	}
	defer resume()
	if err := s.measurePast(ctx, n); err != nil {
		return err
	}
	through, err := connectClients(ctx, s.openTarget(), crowd, 1, crowd)
	if err != nil {
		return err
	}
	defer through.close()
	var since time.Time
	if err := s.pool.QueryRow(ctx, `SELECT holdpoint_now()`).Scan(&since); err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	most, err := s.driveCalls(ctx, through.wires, choose(s.bench, 5*time.Second, 500*time.Millisecond))
	if err != nil {
		return err
	}
	load := steadyLoad{s, through.wires, min(steadyRate, most.rate*steadyShare), most.calls}
	always := func() (bool, error) { return true, nil }
	if _, err := load.drive(ctx, 2, always); err != nil { // warm up
		return err
	}
	before, err := load.drive(ctx, choose(s.bench, 24, 3), always)
	if err != nil {
		return err
	}
	resume()
	watch, stop := context.WithCancel(ctx)
	longest := make(chan time.Duration, 1)
	go func() { longest <- s.watchBatches(watch) }()
	began := time.Now()
	job, err := s.runJob(ctx, "retention")
	var during series
	if err == nil {
		during, err = load.drive(ctx, 1000, func() (bool, error) { return s.isAtWork(ctx, job) })
	}
	took := time.Since(began)
	stop()
	locked := <-longest
	if err != nil {
		return err
	}
	if err := s.checkRecorded(ctx, since, load.made); err != nil {
		return err
	}
	return s.reportDeletion(ctx, took, locked, load.rate, before, during)
}

// pauseRetention takes the lock of the server's batches, which would delete every ten minutes. The returned function gives it back.
func (s *stage) pauseRetention(ctx context.Context) (resume func(), err error) {
	if _, err := s.pool.Exec(ctx, `INSERT INTO retention_progress (kind) VALUES ('run') ON CONFLICT DO NOTHING`); err != nil {
		return nil, fmt.Errorf("pause retention: %w", err)
	}
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("pause retention: %w", err)
	}
	resume = func() { _ = tx.Rollback(context.WithoutCancel(ctx)) } // it may have ended
	if _, err := tx.Exec(ctx, `SELECT FROM retention_progress WHERE kind = 'run' FOR UPDATE`); err != nil {
		resume()
		return nil, fmt.Errorf("pause retention: %w", err)
	}
	return resume, nil
}

// runJob starts a job of the server, and returns its id.
func (s *stage) runJob(ctx context.Context, kind string) (id int64, err error) {
	err = s.pool.QueryRow(ctx, `INSERT INTO river_job (kind, args, max_attempts, queue, priority, state)
		VALUES ($1, '{}', 1, 'default', 1, 'available') RETURNING id`, kind).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("start job %s: %w", kind, err)
	}
	return id, nil
}

// isAtWork reports whether a job runs or is about to. The server starts others of its kind.
func (s *stage) isAtWork(ctx context.Context, job int64) (at bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE id = $1 AND state IN ('available', 'running'))`, job).Scan(&at)
	return at, err
}

// checkRecorded checks that all calls that were answered since a time are in the database.
func (s *stage) checkRecorded(ctx context.Context, since time.Time, made int) error {
	var recorded int
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM calls WHERE created_at >= $1 AND status = 'succeeded' AND NOT gated`, since).Scan(&recorded)
	if err != nil {
		return fmt.Errorf("count calls: %w", err)
	}
	if recorded != made {
		return fmt.Errorf("%d calls were answered, and %d are recorded as succeeded", made, recorded)
	}
	return nil
}

// countPast has the server count the calls, as it does every ten minutes.
func (s *stage) countPast(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `UPDATE call_counting SET until = date_bin(interval '1 hour', holdpoint_now() - interval '91 days', 'epoch')`); err != nil {
		return fmt.Errorf("count calls: %w", err)
	}
	began := time.Now()
	job, err := s.runJob(ctx, "call_count")
	if err != nil {
		return err
	}
	err = s.serve.waitFor(ctx, time.Hour, func(ctx context.Context) bool {
		at, err := s.isAtWork(ctx, job)
		return err == nil && !at
	})
	if err == nil {
		s.report.addFigure("retention", "counting all calls for insights", "s", time.Since(began).Seconds())
	}
	return err
}

// steadyLoad makes calls at a steady rate, and counts them.
type steadyLoad struct {
	*stage
	clients []*wire
	rate    float64 // calls a second
	made    int
}

// drive makes calls in rounds until more reports false.
func (l *steadyLoad) drive(ctx context.Context, rounds int, more func() (bool, error)) (series, error) {
	var samples series
	for again := true; again && len(samples) < rounds; {
		one, err := l.driveAtRate(ctx, l.clients, l.rate, choose(l.bench, 2500*time.Millisecond, 300*time.Millisecond))
		if err != nil {
			return nil, err
		}
		l.made += one.calls
		samples = append(samples, one)
		if again, err = more(); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// measurePast makes n calls of the past, and measures their size and reads among them.
func (s *stage) measurePast(ctx context.Context, n int) error {
	began := time.Now()
	if err := s.fillPast(ctx, n); err != nil {
		return err
	}
	s.logf("  made %d calls in %s", n, time.Since(began).Round(time.Second))
	if err := s.reportKeptSizes(ctx, n); err != nil {
		return err
	}
	if err := s.countPast(ctx); err != nil {
		return err
	}
	return s.reportPastTimes(ctx)
}

// reportPastTimes measures pages of the dashboard among the generated calls, 1,000 of which wait for a reviewer.
func (s *stage) reportPastTimes(ctx context.Context) error {
	if _, err := s.parkOnce(ctx, 0, choose(s.bench, 1000, 50), 16); err != nil {
		return err
	}
	d, err := s.signIn(ctx, s.token)
	if err != nil {
		return err
	}
	defer d.close()
	for _, page := range []struct{ name, path string }{
		{"queue of 1000", "/"},
		{"history", "/calls"},
		{"history of 60 days ago", "/calls?to=" + time.Now().AddDate(0, 0, -60).Format(time.DateOnly)},
		{"history, rejected calls (none)", "/calls?status=rejected"},
		{"search for a text (none)", "/calls?text=needle"},
		{"search for a part of a tool's name", "/calls?text=ech"},
		{"insights of 24 hours", "/insights?range=24h"},
		{"insights of 90 days", "/insights?range=90d"},
		{"insights of tools, 90 days", "/insights/tools?range=90d"},
		{"audit log", "/audit"},
	} {
		var took []time.Duration
		var failed error
		for range choose(s.bench, 20, 2) {
			var one time.Duration
			if one, failed = d.timePage(ctx, page.path); failed != nil {
				s.logf("  %s: %v after %s", page.name, failed, one.Round(time.Millisecond))
				break
			}
			took = append(took, one)
		}
		if failed == nil {
			s.report.addTimes("retention", page.name+", page, ", took)
		}
	}
	return nil
}

// reportDeletion adds how fast rows were deleted, and what calls took before and meanwhile.
func (s *stage) reportDeletion(ctx context.Context, took, locked time.Duration, rate float64, before, during series) error {
	var deleted int64
	if err := s.pool.QueryRow(ctx, `SELECT sum(deleted) FROM retention_progress`).Scan(&deleted); err != nil {
		return fmt.Errorf("read progress: %w", err)
	}
	r := &s.report
	r.addFigure("retention", "rows deleted or emptied, while calls pass", "rows/s", float64(deleted)/took.Seconds())
	r.addFigure("retention", "longest transaction", "ms", float64(locked.Microseconds())/1000)
	r.addFigure("retention", "calls, steady rate", "calls/s", rate)
	for _, f := range []struct {
		name, unit string
		of         func(sample) float64
	}{{"p50", "µs", p50}, {"p99", "µs", p99}, {"calls", "calls/s", callRate}} {
		r.addMedian("retention", "calls, without retention: "+f.name, f.unit, before.valuesOf(f.of))
		r.addMedian("retention", "calls, with retention: "+f.name, f.unit, during.valuesOf(f.of))
	}
	r.addFigure("retention", "calls, with / without retention: p99", "ratio", median(during.valuesOf(p99))/median(before.valuesOf(p99))).aimAtMost(1.1)
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
		_ = pause.For(ctx, 5*time.Millisecond) // its end ends the loop
	}
	return longest
}

// fillPast makes calls of the last 90 days: three in four auto-approved with two events, the others approved, with facts and four events.
func (s *stage) fillPast(ctx context.Context, n int) error {
	const perInsert = 200_000
	if _, err := s.parkOnce(ctx, 0, 1, 1); err != nil { // so that there is a definition
		return err
	}
	_, err := s.pool.Exec(ctx, `CREATE FUNCTION uuidv7_at(at timestamptz, g int) RETURNS uuid LANGUAGE sql IMMUTABLE
		AS $$ SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(g::text), 1, 3) || '8' || substr(md5(g::text), 4, 15))::uuid $$;
		INSERT INTO call_counting (until) VALUES (holdpoint_now() - interval '2 hours') ON CONFLICT (singleton) DO UPDATE SET until = excluded.until`)
	if err != nil {
		return fmt.Errorf("fill the past: %w", err)
	}
	steps := []string{
		`CREATE TEMPORARY TABLE IF NOT EXISTS past (g int, id uuid, at timestamptz)`,
		`TRUNCATE past`,
		`INSERT INTO past SELECT g, uuidv7_at(at, g), at FROM (SELECT g, holdpoint_now() - interval '3 hours' - ($3::int - g) * interval '90 days' / $3 AS at
			FROM generate_series($1::int, $2::int) AS g) AS t`,
		`INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, finished_at, claimed_at, delivered_at, gated, status, tool, exposed_name, pin, arguments, result, measured)
			SELECT p.id, a.id, s.id, 1, p.at, p.at + interval '20 ms', p.at, CASE WHEN p.g % 4 = 0 THEN p.at END, p.g % 4 = 0, 'succeeded', 'echo', 'echo__echo', (SELECT current_pin FROM skill_tools LIMIT 1),
				convert_to('{"text":"' || rpad('', 395, md5(p.g::text) || ' ') || '"}', 'UTF8'),
				convert_to('{"content":[{"type":"text","text":"' || rpad('', 791, md5((-p.g)::text) || ' ') || '"}]}', 'UTF8'),
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
	var group errgroup.Group
	group.SetLimit(2)
	for from := 1; from <= n; from += perInsert {
		group.Go(func() error {
			return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
				for i, step := range steps {
					var args []any
					if i == 2 {
						args = []any{from, min(from+perInsert-1, n), n}
					}
					if _, err := conn.Exec(ctx, step, args...); err != nil {
						return fmt.Errorf("fill the past, step %d: %w", i, err)
					}
				}
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, sql := range []string{`VACUUM ANALYZE`, `CHECKPOINT`} {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("fill the past: %w", err)
		}
	}
	return nil
}
