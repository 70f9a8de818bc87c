package call

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Counts are numbers of calls by status.
type Counts map[Status]int

// Total is the number of all of them.
func (c Counts) Total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// Figures are about the calls made in a stretch of time.
type Figures struct {
	Calls    Counts
	Buckets  map[time.Time]Counts // by their beginning; those without calls are left out
	Failures map[tool.FailureKind]int
	Hours    [7][24]int // by weekday, Monday first, and hour, UTC
}

// uncountedStraggler selects the stragglers made in [$1, $2) that are not among the calls made since $3.
const uncountedStraggler = `id IN (SELECT call_id FROM call_stragglers) AND created_at >= $1 AND created_at < $2
	AND NOT (id >= $4 AND id < $5 AND created_at >= $3)`

// callsMade are the calls made in [$1, $2), counted and not: each row stands for some.
// The ids from $4 to $5 are of those made since $3, until when they were counted.
const callsMade = `SELECT hour AS made, agent_id, skill_id, status, failure, calls FROM call_counts
		WHERE hour >= $1 AND hour < $2
	UNION ALL SELECT ` + hourOf + `, agent_id, skill_id, status, coalesce(failure, ''), 1 FROM calls
		WHERE ` + uncountedStraggler + `
	UNION ALL SELECT ` + hourOf + `, agent_id, skill_id, status, coalesce(failure, ''), 1 FROM calls
		WHERE id >= $4 AND id < $5 AND created_at >= $3 AND created_at < $2`

// What a row is about, by grouping(bucket, status, failure, weekday).
const (
	byBucket  = 0b0011
	byFailure = 0b1001
	byHour    = 0b1110
)

const (
	callsSelected = `WITH made AS (` + callsMade + `),
		selected AS (SELECT made, status, failure, calls FROM made WHERE ($6::uuid[] IS NULL OR skill_id = ANY($6)) AND ($7::uuid[] IS NULL OR agent_id = ANY($7)))`

	totalsOfCalls = callsSelected + ` SELECT 9, NULL::timestamptz, status, failure, 0, 0, sum(calls)::bigint FROM selected GROUP BY status, failure`

	figuresOfCalls = callsSelected + ` SELECT grouping(bucket, status, failure, weekday), bucket, coalesce(status, ''), coalesce(failure, ''),
			coalesce(weekday, 0), coalesce(hour, 0), sum(calls)::bigint
		FROM (SELECT status, failure, calls, date_bin($8 * interval '1 second', made, $9) AS bucket,
				date_part('isodow', made AT TIME ZONE 'UTC')::int AS weekday, date_part('hour', made AT TIME ZONE 'UTC')::int AS hour
			FROM selected) AS s
		GROUP BY GROUPING SETS ((status, failure), (bucket, status), (weekday, hour))`
)

// readFigures counts calls; without buckets also not by hours of the week. The transaction sees to it that all is about the same state of things.
func readFigures(ctx context.Context, tx pgx.Tx, f approval.FigureFilter, clock clock) (Figures, error) {
	tail, first, last, err := uncounted(ctx, tx, f, clock)
	if err != nil {
		return Figures{}, err
	}
	args := []any{f.From, f.To, tail, first, last, f.Skills, f.Agents}
	sql := totalsOfCalls
	if f.Bucket > 0 {
		sql, args = figuresOfCalls, append(args, f.Bucket.Seconds(), f.Origin)
	}
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return Figures{}, fmt.Errorf("read figures of calls: %w", err)
	}
	return collectFigures(rows)
}

// uncounted returns since when calls are not counted, and between which ids those are that were made since then.
func uncounted(ctx context.Context, tx pgx.Tx, f approval.FigureFilter, clock clock) (tail time.Time, first, last uuid.UUID, err error) {
	var counted *time.Time
	if err := tx.QueryRow(ctx, `SELECT (SELECT until FROM call_counting)`).Scan(&counted); err != nil {
		return tail, first, last, fmt.Errorf("read what is counted of calls: %w", err)
	}
	tail = f.From
	if counted != nil && counted.After(tail) {
		tail = *counted
	}
	first, last = clock.ids(tail, f.To)
	if !tail.Before(f.To) {
		last = first
	}
	return tail, first, last, nil
}

func collectFigures(rows pgx.Rows) (Figures, error) {
	figures := Figures{Calls: Counts{}, Buckets: map[time.Time]Counts{}, Failures: map[tool.FailureKind]int{}}
	var grouping, weekday, hour, calls int
	var bucket *time.Time
	var status Status
	var failure tool.FailureKind
	_, err := pgx.ForEachRow(rows, []any{&grouping, &bucket, &status, &failure, &weekday, &hour, &calls}, func() error {
		switch grouping {
		case byBucket:
			start := bucket.UTC()
			if figures.Buckets[start] == nil {
				figures.Buckets[start] = Counts{}
			}
			figures.Buckets[start][status] += calls
		case byFailure:
			figures.Calls[status] += calls
			if status == Failed {
				figures.Failures[failure] += calls
			}
		case byHour:
			figures.Hours[weekday-1][hour] += calls
		}
		return nil
	})
	if err != nil {
		return Figures{}, fmt.Errorf("read figures of calls: %w", err)
	}
	return figures, nil
}

// FailureKinds are all kinds of failures.
func FailureKinds() []tool.FailureKind {
	return []tool.FailureKind{tool.ToolError, tool.JSONRPCError, tool.TransportFailure, tool.ProtocolFailure, tool.SessionInvalid}
}
