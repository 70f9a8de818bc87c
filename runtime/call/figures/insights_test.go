package figures_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// made is a row of calls.
type made struct {
	at      string
	status  call.Status
	failure tool.FailureKind
	skill   uuid.UUID
	agent   uuid.UUID
	asked   *asked // nil if the call is not gated
}

// asked is the approval of a call.
type asked struct {
	tool    string
	rule    approval.Rule
	after   time.Duration // until it ended; zero if pending
	timeout time.Duration // zero: five minutes
	by      uuid.UUID
	status  approval.Status
	takenUp time.Duration // after the request
}

// idAt returns a UUID of version 7 that has a time.
func idAt(t time.Time) uuid.UUID {
	id := uuid.New()
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t.UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	return id
}

// insertCalls inserts calls in one transaction, so that a counting service sees all or none of them.
func (w *world) insertCalls(t *testing.T, calls []made) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, len(calls))
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		for i, m := range calls {
			when := parseTime(t, m.at)
			ids[i] = idAt(when)
			_, err := tx.Exec(t.Context(), `INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, gated, status, tool,
					exposed_name, pin, arguments, failure)
				VALUES ($1, $2, $3, 1, $4, $5, $6, 't', 's__t', sha256(''), '{}', nullif($7, ''))`,
				ids[i], m.agent, m.skill, when, m.asked != nil, m.status, m.failure)
			if err != nil {
				return err
			}
			a := m.asked
			if a == nil {
				continue
			}
			var end, takenUp *time.Time
			if a.after > 0 {
				ended := when.Add(a.after)
				end = &ended
			}
			if a.by != uuid.Nil {
				taken := when.Add(a.takenUp)
				takenUp = &taken
			}
			_, err = tx.Exec(t.Context(), `INSERT INTO approvals (call_id, digest, created_at, deadline, decided_at, decided_by, taken_up_at,
					status, rule, agent_id, skill_id, tool) VALUES ($1, sha256(''), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
				ids[i], when, when.Add(max(a.timeout, 5*time.Minute)), end, postgres.OrNull(a.by), takenUp,
				a.status, a.rule, m.agent, m.skill, a.tool)
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return ids
}

var (
	skillA, skillB = uuid.MustParse("0a000000-0000-7000-8000-000000000001"), uuid.MustParse("0b000000-0000-7000-8000-000000000002")
	agentA, agentB = uuid.MustParse("a0000000-0000-7000-8000-000000000003"), uuid.MustParse("b0000000-0000-7000-8000-000000000004")
	rita, rob      = uuid.MustParse("c0000000-0000-7000-8000-000000000005"), uuid.MustParse("d0000000-0000-7000-8000-000000000006")
)

// weekOfCalls returns calls of the week that starts on Monday, March 2, 2026, and some from the weeks around it.
func weekOfCalls() []made {
	decided := func(tool string, rule approval.Rule, status approval.Status, by uuid.UUID, takenUp, after time.Duration) *asked {
		return &asked{tool: tool, rule: rule, status: status, by: by, takenUp: takenUp, after: after}
	}
	return []made{
		// The week before
		{at: "2026-02-23T12:00:00Z", status: call.Succeeded, skill: skillA, agent: agentA},
		{
			at: "2026-03-01T23:59:59Z", status: call.Succeeded, skill: skillA, agent: agentA,
			asked: decided("write", approval.RuleGated, approval.Approved, rita, 0, 10*time.Second),
		},
		// Monday, from midnight
		{at: "2026-03-02T00:00:00Z", status: call.Succeeded, skill: skillB, agent: agentB},
		{at: "2026-03-02T09:10:00Z", status: call.Failed, failure: tool.TransportFailure, skill: skillB, agent: agentB},
		{
			at: "2026-03-02T09:20:00Z", status: call.Succeeded, skill: skillA, agent: agentA,
			asked: decided("write", approval.RuleGated, approval.Approved, rita, 0, 20*time.Second),
		},
		{
			// It arrived while Rita decided the previous one, so she had 2 s for it.
			at: "2026-03-02T09:20:10Z", status: call.Rejected, skill: skillA, agent: agentA,
			asked: decided("write", approval.RuleHighRisk, approval.Rejected, rita, 10*time.Second, 12*time.Second),
		},
		{
			at: "2026-03-02T09:30:00Z", status: call.Failed, failure: tool.ToolError, skill: skillA, agent: agentB,
			asked: decided("delete", approval.RuleHighRisk, approval.Approved, rob, 0, 40*time.Second),
		},
		// Tuesday has no calls. Wednesday's call expired an hour after it arrived.
		{
			at: "2026-03-04T09:59:59.999Z", status: call.Expired, skill: skillA, agent: agentA,
			asked: &asked{tool: "write", rule: approval.RuleGated, status: approval.Expired, after: time.Hour},
		},
		{
			at: "2026-03-04T10:00:00Z", status: call.Cancelled, skill: skillA, agent: agentA,
			asked: &asked{tool: "delete", rule: approval.RuleGated, status: approval.Cancelled, after: time.Minute},
		},
		{
			// Overdue but still pending
			at: "2026-03-04T10:30:00Z", status: call.Parked, skill: skillA, agent: agentA,
			asked: &asked{tool: "write", rule: approval.RuleGated, status: approval.Pending},
		},
		{
			at: "2026-03-08T23:59:59Z", status: call.Parked, skill: skillA, agent: agentA,
			asked: &asked{tool: "write", rule: approval.RuleGated, status: approval.Pending, timeout: 100 * 365 * 24 * time.Hour},
		},
		{at: "2026-03-08T23:59:59Z", status: call.Unknown, skill: skillB, agent: agentA},
		// The week after
		{at: "2026-03-09T00:00:00Z", status: call.Succeeded, skill: skillA, agent: agentA},
	}
}

func (w *world) getInsights(t *testing.T, from, to string) figures.Insights {
	t.Helper()
	found, err := w.figures.ReadInsights(t.Context(), figures.Query{From: from, To: to})
	check(t, err)
	return found
}

func formatCounts(found figures.Counts) string {
	var text strings.Builder
	for _, status := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&text, "%s %d, ", status, found[status])
	}
	return text.String()
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestInsights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insertCalls(t, weekOfCalls())
	// The figures are the same before and after counting.
	for _, counted := range []bool{false, true} {
		if counted {
			check(t, w.figures.Count(t.Context()))
		}
		found := w.getInsights(t, "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z")
		wantEqual(t, "calls", formatCounts(found.Calls.ByStatus), "cancelled 1, expired 1, failed 2, parked 2, rejected 1, succeeded 2, unknown 1, ")
		wantEqual(t, "calls before", formatCounts(found.CallsBefore.ByStatus), "succeeded 2, ")
		wantEqual(t, "failures", fmt.Sprint(found.Calls.Failures), "map[tool_error:1 transport:1]")
		wantEqual(t, "bucket", found.Window.Bucket, figures.Daily)
		wantEqual(t, "buckets", len(found.Series), 7)
		for i, want := range []string{
			"failed 2, rejected 1, succeeded 2, ", "", "cancelled 1, expired 1, parked 1, ", "", "", "", "parked 1, unknown 1, ",
		} {
			wantEqual(t, "calls of "+found.Series[i].From.String(), formatCounts(found.Series[i].Calls), want)
		}
		var hours [7][24]int
		hours[0][0], hours[0][9], hours[2][9], hours[2][10], hours[6][23] = 1, 4, 1, 2, 2
		wantEqual(t, "hours", found.Calls.Hours, hours)
	}
}

func TestInsightsOfApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insertCalls(t, weekOfCalls())
	found := w.getInsights(t, "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z").Approvals
	totals := found.Totals
	wantEqual(t, "asked", totals.Asked, 7)
	wantEqual(t, "outcomes", [5]int{totals.Approved, totals.Rejected, totals.Expired, totals.Cancelled, totals.Pending}, [5]int{2, 1, 2, 1, 1})
	// 12, 20, 40, 60 and twice 300 seconds: the third of six is the median, the sixth is p90.
	wantEqual(t, "waiting", totals.Waiting, approval.Spread{Count: 6, P50: 40 * time.Second, P90: 300 * time.Second})
	wantEqual(t, "deciding", totals.Deciding, approval.Spread{Count: 3, P50: 20 * time.Second, P90: 40 * time.Second})
	wantEqual(t, "fast", totals.Fast, 1)
	monday := found.Buckets[0]
	wantEqual(t, "Monday", monday.Waiting, approval.Spread{Count: 3, P50: 20 * time.Second, P90: 40 * time.Second})
	sunday := found.Buckets[6]
	wantEqual(t, "Sunday", sunday.Waiting, approval.Spread{})
	wantEqual(t, "Sunday's requests", sunday.Asked, 1)

	shares := func(list []approval.Share) string {
		var text strings.Builder
		for _, s := range list {
			name := s.Tool + string(s.Rule)
			if s.SkillID == skillA {
				name = "A " + name
			}
			fmt.Fprintf(&text, "%s: %d of %d, expired %d; ", name, s.Approved, s.Decisions(), s.Expired)
		}
		return text.String()
	}
	wantEqual(t, "by skill", shares(found.Skills), "A : 2 of 3, expired 2; ")
	wantEqual(t, "by tool", shares(found.Tools), "A write: 1 of 2, expired 2; A delete: 1 of 1, expired 0; ")
	wantEqual(t, "by rule", shares(found.Rules), "gated: 1 of 1, expired 2; high_risk: 1 of 2, expired 0; ")
	wantEqual(t, "by person", fmt.Sprint(found.Deciders), fmt.Sprint([]approval.Decider{{PersonID: rita, Decisions: 2, Fast: 1}, {PersonID: rob, Decisions: 1}}))
}

// Decisions about unusual values are counted by the time on screen, within the range and its filters.
func TestInsightsOfUnusualValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	decided := func(at string, status approval.Status, by uuid.UUID) made {
		return made{at: at, status: call.Succeeded, skill: skillA, agent: agentA, asked: &asked{tool: "t", rule: approval.RuleGated, status: status, by: by, after: time.Minute}}
	}
	const day = "2026-03-03T00:00:00Z"
	ids := w.insertCalls(t, []made{
		decided(day, approval.Approved, rita), decided(day, approval.Approved, rita), decided(day, approval.Rejected, rita),
		decided(day, approval.Approved, rob), decided(day, approval.Rejected, rob),
		decided(day, approval.Approved, rob), decided(day, approval.Approved, rob), // usual, and not measured
		decided("2026-03-10T00:00:00Z", approval.Approved, rita), // out of the range
	})
	for i, ms := range []int{500, 1999, 2000, 10_000, 75_000, 100, -1, 100} {
		unusual := 1
		if i == 5 {
			unusual = 0
		}
		if ms >= 0 {
			_, err := w.db.Pool().Exec(t.Context(), `UPDATE approvals SET seen_rows = 1, seen_of = 1, seen_unusual = $2, seen_ms = $3, second_step = false
				WHERE call_id = $1`, ids[i], unusual, ms)
			check(t, err)
		}
	}
	found := w.getInsights(t, "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z").Approvals.Unusual
	wantEqual(t, "by time", fmt.Sprint(found.Bands), fmt.Sprint([]approval.UnusualBand{{Approved: 2}, {Rejected: 1}, {Approved: 1}, {Rejected: 1}}))
	wantEqual(t, "by person", fmt.Sprint(found.Reviewers), fmt.Sprint([]approval.UnusualReviewer{
		{PersonID: rita, Decisions: 3, Median: 1999 * time.Millisecond, Hasty: 2}, {PersonID: rob, Decisions: 2, Median: 10 * time.Second},
	}))
	none := w.getInsights(t, "2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z").Approvals.Unusual
	wantEqual(t, "by time before", fmt.Sprint(none.Bands), fmt.Sprint(make([]approval.UnusualBand, 4)))
}

func TestInsightsOfPartOfTheWeek(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insertCalls(t, weekOfCalls())
	check(t, w.figures.Count(t.Context()))
	// Buckets are UTC days. The range cuts the first and the last.
	found := w.getInsights(t, "2026-03-01T23:00:00Z", "2026-03-04T23:30:00Z")
	wantEqual(t, "bucket", found.Window.Bucket, figures.Daily)
	wantEqual(t, "first bucket", found.Series[0].From.Format(time.RFC3339)+" "+formatCounts(found.Series[0].Calls), "2026-03-01T23:00:00Z succeeded 1, ")
	wantEqual(t, "last bucket", found.Series[3].To.Format(time.RFC3339), "2026-03-05T00:00:00Z")
	wantEqual(t, "buckets", len(found.Series), 4)

	found = w.getInsights(t, "2026-03-02T10:20:00+01:00", "2026-03-02T11:00:00+01:00")
	wantEqual(t, "an hour elsewhere", formatCounts(found.Calls.ByStatus), "failed 2, rejected 1, succeeded 1, ")
	wantEqual(t, "its bucket", found.Window.Bucket, figures.Hourly)

	found = w.getInsights(t, "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z")
	wantEqual(t, "weeks", found.Window.Bucket, figures.Weekly)
	wantEqual(t, "first week", found.Series[0].From.Format(time.DateOnly)+" "+found.Series[0].To.Format(time.DateOnly), "2026-01-01 2026-01-05")
	var byWeek strings.Builder
	for _, s := range found.Series {
		if n := s.Calls.Total(); n > 0 {
			fmt.Fprintf(&byWeek, "%s %d, ", s.From.Format(time.DateOnly), n)
		}
	}
	wantEqual(t, "calls by week", byWeek.String(), "2026-02-23 2, 2026-03-02 10, 2026-03-09 1, ")

	found = w.getInsights(t, "2026-04-01T00:00:00Z", "2026-04-02T00:00:00Z")
	if found.Calls.ByStatus.Total() != 0 || found.Approvals.Totals.Asked != 0 || len(found.Series) != 24 {
		t.Errorf("a day without calls: %+v", found)
	}
}

// Days, weeks and hours are those of the zone, also when its clocks change.
func TestInsightsInZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insertCalls(t, append(weekOfCalls(),
		made{at: "2026-03-28T23:30:00Z", status: call.Succeeded, skill: skillA, agent: agentA}, // Sunday in Berlin, 23 hours long
		made{at: "2026-03-29T21:59:00Z", status: call.Failed, skill: skillA, agent: agentA},
		made{at: "2026-03-29T22:00:00Z", status: call.Unknown, skill: skillA, agent: agentA}))
	for _, counted := range []bool{false, true} {
		if counted {
			check(t, w.figures.Count(t.Context()))
		}
		found, err := w.figures.ReadInsights(t.Context(), figures.Query{From: "2026-03-02", To: "2026-03-08", Zone: "Europe/Berlin"})
		check(t, err)
		wantEqual(t, "window", found.Window.From.Format(time.RFC3339)+" "+found.Window.To.Format(time.RFC3339), "2026-03-02T00:00:00+01:00 2026-03-09T00:00:00+01:00")
		// The call of Sunday 23:59 UTC was made on Monday in Berlin, and those at the end of the window after it.
		wantEqual(t, "Monday", formatCounts(found.Series[0].Calls), "failed 2, rejected 1, succeeded 3, ")
		wantEqual(t, "Monday's requests", found.Series[0].Approvals.Asked, 4)
		wantEqual(t, "all", found.Calls.ByStatus.Total(), 9)
		wantEqual(t, "hours of Monday", found.Calls.Hours[0], [24]int{0: 1, 1: 1, 10: 4})

		found, err = w.figures.ReadInsights(t.Context(), figures.Query{From: "2026-03-24", To: "2026-03-30", Zone: "Europe/Berlin"})
		check(t, err)
		wantEqual(t, "days", len(found.Series), 7)
		wantEqual(t, "length of Sunday", found.Series[5].To.Sub(found.Series[5].From), 23*time.Hour)
		wantEqual(t, "Sunday", formatCounts(found.Series[5].Calls), "failed 1, succeeded 1, ")
		wantEqual(t, "the day after", formatCounts(found.Series[6].Calls), "unknown 1, ")
	}
	_, err := w.figures.ReadInsights(t.Context(), figures.Query{Zone: "../Berlin"})
	if wrong, ok := errors.AsType[*fault.InvalidError](err); !ok || wrong.Fields[0].Name != "zone" {
		t.Errorf("an unknown zone: %v", err)
	}
}

// Days and hours begin when they do in the zone, also where its offset is no whole hour or its clocks change by half an hour. All calls of a
// test are at most an hour before or after such a time.
func TestInsightsInZoneOfHalfHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls []made
	add := func(times ...string) {
		for _, at := range times {
			calls = append(calls, made{at: at, status: call.Succeeded, skill: skillA, agent: agentA})
		}
	}
	add("2026-03-01T18:00:00Z", "2026-03-01T18:14:59Z", "2026-03-01T18:15:00Z", "2026-03-01T18:29:59Z", "2026-03-01T18:30:00Z", "2026-03-01T18:59:00Z",
		"2026-03-02T18:10:00Z", "2026-03-02T18:20:00Z", "2026-03-02T18:40:00Z", "2026-03-08T18:14:00Z", "2026-03-08T18:29:00Z", "2026-03-08T18:30:00Z")
	add("2026-04-03T12:59:00Z", "2026-04-03T13:00:00Z", "2026-04-04T12:59:00Z", "2026-04-04T13:00:00Z", "2026-04-04T15:10:00Z", "2026-04-05T13:29:00Z", "2026-04-05T13:30:00Z")
	w.insertCalls(t, calls)
	for _, counted := range []bool{false, true} {
		if counted {
			check(t, w.figures.Count(t.Context()))
			if w.db.Count("call_counts") == 0 {
				t.Fatal("no call is counted")
			}
		}
		for _, test := range []struct {
			zone, from, to string
			bucket         figures.BucketLength
			want           string // the buckets with calls
			all            int
		}{
			{"Asia/Kolkata", "2026-03-02", "2026-03-08", figures.Daily, "03-02T00:00 4, 03-03T00:00 1, 03-08T00:00 2, ", 7},
			{"Asia/Kathmandu", "2026-03-02", "2026-03-08", figures.Daily, "03-02T00:00 5, 03-03T00:00 2, 03-08T00:00 1, ", 8},
			{"UTC", "2026-03-01", "2026-03-08", figures.Daily, "03-01T00:00 6, 03-02T00:00 3, 03-08T00:00 3, ", 12},
			{"Asia/Kolkata", "2026-03-01", "2026-03-02", figures.Hourly, "03-01T23:00 4, 03-02T00:00 2, 03-02T23:00 2, ", 8},
			{"Asia/Kathmandu", "2026-03-02", "2026-03-02", figures.Hourly, "03-02T00:00 4, 03-02T23:00 1, ", 5},
			{"Asia/Kolkata", "2026-01-01", "2026-06-01", figures.Weekly, "02-23T00:00 4, 03-02T00:00 7, 03-09T00:00 1, 03-30T00:00 7, ", 19},
			{"Australia/Lord_Howe", "2026-04-01", "2026-04-07", figures.Daily, "04-03T00:00 1, 04-04T00:00 2, 04-05T00:00 3, 04-06T00:00 1, ", 7},
			{"Australia/Lord_Howe", "2026-04-05", "2026-04-05", figures.Hourly, "04-05T00:00 1, 04-05T01:30 1, 04-05T23:00 1, ", 3},
		} {
			name := fmt.Sprintf("%s, %s to %s, counted: %t", test.zone, test.from, test.to, counted)
			q := figures.Query{From: test.from, To: test.to, Zone: test.zone}
			found, err := w.figures.ReadInsights(t.Context(), q)
			check(t, err)
			var buckets strings.Builder
			for i, b := range found.Series {
				if n := b.Calls.Total(); n > 0 {
					fmt.Fprintf(&buckets, "%s %d, ", b.From.Format("01-02T15:04"), n)
				}
				if midnight := b.From.Format("15:04"); test.bucket != figures.Hourly && midnight != "00:00" {
					t.Errorf("%s: bucket %d begins at %s", name, i, midnight)
				}
			}
			wantEqual(t, name+": buckets", buckets.String(), test.want)
			wantEqual(t, name+": length", found.Window.Bucket, test.bucket)
			wantEqual(t, name+": all", found.Calls.ByStatus.Total(), test.all)
			byTool, err := w.figures.ReadTools(t.Context(), figures.ToolQuery{Query: q})
			check(t, err)
			total := 0
			for _, one := range byTool.Tools {
				total += one.Calls.Total()
			}
			wantEqual(t, name+": by tool", total, test.all)
			if test.bucket == figures.Daily {
				wantEqual(t, name+": hour of midnight on Monday", found.Calls.Hours[0][0] > 0, test.zone != "UTC")
			}
		}
	}
}

func TestInsightFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	calls := weekOfCalls()
	for i := range calls {
		if calls[i].skill == skillA {
			calls[i].skill = files.ID
		}
		if calls[i].agent == agentB {
			calls[i].agent = w.agent.ID
		}
	}
	w.insertCalls(t, calls)
	check(t, w.figures.Count(t.Context()))
	filter := figures.Query{From: "2026-03-02", To: "2026-03-08", Skill: "files"}
	found, err := w.figures.ReadInsights(t.Context(), filter)
	check(t, err)
	wantEqual(t, "calls of the skill", found.Calls.ByStatus.Total(), 7)
	wantEqual(t, "its name", found.SkillNames[found.Approvals.Skills[0].SkillID], "files")
	filter.Agent = "billing"
	found, err = w.figures.ReadInsights(t.Context(), filter)
	check(t, err)
	wantEqual(t, "calls of both", formatCounts(found.Calls.ByStatus), "failed 1, ")
	wantEqual(t, "asked for by both", found.Approvals.Totals.Asked, 1)
	for field, wrong := range map[string]figures.Query{
		"skill": {Skill: "nothing"}, "agent": {Agent: "no\x00body"}, "to": {From: "2026-03-09", To: "2026-03-01"}, "from": {From: "Monday"},
	} {
		_, err := w.figures.ReadInsights(t.Context(), wrong)
		if told, ok := errors.AsType[*fault.InvalidError](err); !ok || told.Fields[0].Name != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A call is counted once even if it ends after its hour was counted.
func TestCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.insertCalls(t, weekOfCalls())
	whole := func() string {
		return formatCounts(w.getInsights(t, "2026-02-01T00:00:00Z", "2026-04-01T00:00:00Z").Calls.ByStatus)
	}
	const before = "cancelled 1, expired 1, failed 2, parked 2, rejected 1, succeeded 5, unknown 1, "
	wantEqual(t, "not counted", whole(), before)
	for range 2 {
		check(t, w.figures.Count(t.Context()))
		wantEqual(t, "counted", whole(), before)
	}
	w.db.Exec(`UPDATE calls SET status = 'expired' WHERE id = $1`, ids[9])
	const after = "cancelled 1, expired 2, failed 2, parked 1, rejected 1, succeeded 5, unknown 1, "
	wantEqual(t, "one has ended", whole(), after)
	check(t, w.figures.Count(t.Context()))
	wantEqual(t, "counted again", whole(), after)
	// Only calls that have not ended are still read from the table calls.
	w.db.Exec(`DELETE FROM calls WHERE status <> 'parked'`)
	wantEqual(t, "from counts", whole(), after)
}
