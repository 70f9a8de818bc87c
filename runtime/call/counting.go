package call

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	countInterval = 10 * time.Minute
	// countMargin is how long after an hour's end its calls are all there: no transaction that takes calls in is as long.
	countMargin = 10 * time.Minute
	// One transaction counts a chunk of at most maxChunk. A chunk that takes longer than a statement may is halved, down to minChunk.
	maxChunk = 24 * time.Hour
	minChunk = time.Hour
	// idSlack is how far the clocks of processes, by which ids go, may be from the database's.
	idSlack = time.Hour
)

// ended says that a call's status will not change any more.
const ended = `status NOT IN ('needs_connection', 'parked', 'approved', 'executing')`

// countArgs is the job that counts the calls of the hours that are over.
type countArgs struct{}

func (countArgs) Kind() string { return "call_count" }

type countWorker struct {
	river.WorkerDefaults[countArgs]
	service *Service
}

// Timeout leaves time for a backlog: a chunk that is broken off is counted from its beginning again.
func (w *countWorker) Timeout(*river.Job[countArgs]) time.Duration { return time.Hour }

func (w *countWorker) Work(ctx context.Context, _ *river.Job[countArgs]) error {
	return w.service.Count(ctx)
}

// scheduleCounting has one of all processes count every few minutes.
func (s *Service) scheduleCounting() {
	s.river.PeriodicJobs().Add(river.NewPeriodicJob(river.PeriodicInterval(countInterval),
		func() (river.JobArgs, *river.InsertOpts) { return countArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}))
}

// Count brings the tables of counts up to date: it adds the hours that are over, and those calls of
// earlier ones that have ended since. Figures are right without it, but take longer.
func (s *Service) Count(ctx context.Context) error {
	chunk := maxChunk
	for more := true; more; {
		err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) (err error) {
			more, err = countSome(ctx, tx, chunk)
			return err
		})
		switch {
		case isStatementTimeout(err) && chunk > minChunk:
			chunk = max(chunk/2, minChunk).Truncate(time.Hour)
		case err != nil:
			return fmt.Errorf("count calls: %w", err)
		}
	}
	return nil
}

// countSome counts a chunk of hours, and reports whether there is more to count.
func countSome(ctx context.Context, tx pgx.Tx, chunk time.Duration) (more bool, err error) {
	from, err := countedUntil(ctx, tx)
	if err != nil || from.IsZero() {
		return false, err
	}
	clock, err := readClock(ctx, tx)
	if err != nil {
		return false, err
	}
	limit := clock.now.Add(-countMargin).Truncate(time.Hour)
	to := from.Add(chunk)
	if more = to.Before(limit); !more {
		to = limit
	}
	if to.After(from) {
		if err := countHours(ctx, tx, clock, from, to); err != nil {
			return false, err
		}
	}
	if more {
		return true, nil
	}
	_, err = tx.Exec(ctx, `WITH done AS (DELETE FROM call_stragglers s USING calls c WHERE c.id = s.call_id AND c.`+ended+`
				AND c.created_at < (SELECT until FROM call_counting)
			RETURNING c.created_at, c.agent_id, c.skill_id, c.tool, c.status, c.failure, c.code, c.measured, c.error_line)`+addDone+` SELECT`, bounds())
	if err != nil {
		return false, fmt.Errorf("add stragglers: %w", err)
	}
	return false, nil
}

// addDone are the parts of a statement that add the calls of its part done to all tables of counts. $1 are [bounds].
const addDone = `, counted AS (INSERT INTO call_counts (hour, agent_id, skill_id, status, failure, calls)
		SELECT ` + hourOf + `, agent_id, skill_id, status, coalesce(failure, ''), count(*) FROM done GROUP BY 1, 2, 3, 4, 5
		ON CONFLICT (hour, agent_id, skill_id, status, failure) DO UPDATE SET calls = call_counts.calls + excluded.calls),
	periods AS (SELECT p.level, p.since, p.agent, skill_id, tool, status, coalesce(code, '') AS code, coalesce(error_line, '') AS error_line,
			measured, created_at
		FROM done, LATERAL (VALUES (0, ` + hourOf + `, agent_id), (1, ` + dayOf + `, agent_id),
			(2, ` + dayOf + `, '00000000-0000-0000-0000-000000000000')) AS p(level, since, agent)),
	by_tool AS (INSERT INTO call_tool_counts (level, since, skill_id, tool, agent_id, status, calls, last)
		SELECT level, since, skill_id, tool, agent, status, count(*), max(created_at) FROM periods GROUP BY 1, 2, 3, 4, 5, 6
		ON CONFLICT (level, since, skill_id, tool, agent_id, status) DO UPDATE
			SET calls = call_tool_counts.calls + excluded.calls, last = greatest(call_tool_counts.last, excluded.last)),
	by_error AS (INSERT INTO call_tool_errors (level, since, skill_id, tool, agent_id, status, code, http_status, error_line, calls, last)
		SELECT level, since, skill_id, tool, agent, status, code, coalesce(measured[1], 0), error_line, count(*), max(created_at)
		FROM periods WHERE ` + wrongEnd + ` GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
		ON CONFLICT (level, since, skill_id, tool, agent_id, status, code, http_status, error_line) DO UPDATE
			SET calls = call_tool_errors.calls + excluded.calls, last = greatest(call_tool_errors.last, excluded.last)),
	sizes AS (SELECT level, since, skill_id, tool, agent, count(measured[2]) AS exchanged,
			coalesce(sum(measured[2]), 0)::bigint AS sent, coalesce(sum(measured[3]), 0)::bigint AS received
		FROM periods WHERE measured IS NOT NULL GROUP BY 1, 2, 3, 4, 5),
	buckets AS (SELECT level, since, skill_id, tool, agent, step, CASE step WHEN 0 THEN took ELSE width_bucket(took, $1::bigint[]) END AS bucket,
			count(*) AS calls
		FROM periods, unnest(measured[1:1] || measured[4:]) WITH ORDINALITY AS m(took, place), LATERAL (SELECT place - 1 AS step) AS s
		WHERE took IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6, 7),
	steps AS (SELECT level, since, skill_id, tool, agent,
			array_agg(bucket << 32 | calls ORDER BY bucket) FILTER (WHERE step = 0) AS statuses,
			array_agg((step * 1000 + bucket) << 32 | calls ORDER BY bucket) FILTER (WHERE step = 4) AS called,
			array_agg((step * 1000 + bucket) << 32 | calls ORDER BY step, bucket) FILTER (WHERE step NOT IN (0, 4)) AS others
		FROM buckets GROUP BY 1, 2, 3, 4, 5),
	times AS (INSERT INTO call_tool_times (level, since, skill_id, tool, agent_id, exchanged, sent, received, statuses, called, others)
		SELECT level, since, skill_id, tool, agent, exchanged, sent, received, coalesce(statuses, '{}'), coalesce(called, '{}'), coalesce(others, '{}')
		FROM sizes LEFT JOIN steps USING (level, since, skill_id, tool, agent)
		ON CONFLICT (level, since, skill_id, tool, agent_id) DO UPDATE SET exchanged = call_tool_times.exchanged + excluded.exchanged,
			sent = call_tool_times.sent + excluded.sent, received = call_tool_times.received + excluded.received,
			statuses = holdpoint_add_histograms(call_tool_times.statuses, excluded.statuses),
			called = holdpoint_add_histograms(call_tool_times.called, excluded.called),
			others = holdpoint_add_histograms(call_tool_times.others, excluded.others))`

