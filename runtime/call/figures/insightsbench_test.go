package figures_test

import (
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/call/figures"
)

// A million calls in the last ninety days, one in five gated
const (
	manyCalls = `INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, finished_at, gated, status, tool, exposed_name, pin,
			arguments, failure, result, code, error_line, measured)
		SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 3) || '8'
				|| substr(md5(i || 'x'), 1, 15))::uuid,
			('a0000000-0000-7000-8000-00000000000' || i % 5)::uuid, ('b0000000-0000-7000-8000-00000000000' || i % 7)::uuid, 1, at, at, i % 5 = 0,
			CASE WHEN i % 5 = 0 AND r < .1 THEN 'rejected' WHEN i % 5 = 0 AND r < .15 THEN 'expired' WHEN r < .2 THEN 'failed'
				WHEN r < .21 THEN 'unknown' WHEN r < .23 THEN 'invalid' ELSE 'succeeded' END,
			'tool_' || i % 13, 's__tool', sha256(i::text::bytea), repeat(md5(i::text), 6)::bytea,
			CASE WHEN (i % 5 > 0 OR r >= .15) AND r < .2
				THEN (ARRAY['tool_error', 'jsonrpc_error', 'transport', 'protocol', 'session_invalid'])[1 + i % 5] END,
			repeat(md5(i || 'z'), 12)::bytea,
			CASE WHEN (i % 5 > 0 OR r >= .15) AND r < .2
				THEN (ARRAY['tool_error', 'jsonrpc_error', 'transport', 'protocol', 'session_invalid'])[1 + i % 5]
				WHEN r >= .21 AND r < .23 THEN 'invalid_arguments' END,
			CASE WHEN (i % 5 > 0 OR r >= .15) AND r < .2 THEN 'it broke in way ' || i % 40 END,
			CASE WHEN (i % 5 > 0 OR r >= .15) AND r < .2 OR r >= .23
				THEN ARRAY[(ARRAY[200, 200, 200, 201, 404, 429, 500, 503])[1 + i % 8], 200 + i % 1000, 500 + i % 10000, 40 + i % 50, 20 + i % 30, 5,
					(exp(8 + 4 * q) * 3)::bigint, 10 + i % 90, 300 + i % 900] END
		FROM (SELECT i, random() AS r, random() AS q, holdpoint_now() - i * interval '7776 ms' AS at FROM generate_series(1000000, 1, -1) i) c`

	manyApprovals = `INSERT INTO approvals (call_id, digest, created_at, deadline, decided_at, decided_by, taken_up_at, status, rule,
			agent_id, skill_id, tool)
		SELECT id, pin, created_at, created_at + interval '5 min',
			created_at + CASE status WHEN 'expired' THEN interval '5 min' ELSE -ln(r + .0001) * interval '40 s' END,
			CASE WHEN status <> 'expired' THEN ('c0000000-0000-7000-8000-00000000000' || (r * 8)::int)::uuid END,
			CASE WHEN status <> 'expired' THEN created_at - ln(r + .0001) * interval '9 s' END,
			CASE status WHEN 'rejected' THEN 'rejected' WHEN 'expired' THEN 'expired' ELSE 'approved' END,
			(ARRAY['gated', 'high_risk', 'definition_changed', 'new_tool'])[1 + floor(r * 4)::int], agent_id, skill_id, tool
		FROM (SELECT id, pin, created_at, status, agent_id, skill_id, tool, random() AS r FROM calls WHERE gated) c ORDER BY id`
)

// BenchmarkInsights reads the figures of both pages of the dashboard.
func BenchmarkInsights(b *testing.B) {
	w := newWorld(b)
	for _, sql := range []string{manyCalls, manyApprovals, `ANALYZE calls`, `ANALYZE approvals`} {
		_, err := w.db.Pool().Exec(b.Context(), sql)
		check(b, err)
	}
	began := time.Now()
	check(b, w.figures.Count(b.Context()))
	b.Logf("counting all calls took %v", time.Since(began).Round(time.Millisecond))
	for _, table := range []string{"call_counts", "call_tool_counts", "call_tool_errors", "call_tool_times"} {
		var rows, size int
		_, err := w.db.Pool().Exec(b.Context(), `ANALYZE `+table)
		check(b, err)
		check(b, w.db.Pool().QueryRow(b.Context(), `SELECT count(*), pg_total_relation_size($1) FROM `+table, table).Scan(&rows, &size))
		b.Logf("%s: %d rows, %d MB", table, rows, size>>20)
	}
	now := time.Now()
	for name, length := range map[string]time.Duration{"24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour, "90d": 90 * 24 * time.Hour} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				found, err := w.figures.ReadInsights(b.Context(), figures.Query{From: now.Add(-length).Format(time.RFC3339)})
				check(b, err)
				if found.Calls.ByStatus.Total() == 0 || found.Approvals.Totals.Asked == 0 {
					b.Fatal("the figures are empty")
				}
			}
		})
		for kind, q := range map[string]figures.ToolQuery{
			"tools":   {},
			"details": {Details: true},
			"tool":    {Details: true, Tool: "tool_3"},
		} {
			q.From = now.Add(-length).Format(time.RFC3339)
			b.Run(name+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					found, err := w.figures.ReadTools(b.Context(), q)
					check(b, err)
					if len(found.Tools) == 0 || found.Tools[0].Latency.Count == 0 || q.Details && len(found.Errors) == 0 {
						b.Fatal("the figures are empty")
					}
				}
			})
		}
	}
}
