package figures

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// The statements by tool read the calls made in [$1, $2): the whole days in [$12, $13) at level $14, the hours before and after them, and
// the calls that are not counted yet. See [toolArgs].
const (
	toolPeriods = `WHERE (level = $14::smallint AND since >= $12 AND since < $13
			OR level = 0 AND since <> ALL($6) AND (since >= $1 AND since < $12 OR since >= $13 AND since < $2)) AND ` + toolSelected

	toolSelected = `($9::uuid[] IS NULL OR skill_id = ANY($9)) AND ($10::uuid[] IS NULL OR agent_id = ANY($10)) AND ($11::text IS NULL OR tool = $11)`

	uncountedToolCalls = `FROM ` + call.UncountedCalls + ` AS uncounted WHERE ` + toolSelected

	callsByTool = `WITH made AS (SELECT skill_id, tool, status, calls, last FROM call_tool_counts ` + toolPeriods + `
		UNION ALL SELECT skill_id, tool, status, 1, created_at ` + uncountedToolCalls + `)`

	errorsByTool = `WITH made AS (SELECT skill_id, tool, status, code, http_status, error_line, calls, last FROM call_tool_errors ` + toolPeriods + `
		UNION ALL SELECT skill_id, tool, status, coalesce(code, ''), coalesce(measured[1], 0), coalesce(error_line, ''), 1, created_at
		` + uncountedToolCalls + ` AND ` + wrongEndSQL + `)`

	// $15 are the [bucketStarts]. The histogram of an uncounted call has one call in each of its buckets.
	timesByTool = `WITH took AS (SELECT skill_id, tool, exchanged, sent, received, statuses, called, others FROM call_tool_times ` + toolPeriods + `
		UNION ALL SELECT skill_id, tool, (measured[2] IS NOT NULL)::int, coalesce(measured[2], 0), coalesce(measured[3], 0),
			CASE WHEN measured[1] IS NOT NULL THEN ARRAY[measured[1] << 32 | 1] END,
			CASE WHEN measured[7] IS NOT NULL THEN ARRAY[(4000 + width_bucket(measured[7], $15::bigint[]))::bigint << 32 | 1] END,
			(SELECT array_agg((step * 1000 + width_bucket(us, $15::bigint[])) << 32 | 1)
				FROM unnest(measured[4:]) WITH ORDINALITY AS m(us, step) WHERE us IS NOT NULL AND step <> 4)
		` + uncountedToolCalls + ` AND measured IS NOT NULL)`

	// passed is the number of calls in a bucket and all buckets below it; of is the number in all buckets.
	quantiles = `sum(calls)::bigint, min(bucket) FILTER (WHERE passed >= of * .5), min(bucket) FILTER (WHERE passed >= of * .95),
		min(bucket) FILTER (WHERE passed >= of * .99)`
)

// The levels of the tables of counts that have days.
const (
	daysByAgent     = 1
	daysOfAllAgents = 2
)

// toolArgs returns the parameters $1 to $14 of the statements by tool: those of [call.UncountedCalls], the skills, the agents, the tool,
// and the whole days of the range with their level.
func toolArgs(ctx context.Context, tx pgx.Tx, clock call.Clock, f approval.FigureFilter, name string) ([]any, error) {
	args, err := call.UncountedArgs(ctx, tx, clock, f.From, f.To)
	if err != nil {
		return nil, err
	}
	firstDay, lastDay := f.From.Truncate(day), f.To.Truncate(day)
	if firstDay.Before(f.From) {
		firstDay = firstDay.Add(day)
	}
	if !firstDay.Before(lastDay) { // no whole day
		firstDay, lastDay = f.To, f.To
	}
	level := daysOfAllAgents
	if f.Agents != nil {
		level = daysByAgent
	}
	var tool *string
	if name != "" {
		tool = &name
	}
	return append(args, f.Skills, f.Agents, tool, firstDay, lastDay, level), nil
}

// toolReader reads the parts of [ToolInsights].
type toolReader struct {
	tx    pgx.Tx
	args  []any
	found *ToolInsights
	index map[toolKey]int // into Tools
}

type toolKey struct {
	skill uuid.UUID
	tool  string
}

// queryRows scans each row of a statement into fields and calls row.
func (r *toolReader) queryRows(ctx context.Context, sql string, args, fields []any, row func() error) error {
	rows, _ := r.tx.Query(ctx, sql, args...)
	_, err := pgx.ForEachRow(rows, fields, row)
	return err
}

// timeArgs returns the parameters of timesByTool.
func (r *toolReader) timeArgs() []any { return append(slices.Clip(r.args), bucketStarts()) }

