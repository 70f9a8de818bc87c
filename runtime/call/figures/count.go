package figures

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

const (
	countInterval = 10 * time.Minute
	// countMargin is the time after which all calls of an hour are in the database: no transaction that records calls takes as long.
	countMargin = 10 * time.Minute
	// A transaction counts a chunk of at most maxChunk. A chunk that exceeds the statement timeout is halved, down to minChunk.
	maxChunk = 24 * time.Hour
	minChunk = time.Hour
)

// countArgs is the job that counts the calls of past hours.
type countArgs struct{}

func (countArgs) Kind() string { return "call_count" }

type countWorker struct {
	river.WorkerDefaults[countArgs]
	service *Service
}

// Timeout leaves time for a backlog: a chunk that is interrupted is counted again from its start.
func (w *countWorker) Timeout(*river.Job[countArgs]) time.Duration { return time.Hour }

func (w *countWorker) Work(ctx context.Context, _ *river.Job[countArgs]) error {
	return w.service.Count(ctx)
}

// Count updates the tables of counts: it adds the calls of past hours, and the calls of earlier hours that have ended since.
// Figures are right without it, but take longer.
func (s *Service) Count(ctx context.Context) error {
	chunk := maxChunk
	for more := true; more; {
		err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
			more, err = countChunk(ctx, tx, chunk)
			return err
		})
		switch {
		case postgres.IsStatementTimeout(err) && chunk > minChunk:
			chunk = max(chunk/2, minChunk).Truncate(time.Hour)
		case err != nil:
			return fmt.Errorf("count calls: %w", err)
		}
	}
	return nil
}

// countChunk counts a chunk of hours, and reports whether there are more.
func countChunk(ctx context.Context, tx pgx.Tx, chunk time.Duration) (more bool, err error) {
	from, err := call.LockWatermark(ctx, tx)
	if err != nil || from.IsZero() {
		return false, err
	}
	clock, err := call.ReadClock(ctx, tx)
	if err != nil {
		return false, err
	}
	limit := clock.Now.Add(-countMargin).Truncate(time.Hour)
	to := from.Add(chunk)
	if more = to.Before(limit); !more {
		to = limit
	}
	if to.After(from) {
		if err := call.AdvanceWatermark(ctx, tx, clock, from, to, addCallsSQL, bucketStarts()); err != nil {
			return false, err
		}
	}
	if more {
		return true, nil
	}
	return false, call.RemoveStragglers(ctx, tx, addCallsSQL, bucketStarts())
}

// addCallsSQL continues a WITH list. It adds the calls of the relation done to all tables of counts. $1 are the [bucketStarts].
const addCallsSQL = `, counted AS (INSERT INTO call_counts (hour, agent_id, skill_id, status, failure, calls)
		SELECT ` + hourSQL + `, agent_id, skill_id, status, coalesce(failure, ''), count(*) FROM done GROUP BY 1, 2, 3, 4, 5
		ON CONFLICT (hour, agent_id, skill_id, status, failure) DO UPDATE SET calls = call_counts.calls + excluded.calls),
	periods AS (SELECT p.level, p.since, p.agent, skill_id, tool, status, coalesce(code, '') AS code, coalesce(error_line, '') AS error_line,
			measured, created_at
		FROM done, LATERAL (VALUES (0, ` + hourSQL + `, agent_id), (1, ` + daySQL + `, agent_id),
			(2, ` + daySQL + `, '00000000-0000-0000-0000-000000000000')) AS p(level, since, agent)),
	by_tool AS (INSERT INTO call_tool_counts (level, since, skill_id, tool, agent_id, status, calls, last)
		SELECT level, since, skill_id, tool, agent, status, count(*), max(created_at) FROM periods GROUP BY 1, 2, 3, 4, 5, 6
		ON CONFLICT (level, since, skill_id, tool, agent_id, status) DO UPDATE
			SET calls = call_tool_counts.calls + excluded.calls, last = greatest(call_tool_counts.last, excluded.last)),
	by_error AS (INSERT INTO call_tool_errors (level, since, skill_id, tool, agent_id, status, code, http_status, error_line, calls, last)
		SELECT level, since, skill_id, tool, agent, status, code, coalesce(measured[1], 0), error_line, count(*), max(created_at)
		FROM periods WHERE ` + wrongEndSQL + ` GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
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

// wrongEndSQL holds for calls that did not succeed for a reason that is listed among the errors.
const wrongEndSQL = `status IN ('failed', 'unknown', 'invalid', 'denied')`

const daySQL = `date_bin(interval '1 day', created_at, 'epoch'::timestamptz)`

const hourSQL = `date_bin(interval '1 hour', created_at, 'epoch'::timestamptz)`
