package call

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The calls made in [$1, $2): the days in [$9, $10) as a whole, by level $11, the hours before and after them, and the calls that are not
// counted yet (as in callsMade).
const (
	toolPeriods = `WHERE (level = $11::smallint AND since >= $9 AND since < $10
			OR level = 0 AND (since >= $1 AND since < $9 OR since >= $10 AND since < $2)) AND ` + toolSelected

	toolSelected = `($6::uuid[] IS NULL OR skill_id = ANY($6)) AND ($7::uuid[] IS NULL OR agent_id = ANY($7)) AND ($8::text IS NULL OR tool = $8)`

	uncountedColumns = `SELECT skill_id, agent_id, tool, status, code, error_line, measured, created_at FROM calls`

	uncountedCalls = `FROM (` + uncountedColumns + ` WHERE ` + uncountedStraggler + `
		UNION ALL ` + uncountedColumns + ` WHERE id >= $4 AND id < $5 AND created_at >= $3 AND created_at < $2) AS c WHERE ` + toolSelected

	callsByTool = `WITH made AS (SELECT skill_id, tool, status, calls, last FROM call_tool_counts ` + toolPeriods + `
		UNION ALL SELECT skill_id, tool, status, 1, created_at ` + uncountedCalls + `)`

	errorsByTool = `WITH made AS (SELECT skill_id, tool, status, code, http_status, error_line, calls, last FROM call_tool_errors ` + toolPeriods + `
		UNION ALL SELECT skill_id, tool, status, coalesce(code, ''), coalesce(measured[1], 0), coalesce(error_line, ''), 1, created_at
		` + uncountedCalls + ` AND ` + wrongEnd + `)`

	// The histogram of a call that is not counted has one call in each of its buckets.
	timesByTool = `WITH took AS (SELECT skill_id, tool, exchanged, sent, received, statuses, called, others FROM call_tool_times ` + toolPeriods + `
		UNION ALL SELECT skill_id, tool, (measured[2] IS NOT NULL)::int, coalesce(measured[2], 0), coalesce(measured[3], 0),
			CASE WHEN measured[1] IS NOT NULL THEN ARRAY[measured[1] << 32 | 1] END,
			CASE WHEN measured[7] IS NOT NULL THEN ARRAY[(4000 + width_bucket(measured[7], $12::bigint[]))::bigint << 32 | 1] END,
			(SELECT array_agg((step * 1000 + width_bucket(us, $12::bigint[])) << 32 | 1)
				FROM unnest(measured[4:]) WITH ORDINALITY AS m(us, step) WHERE us IS NOT NULL AND step <> 4)
		` + uncountedCalls + ` AND measured IS NOT NULL)`

	// passed adds up the calls of the buckets below each, and its own; within one it has in common what it is grouped by.
	quantiles = `sum(calls)::bigint, min(bucket) FILTER (WHERE passed >= of * .5), min(bucket) FILTER (WHERE passed >= of * .95),
		min(bucket) FILTER (WHERE passed >= of * .99)`
)

// toolReader reads the parts of [ToolInsights].
type toolReader struct {
	tx    pgx.Tx
	args  []any
	found *ToolInsights
	index map[toolKey]int // of Tools
}

type toolKey struct {
	skill uuid.UUID
	tool  string
}

func (r *toolReader) each(ctx context.Context, sql string, args, fields []any, row func() error) error {
	rows, err := r.tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, fields, row)
	return err
}

// withBounds are the parameters of timesByTool.
func (r *toolReader) withBounds() []any { return append(slices.Clip(r.args), bounds()) }

