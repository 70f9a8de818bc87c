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
	Buckets  map[int]Counts // by their place in the window; those without calls are left out
	Failures map[tool.FailureKind]int
	// Hours are by weekday, Monday first, and hour, in the zone of the query. A counted hour in UTC belongs to the hour in which it begins.
	Hours [7][24]int
}

// FailureKinds returns all kinds of failures.
func FailureKinds() []tool.FailureKind {
	return []tool.FailureKind{tool.ToolError, tool.JSONRPCError, tool.TransportFailure, tool.ProtocolFailure, tool.SessionInvalid}
}

// The levels of grouping(bucket, status, failure, made) in callFiguresSQL.
const (
	byBucket  = 0b0011
	byFailure = 0b1001
	byHour    = 0b1110
)

// The parameters of these statements are those of [call.UncountedCalls], the skills and the agents; those of callFiguresSQL also the starts of
// the buckets. Calls are counted by the hour in UTC. Hours that a bucket cuts are read from the calls, by quarters: no zone's offset has parts
// of a quarter.
const (
	selectedCallsSQL = `WITH made AS (SELECT hour AS made, agent_id, skill_id, status, failure, calls FROM call_counts
			WHERE ` + call.UncutHour + `
		UNION ALL SELECT ` + quarterSQL + `, agent_id, skill_id, status, coalesce(failure, ''), 1 FROM ` + call.UncountedCalls + ` AS uncounted),
		selected AS (SELECT made, status, failure, calls FROM made WHERE ($9::uuid[] IS NULL OR skill_id = ANY($9)) AND ($10::uuid[] IS NULL OR agent_id = ANY($10)))`

	quarterSQL = `date_bin(interval '15 minutes', created_at, 'epoch'::timestamptz)`

	callTotalsSQL = selectedCallsSQL + ` SELECT 9, 0, status, failure, NULL::timestamptz, sum(calls)::bigint FROM selected GROUP BY status, failure`

	callFiguresSQL = selectedCallsSQL + ` SELECT grouping(bucket, status, failure, made), coalesce(bucket, 0), coalesce(status, ''), coalesce(failure, ''),
			made, sum(calls)::bigint
		FROM (SELECT status, failure, calls, made, greatest(width_bucket(made, $11::timestamptz[]) - 1, 0) AS bucket FROM selected) AS s
		GROUP BY GROUPING SETS ((status, failure), (bucket, status), (made))`
)

// readCalls reads the figures of calls. Without buckets in the filter, it leaves out the hours of the week too.
func readCalls(ctx context.Context, tx pgx.Tx, clock call.Clock, f approval.FigureFilter, zone *time.Location) (Calls, error) {
	args, err := call.UncountedArgs(ctx, tx, clock, f.From, f.To, f.Starts...)
	if err != nil {
		return Calls{}, err
	}
	args = append(args, f.Skills, f.Agents)
	sql := callTotalsSQL
	if f.Starts != nil {
		sql, args = callFiguresSQL, append(args, f.Starts)
	}
	rows, _ := tx.Query(ctx, sql, args...)
	calls := Calls{ByStatus: Counts{}, Buckets: map[int]Counts{}, Failures: map[tool.FailureKind]int{}}
	var grouping, bucket, n int
	var made *time.Time
	var status call.Status
	var failure tool.FailureKind
	_, err = pgx.ForEachRow(rows, []any{&grouping, &bucket, &status, &failure, &made, &n}, func() error {
		switch grouping {
		case byBucket:
			if calls.Buckets[bucket] == nil {
				calls.Buckets[bucket] = Counts{}
			}
			calls.Buckets[bucket][status] += n
		case byFailure:
			calls.ByStatus[status] += n
			if status == call.Failed {
				calls.Failures[failure] += n
			}
		case byHour:
			local := made.In(zone)
			calls.Hours[(local.Weekday()+6)%7][local.Hour()] += n
		}
		return nil
	})
	if err != nil {
		return Calls{}, fmt.Errorf("read figures of calls: %w", err)
	}
	return calls, nil
}