func (r *toolReader) readCounts(ctx context.Context) error {
	r.index = map[toolKey]int{}
	var key toolKey
	var status call.Status
	var calls int
	var last time.Time
	return r.queryRows(ctx, callsByTool+` SELECT skill_id, tool, status, sum(calls)::bigint, max(last) FROM made GROUP BY 1, 2, 3`, r.args,
		[]any{&key.skill, &key.tool, &status, &calls, &last}, func() error {
			i, known := r.index[key]
			if !known {
				i = len(r.found.Tools)
				r.index[key] = i
				r.found.Tools = append(r.found.Tools, ToolFigures{SkillID: key.skill, Tool: key.tool, Calls: Counts{}})
			}
			f := &r.found.Tools[i]
			f.Calls[status] += calls
			if last.After(f.Last) {
				f.Last = last.UTC()
			}
			return nil
		})
}

func (r *toolReader) readTimes(ctx context.Context) error {
	var key toolKey
	var f ToolFigures
	err := r.queryRows(ctx, timesByTool+` SELECT skill_id, tool, sum(exchanged)::bigint, sum(sent)::bigint, sum(received)::bigint FROM took GROUP BY 1, 2`,
		r.timeArgs(), []any{&key.skill, &key.tool, &f.Exchanged, &f.Sent, &f.Received}, func() error {
			if i, known := r.index[key]; known {
				r.found.Tools[i].Exchanged, r.found.Tools[i].Sent, r.found.Tools[i].Received = f.Exchanged, f.Sent, f.Received
			}
			return nil
		})
	if err != nil {
		return err
	}
	var q quantileRow
	return r.queryRows(ctx, timesByTool+`, buckets AS (SELECT skill_id, tool, (v >> 32)::int % 1000 AS bucket, sum((v & 4294967295)::int) AS calls
			FROM took, unnest(called) AS v GROUP BY 1, 2, 3),
		ranked AS (SELECT skill_id, tool, bucket, calls, sum(calls) OVER (PARTITION BY skill_id, tool ORDER BY bucket) AS passed,
			sum(calls) OVER (PARTITION BY skill_id, tool) AS of FROM buckets)
		SELECT skill_id, tool, `+quantiles+` FROM ranked GROUP BY 1, 2`,
		r.timeArgs(), append([]any{&key.skill, &key.tool}, q.fields()...), func() error {
			if i, known := r.index[key]; known {
				r.found.Tools[i].Latency = q.latency()
			}
			return nil
		})
}

func (r *toolReader) readStatuses(ctx context.Context) error {
	var f StatusFigures
	return r.queryRows(ctx, timesByTool+` SELECT (v >> 32)::int, sum((v & 4294967295)::int) FROM took, unnest(statuses) AS v GROUP BY 1 ORDER BY 1`, r.timeArgs(),
		[]any{&f.HTTPStatus, &f.Calls}, func() error {
			r.found.HTTPStatuses = append(r.found.HTTPStatuses, f)
			return nil
		})
}

func (r *toolReader) readSteps(ctx context.Context) error {
	var step int
	var q quantileRow
	return r.queryRows(ctx, timesByTool+`, buckets AS (SELECT (v >> 32)::int AS bucket, sum((v & 4294967295)::int) AS calls
			FROM took, unnest(called || others) AS v GROUP BY 1),
		ranked AS (SELECT bucket / 1000 AS step, bucket % 1000 AS bucket, calls, sum(calls) OVER (PARTITION BY bucket / 1000 ORDER BY bucket) AS passed,
			sum(calls) OVER (PARTITION BY bucket / 1000) AS of FROM buckets)
		SELECT step, `+quantiles+` FROM ranked GROUP BY 1 ORDER BY 1`,
		r.timeArgs(), append([]any{&step}, q.fields()...), func() error {
			r.found.Steps = append(r.found.Steps, StepFigures{Step: call.PipelineSteps()[step-1], Latency: q.latency()})
			return nil
		})
}

func (r *toolReader) readErrors(ctx context.Context) error {
	var f ErrorFigures
	return r.queryRows(ctx, errorsByTool+` SELECT skill_id, tool, status, code, http_status, error_line, sum(calls)::bigint AS calls, max(last) AS last
			FROM made GROUP BY 1, 2, 3, 4, 5, 6
			ORDER BY calls DESC, last DESC, skill_id, tool, status, code, http_status, error_line LIMIT $15`, append(slices.Clip(r.args), MaxErrors),
		[]any{&f.SkillID, &f.Tool, &f.Status, &f.Code, &f.HTTPStatus, &f.Line, &f.Calls, &f.Last}, func() error {
			f.Last = f.Last.UTC()
			r.found.Errors = append(r.found.Errors, f)
			return nil
		})
}

// quantileRow has the columns of quantiles: a count and three buckets.
type quantileRow struct{ count, p50, p95, p99 int }

func (q *quantileRow) fields() []any { return []any{&q.count, &q.p50, &q.p95, &q.p99} }

func (q *quantileRow) latency() Latency {
	return Latency{Count: q.count, P50: bucketMiddle(q.p50), P95: bucketMiddle(q.p95), P99: bucketMiddle(q.p99)}
}