func (r *toolReader) counts(ctx context.Context) error {
	r.index = map[toolKey]int{}
	var key toolKey
	var status Status
	var calls int
	var last time.Time
	return r.each(ctx, callsByTool+` SELECT skill_id, tool, status, sum(calls)::bigint, max(last) FROM made GROUP BY 1, 2, 3`, r.args,
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

func (r *toolReader) times(ctx context.Context) error {
	var key toolKey
	var f ToolFigures
	err := r.each(ctx, timesByTool+` SELECT skill_id, tool, sum(exchanged)::bigint, sum(sent)::bigint, sum(received)::bigint FROM took GROUP BY 1, 2`,
		r.withBounds(), []any{&key.skill, &key.tool, &f.Exchanged, &f.Sent, &f.Received}, func() error {
			if i, known := r.index[key]; known {
				r.found.Tools[i].Exchanged, r.found.Tools[i].Sent, r.found.Tools[i].Received = f.Exchanged, f.Sent, f.Received
			}
			return nil
		})
	if err != nil {
		return err
	}
	var q quantileRow
	return r.each(ctx, timesByTool+`, buckets AS (SELECT skill_id, tool, (v >> 32)::int % 1000 AS bucket, sum((v & 4294967295)::int) AS calls
			FROM took, unnest(called) AS v GROUP BY 1, 2, 3),
		ranked AS (SELECT skill_id, tool, bucket, calls, sum(calls) OVER (PARTITION BY skill_id, tool ORDER BY bucket) AS passed,
			sum(calls) OVER (PARTITION BY skill_id, tool) AS of FROM buckets)
		SELECT skill_id, tool, `+quantiles+` FROM ranked GROUP BY 1, 2`,
		r.withBounds(), append([]any{&key.skill, &key.tool}, q.fields()...), func() error {
			if i, known := r.index[key]; known {
				r.found.Tools[i].Took = q.times()
			}
			return nil
		})
}

func (r *toolReader) statuses(ctx context.Context) error {
	var f StatusFigures
	return r.each(ctx, timesByTool+` SELECT (v >> 32)::int, sum((v & 4294967295)::int) FROM took, unnest(statuses) AS v GROUP BY 1 ORDER BY 1`, r.withBounds(),
		[]any{&f.HTTPStatus, &f.Calls}, func() error {
			r.found.HTTPStatuses = append(r.found.HTTPStatuses, f)
			return nil
		})
}

func (r *toolReader) steps(ctx context.Context) error {
	var step int
	var q quantileRow
	return r.each(ctx, timesByTool+`, buckets AS (SELECT (v >> 32)::int AS bucket, sum((v & 4294967295)::int) AS calls
			FROM took, unnest(called || others) AS v GROUP BY 1),
		ranked AS (SELECT bucket / 1000 AS step, bucket % 1000 AS bucket, calls, sum(calls) OVER (PARTITION BY bucket / 1000 ORDER BY bucket) AS passed,
			sum(calls) OVER (PARTITION BY bucket / 1000) AS of FROM buckets)
		SELECT step, `+quantiles+` FROM ranked GROUP BY 1 ORDER BY 1`,
		r.withBounds(), append([]any{&step}, q.fields()...), func() error {
			r.found.Steps = append(r.found.Steps, StepFigures{Step: PipelineSteps()[step-1], Took: q.times()})
			return nil
		})
}

func (r *toolReader) errors(ctx context.Context) error {
	var f ErrorFigures
	return r.each(ctx, errorsByTool+` SELECT skill_id, tool, status, code, http_status, error_line, sum(calls)::bigint AS calls, max(last) AS last
			FROM made GROUP BY 1, 2, 3, 4, 5, 6
			ORDER BY calls DESC, last DESC, skill_id, tool, status, code, http_status, error_line LIMIT $12`, append(slices.Clip(r.args), MaxErrors),
		[]any{&f.SkillID, &f.Tool, &f.Status, &f.Code, &f.HTTPStatus, &f.Line, &f.Calls, &f.Last}, func() error {
			f.Last = f.Last.UTC()
			r.found.Errors = append(r.found.Errors, f)
			return nil
		})
}

// quantileRow are the buckets of what quantiles selects.
type quantileRow struct{ count, p50, p95, p99 int }

func (q *quantileRow) fields() []any { return []any{&q.count, &q.p50, &q.p95, &q.p99} }

func (q *quantileRow) times() Times {
	return Times{Count: q.count, P50: middleOf(q.p50), P95: middleOf(q.p95), P99: middleOf(q.p99)}
}
