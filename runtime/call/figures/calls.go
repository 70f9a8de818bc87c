package figures

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Counts are numbers of calls by status.
type Counts map[call.Status]int

// Total returns the number of calls of all statuses.
func (c Counts) Total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// Calls are the figures of the calls made in a range of time.
type Calls struct {
	ByStatus Counts
	Buckets  map[time.Time]Counts // by their start; those without calls are left out
	Failures map[tool.FailureKind]int
	Hours    [7][24]int // by weekday, Monday first, and hour, UTC
}

// FailureKinds returns all kinds of failures.
func FailureKinds() []tool.FailureKind {
	return []tool.FailureKind{tool.ToolError, tool.JSONRPCError, tool.TransportFailure, tool.ProtocolFailure, tool.SessionInvalid}
}

// The levels of grouping(bucket, status, failure, weekday) in callFiguresSQL.
const (
	byBucket  = 0b0011
	byFailure = 0b1001
	byHour    = 0b1110
)

// The parameters of these statements are those of [call.UncountedCalls], the skills and the agents; those of callFiguresSQL also the length of a
// bucket and where buckets start.
const (
	selectedCallsSQL = `WITH made AS (SELECT hour AS made, agent_id, skill_id, status, failure, calls FROM call_counts
			WHERE hour >= $1 AND hour < $2
		UNION ALL SELECT ` + hourSQL + `, agent_id, skill_id, status, coalesce(failure, ''), 1 FROM ` + call.UncountedCalls + ` AS uncounted),
		selected AS (SELECT made, status, failure, calls FROM made WHERE ($6::uuid[] IS NULL OR skill_id = ANY($6)) AND ($7::uuid[] IS NULL OR agent_id = ANY($7)))`

	callTotalsSQL = selectedCallsSQL + ` SELECT 9, NULL::timestamptz, status, failure, 0, 0, sum(calls)::bigint FROM selected GROUP BY status, failure`

	callFiguresSQL = selectedCallsSQL + ` SELECT grouping(bucket, status, failure, weekday), bucket, coalesce(status, ''), coalesce(failure, ''),
			coalesce(weekday, 0), coalesce(hour, 0), sum(calls)::bigint
		FROM (SELECT status, failure, calls, date_bin($8 * interval '1 second', made, $9) AS bucket,
				date_part('isodow', made AT TIME ZONE 'UTC')::int AS weekday, date_part('hour', made AT TIME ZONE 'UTC')::int AS hour
			FROM selected) AS s
		GROUP BY GROUPING SETS ((status, failure), (bucket, status), (weekday, hour))`
)

// readCalls reads the figures of calls. Without buckets in the filter, it leaves out the hours of the week too.
func readCalls(ctx context.Context, tx pgx.Tx, clock call.Clock, f approval.FigureFilter) (Calls, error) {
	args, err := call.UncountedArgs(ctx, tx, clock, f.From, f.To)
	if err != nil {
		return Calls{}, err
	}
	args = append(args, f.Skills, f.Agents)
	sql := callTotalsSQL
	if f.Bucket > 0 {
		sql, args = callFiguresSQL, append(args, f.Bucket.Seconds(), f.Origin)
	}
	rows, _ := tx.Query(ctx, sql, args...)
	calls := Calls{ByStatus: Counts{}, Buckets: map[time.Time]Counts{}, Failures: map[tool.FailureKind]int{}}
	var grouping, weekday, hour, n int
	var bucket *time.Time
	var status call.Status
	var failure tool.FailureKind
	_, err = pgx.ForEachRow(rows, []any{&grouping, &bucket, &status, &failure, &weekday, &hour, &n}, func() error {
		switch grouping {
		case byBucket:
			start := bucket.UTC()
			if calls.Buckets[start] == nil {
				calls.Buckets[start] = Counts{}
			}
			calls.Buckets[start][status] += n
		case byFailure:
			calls.ByStatus[status] += n
			if status == call.Failed {
				calls.Failures[failure] += n
			}
		case byHour:
			calls.Hours[weekday-1][hour] += n
		}
		return nil
	})
	if err != nil {
		return Calls{}, fmt.Errorf("read figures of calls: %w", err)
	}
	return calls, nil
}
