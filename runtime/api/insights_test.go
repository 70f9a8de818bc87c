package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/api/review"
)

func (w *world) insights(t *testing.T, token, query string) review.Insights {
	t.Helper()
	got := w.get("insights"+query, token)
	got.wantStatus(t, 200)
	var view review.Insights
	check(t, json.Unmarshal([]byte(got.body), &view))
	return view
}

func TestInsights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	approved, rejected := w.parkCall(`{"n":1}`), w.parkCall(`{"n":2}`)
	w.parkCall(`{"n":3}`)
	w.waitForEnd(w.submitCall("open__write", `{}`, uuid.Nil))
	w.post("approvals/"+approved.String()+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, w.getDigest(approved))).wantStatus(t, 200)
	w.post("approvals/"+rejected.String()+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"no"}`, w.getDigest(rejected))).wantStatus(t, 200)
	w.waitForEnd(approved)

	view := w.insights(t, w.operator, "")
	if view.To.Sub(view.From) < 7*24*time.Hour || view.Bucket != "day" || len(view.Series) < 7 {
		t.Errorf("the last week is from %s to %s, by %s, in %d parts", view.From, view.To, view.Bucket, len(view.Series))
	}
	want := map[string]int{"succeeded": 2, "rejected": 1, "parked": 1}
	for status, n := range view.Calls.ByStatus {
		if n != want[status] {
			t.Errorf("%s: %d calls, want %d", status, n, want[status])
		}
	}
	sum := 0
	for _, part := range view.Series {
		for _, n := range part.Calls {
			sum += n
		}
	}
	if view.Calls.Total != 4 || sum != 4 || len(view.Calls.ByStatus) != 12 || view.CallsBefore.Total != 0 {
		t.Errorf("%d calls, %d in the series, before %d: %v", view.Calls.Total, sum, view.CallsBefore.Total, view.Calls.ByStatus)
	}
	a := view.Approvals
	if a.Asked != 3 || a.Approved != 1 || a.Rejected != 1 || a.Pending != 1 || a.ApprovedShare == nil || *a.ApprovedShare != 0.5 {
		t.Errorf("approvals: %+v", a)
	}
	if a.Deciding.Count != 2 || a.Deciding.P90 == nil || view.ApprovalsBefore.Deciding.P50 != nil || view.ApprovalsBefore.ApprovedShare != nil {
		t.Errorf("decision times: %+v, before %+v", a.Deciding, view.ApprovalsBefore.Deciding)
	}
	if len(view.ByTool) != 1 || *view.ByTool[0].Skill != "files" || *view.ByTool[0].Tool != "write" || view.ByTool[0].Asked != 3 {
		t.Errorf("by tool: %+v", view.ByTool)
	}
	if len(view.BySkill) != 1 || view.BySkill[0].Tool != nil || len(view.ByRule) != 1 || *view.ByRule[0].Rule != "gated" {
		t.Errorf("by skill: %+v, by rule: %+v", view.BySkill, view.ByRule)
	}
	if len(view.ByPerson) != 1 || view.ByPerson[0].Person.Name != "rita" || view.ByPerson[0].Decisions != 2 {
		t.Errorf("by person: %+v", view.ByPerson)
	}
	w.db.Exec(`UPDATE approvals SET seen_rows = 1, seen_of = 1, seen_unusual = 1, seen_ms = 1500, second_step = false WHERE call_id = $1`, approved)
	unusual := w.insights(t, w.operator, "").Unusual
	if len(unusual.ByTime) != 4 || unusual.ByTime[0].Approved != 1 || *unusual.ByTime[0].To != 2 || unusual.ByTime[3].From != 60 || unusual.ByTime[3].To != nil {
		t.Errorf("unusual by time: %+v", unusual.ByTime)
	}
	if of := unusual.ByPerson; len(of) != 1 || of[0].Person.Name != "rita" || of[0].Median != 1.5 || of[0].Hasty != 1 {
		t.Errorf("unusual by person: %+v", of)
	}
	if of := w.insights(t, w.reviewer, ""); of.ByPerson != nil || of.Unusual.ByPerson != nil || of.Approvals.Asked != 3 {
		t.Errorf("a reviewer sees %+v of %d", of.ByPerson, of.Approvals.Asked)
	}
	if of := w.insights(t, w.reviewer, "?skill=open&agent=billing"); of.Calls.Total != 1 || of.Approvals.Asked != 0 {
		t.Errorf("of the open skill: %+v", of.Calls)
	}
	if of := w.insights(t, w.reviewer, "?from=2026-01-05&to=2026-01-05"); of.To.Sub(of.From) != 24*time.Hour {
		t.Errorf("a day as a whole: %s to %s", of.From, of.To)
	}
	from := url.QueryEscape("2026-01-05T01:30:00+01:00")
	if of := w.insights(t, w.reviewer, "?to=2026-01-05T10:00:00Z&from="+from); of.From.Format(time.RFC3339) != "2026-01-05T00:00:00Z" ||
		of.Bucket != "hour" || len(of.Series) != 10 || of.Calls.Total != 0 {
		t.Errorf("an earlier range: %+v", of)
	}
}

func TestInsightsRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for query, location := range map[string]string{
		"from=yesterday": "query.from", "to=2026-13-05": "query.to", "skill=nothing": "query.skill", "agent=nobody%00": "query.agent",
		"from=2026-01-05T00:00:00Z&to=2026-01-04T00:00:00Z": "query.to", "from=2020-01-05T00:00:00Z&to=2026-01-04T00:00:00Z": "query.from",
		"person=rita": "query.person",
	} {
		v := w.get("insights?"+query, w.operator).wantProblem(t, 422, "invalid_request")
		fields, _ := v["errors"].([]any)
		if len(fields) != 1 || fields[0].(map[string]any)["location"] != location {
			t.Errorf("%s: %v", query, v)
		}
	}
}

func TestToolInsights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.waitForEnd(w.submitCall("open__write", `{}`, uuid.Nil))
	w.parkCall(`{"n":1}`)
	read := func(query string) (view review.ToolInsights) {
		t.Helper()
		got := w.get("insights/tools"+query, w.reviewer)
		got.wantStatus(t, 200)
		check(t, json.Unmarshal([]byte(got.body), &view))
		return view
	}
	view := read("?sort=name")
	if view.Total != 2 || len(view.Tools) != 2 || *view.Tools[0].Skill != "files" || view.Tools[0].ByStatus["parked"] != 1 || view.Tools[0].ErrorShare != nil {
		t.Fatalf("tools: %+v", view.Tools)
	}
	open := view.Tools[1]
	if *open.Skill != "open" || open.Tool != "write" || open.Calls != 1 || open.ByStatus["succeeded"] != 1 || open.ErrorShare == nil || *open.ErrorShare != 0 {
		t.Errorf("of the open skill: %+v", open)
	}
	if len(view.Steps) < 2 || view.Steps[0].Step != "validate" || view.Steps[0].Count != 1 || view.Steps[0].P50 == nil || view.HTTPStatuses == nil || view.Errors == nil {
		t.Errorf("steps %+v, statuses %v, errors %v", view.Steps, view.HTTPStatuses, view.Errors)
	}
	if of := read("?skill=open&tool=write&from=" + url.QueryEscape(time.Now().UTC().Add(-time.Hour).Format(time.RFC3339))); len(of.Tools) != 1 {
		t.Errorf("of one tool: %+v", of.Tools)
	}
	if of := read("?tool=nothing"); of.Total != 0 || of.Tools == nil {
		t.Errorf("of a tool that was never called: %+v", of)
	}
	for query, location := range map[string]string{"sort=most": "query.sort", "skill=nothing": "query.skill", "tool=%00": "query.tool"} {
		v := w.get("insights/tools?"+query, w.operator).wantProblem(t, 422, "invalid_request")
		fields, _ := v["errors"].([]any)
		if len(fields) != 1 || fields[0].(map[string]any)["location"] != location {
			t.Errorf("%s: %v", query, v)
		}
	}
}
