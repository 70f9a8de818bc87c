package api_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestClaimsAndComments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	path, me := "approvals/"+id.String(), w.personID(w.reviewer)
	claim := func(v map[string]any) map[string]any {
		claim, _ := v["claim"].(map[string]any)
		return claim
	}
	if got := claim(w.get(path, w.reviewer).wantStatus(t, 200)); got != nil {
		t.Errorf("claimed at first: %v", got)
	}
	if got := claim(w.post(path+"/claim", w.reviewer, "").wantStatus(t, 200)); got["by"] != "rita" || got["assigned_by"] != nil {
		t.Errorf("claimed: %v", got)
	}
	if got := claim(w.post(path+"/release", w.both, "").wantStatus(t, 200)); got != nil {
		t.Errorf("released: %v", got)
	}
	if got := claim(w.post(path+"/assign", w.both, fmt.Sprintf(`{"person":%q}`, me)).wantStatus(t, 200)); got["by"] != "rita" || got["assigned_by"] == nil {
		t.Errorf("assigned: %v", got)
	}
	w.post(path+"/assign", w.both, fmt.Sprintf(`{"person":%q}`, w.personID(w.operator))).wantProblem(t, 422, "invalid_request")
	w.post(path+"/assign", w.both, `{"person":"rita"}`).wantProblem(t, 422, "invalid_request")

	const remark = "looks odd \u202e <b>"
	v := w.post(path+"/comments", w.reviewer, fmt.Sprintf(`{"text":%q}`, remark)).wantStatus(t, 200)
	comments, _ := v["comments"].([]any)
	if len(comments) != 1 || fmt.Sprint(v["comment_count"]) != "1" {
		t.Fatalf("comments: %v", v["comments"])
	}
	if one, _ := comments[0].(map[string]any); one["text"] != remark || one["by"] != "rita" || fmt.Sprint(one["number"]) != "1" {
		t.Errorf("comment: %v", one)
	}
	w.post(path+"/comments", w.reviewer, `{"text":" "}`).wantProblem(t, 422, "invalid_request")
	w.post(path+"/comments", w.reviewer, fmt.Sprintf(`{"text":%q}`, strings.Repeat("é", 2001))).wantProblem(t, 422, "invalid_request")
	for range 99 {
		w.post(path+"/comments", w.reviewer, `{"text":"odd"}`).wantStatus(t, 200)
	}
	w.post(path+"/comments", w.reviewer, `{"text":"odd"}`).wantProblem(t, 409, "state_conflict")

	// Agents and exports of calls have no comments.
	w.post(path+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"no"}`, w.getDigest(id))).wantStatus(t, 200)
	for _, place := range []string{"calls/" + id.String(), "calls", "calls/export", "calls/export?format=csv", "conversations"} {
		if a := w.get(place, w.both); a.status != 200 || strings.Contains(a.body, "odd") || strings.Contains(a.body, "comment") {
			t.Errorf("%s: %d %s", place, a.status, a.body)
		}
	}
	key := w.newKey("billing")
	if a := w.get("calls/"+id.String(), key); a.status != 200 || strings.Contains(a.body, "odd") {
		t.Errorf("the agent gets %d %s", a.status, a.body)
	}
	if a := w.get(path, key); a.status != 403 {
		t.Errorf("the agent gets the approval: %d", a.status)
	}
	w.post(path+"/claim", w.reviewer, "").wantProblem(t, 409, "already_decided")
}