// wrongEnd says that a call did not succeed, for a reason that may be told of.
const wrongEnd = `status IN ('failed', 'unknown', 'invalid', 'denied')`

const dayOf = `date_bin(interval '1 day', created_at, 'epoch'::timestamptz)`

const hourOf = `date_bin(interval '1 hour', created_at, 'epoch'::timestamptz)`

// countedUntil locks and returns the end of the hours that are counted. It is zero when there are no calls.
func countedUntil(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	// No call is older than the one with the first id by more than clocks may differ.
	_, err := tx.Exec(ctx, `INSERT INTO call_counting (until)
		SELECT date_bin(interval '1 hour', created_at - $1 * interval '1 second', 'epoch') FROM calls
		WHERE NOT EXISTS (SELECT FROM call_counting) ORDER BY id LIMIT 1 ON CONFLICT DO NOTHING`, idSlack.Seconds())
	if err != nil {
		return time.Time{}, fmt.Errorf("begin to count: %w", err)
	}
	var until time.Time
	err = tx.QueryRow(ctx, `SELECT until FROM call_counting FOR UPDATE`).Scan(&until)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read what is counted: %w", err)
	}
	return until, nil
}

// countHours counts calls and notes those that have not ended, in one statement: a call that ends
// meanwhile is either the one or the other.
func countHours(ctx context.Context, tx pgx.Tx, clock clock, from, to time.Time) error {
	first, last := clock.ids(from, to)
	_, err := tx.Exec(ctx, `WITH made AS (SELECT id, created_at, agent_id, skill_id, tool, status, failure, code, measured, error_line
			FROM calls WHERE id >= $2 AND id < $3 AND created_at >= $4 AND created_at < $5
				AND NOT EXISTS (SELECT FROM call_stragglers WHERE call_id = id)),
		done AS (SELECT created_at, agent_id, skill_id, tool, status, failure, code, measured, error_line FROM made WHERE `+ended+`),
		open AS (INSERT INTO call_stragglers SELECT id FROM made WHERE NOT `+ended+`)`+addDone+`
		UPDATE call_counting SET until = $5`, bounds(), first, last, from, to)
	if err != nil {
		return fmt.Errorf("count from %s to %s: %w", from, to, err)
	}
	return nil
}

// clock is the database's time, and how far tests have moved it.
type clock struct {
	now    time.Time
	offset time.Duration
}

func readClock(ctx context.Context, tx pgx.Tx) (clock, error) {
	var c clock
	var offset float64
	err := tx.QueryRow(ctx, `SELECT now, date_part('epoch', now - clock_timestamp()) FROM (SELECT holdpoint_now() AS now) c`).
		Scan(&c.now, &offset)
	if err != nil {
		return clock{}, fmt.Errorf("read clock: %w", err)
	}
	c.offset = time.Duration(offset * float64(time.Second))
	return c, nil
}

// ids returns between which ids, the second one excluded, the calls made in [from, to) are. There are others between them.
func (c clock) ids(from, to time.Time) (first, last uuid.UUID) {
	return firstID(from.Add(-idSlack - max(c.offset, 0))), firstID(to.Add(idSlack - min(c.offset, 0)))
}

// stragglers returns those of some calls whose ids are much older than the calls: their ids were made long before, or say
// nothing of a time. They are not found by recent ids.
func (s *Service) stragglers(items []*intakeItem) []uuid.UUID {
	var ids []uuid.UUID
	limit := firstID(s.Now().Add(s.pulse.clockSkew() - idSlack/2))
	for _, item := range items {
		if id := item.call.ID; id.Version() != 7 || bytes.Compare(id[:], limit[:]) < 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

const insertStragglersSQL = `INSERT INTO call_stragglers SELECT unnest($1::uuid[]) ON CONFLICT DO NOTHING`

// firstID is the least UUID of version 7 made at a time.
func firstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(t.UnixMilli(), 0)))
	copy(id[:6], ms[2:])
	return id
}
