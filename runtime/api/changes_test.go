package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// TestLimitedReviewer: every operation that decides refuses a reviewer whose limit excludes the call, and each that reads answers.
func TestLimitedReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limited := w.createToken("lena", identity.Reviewer)
	person := "people/" + w.personID(limited).String()
	w.send(http.MethodPatch, "/api/v1/"+person, w.operator, `{"review_limit":{"skills":["led*"],"teams":["finance"]}}`).wantStatus(t, 200)
	wantMembers(t, "person", w.get(person, w.operator).wantStatus(t, 200), `{"review_limit":{"skills":["led*"],"teams":["finance"]}}`)
	id := w.parkCall(`{"n":1}`)
	digest := w.getDigest(id)
	for path, body := range map[string]string{
		"approve": fmt.Sprintf(`{"digest":%q}`, digest), "reject": fmt.Sprintf(`{"digest":%q,"reason":"x"}`, digest), "extend": "", "claim": "",
	} {
		got := w.post("approvals/"+id.String()+"/"+path, limited, body)
		got.wantProblem(t, 403, "outside_limit")
		if !strings.Contains(got.body, "teams: finance; skills: led*") {
			t.Errorf("%s does not name the limit: %s", path, got.body)
		}
	}
	w.post("approvals/"+id.String()+"/assign", w.reviewer, fmt.Sprintf(`{"person":%q}`, w.personID(limited))).wantProblem(t, 422, "invalid_request")
	for _, path := range []string{"approvals", "approvals/" + id.String(), "calls/export"} {
		if got := w.get(path, limited); got.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, got.status, got.body)
		}
	}
	w.send(http.MethodPatch, "/api/v1/"+person, w.operator, `{"review_limit":{"skills":["a\u0000"]}}`).wantProblem(t, 422, "invalid_request")
	w.send(http.MethodPatch, "/api/v1/"+person, w.operator, `{"review_limit":{"skills":["fil*"]}}`).wantStatus(t, 200)
	w.post("approvals/"+id.String()+"/approve", limited, fmt.Sprintf(`{"digest":%q}`, digest)).wantStatus(t, 200)
	w.waitForEnd(id)
}

// TestChangesWait: with dual control, each operation that loosens answers with the change that waits.
func TestChangesWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := w.createToken("otto", identity.Operator)
	rita := w.personID(w.reviewer).String()
	w.send(http.MethodPut, "/api/v1/rules/never", w.operator, `{"effect":"deny","skills":["mail"]}`).wantStatus(t, 200)
	w.control.On = true
	for what, request := range map[string][3]string{
		"skill":      {http.MethodPatch, "skills/files", `{"auto_approve":true}`},
		"new skill":  {http.MethodPost, "skills", `{"name":"mail","transport":"http","url":"http://127.0.0.1:9/mcp","auto_approve":true}`},
		"rule":       {http.MethodPut, "rules/all", `{"effect":"allow","skills":["*"]}`},
		"delete":     {http.MethodDelete, "rules/never", ""},
		"role":       {http.MethodPatch, "people/" + rita, `{"granted_roles":["operator"]}`},
		"invitation": {http.MethodPost, "invitations", `{"name":"nora","roles":["reviewer"]}`},
	} {
		got := w.send(request[0], "/api/v1/"+request[1], w.operator, request[2])
		if what == "invitation" {
			if v := got.wantStatus(t, 201); v["invitation"].(map[string]any)["waits"] != true {
				t.Errorf("invitation: %s", got.body)
			}
			continue
		}
		change := got.wantProblem(t, 202, "change_waits")["change"].(string)
		v := w.get("changes/"+change, w.operator).wantStatus(t, 200)
		if v["status"] != "pending" || v["proposed_by"].(map[string]any)["name"] != "olga" {
			t.Errorf("%s: %v", what, v)
		}
		w.post("changes/"+change+"/approve", w.operator, `{}`).wantProblem(t, 403, "forbidden")
		if what != "rule" {
			continue
		}
		w.post("changes/"+change+"/approve", second, `{"note":"fine"}`).wantStatus(t, 200)
		w.post("changes/"+change+"/reject", second, `{}`).wantProblem(t, 409, "state_conflict")
		wantMembers(t, "rule", w.get("rules/all", w.operator).wantStatus(t, 200), `{"effect":"allow"}`)
	}
	if n := len(listItems(t, w.get("changes?pending=true", second).wantStatus(t, 200))); n != 5 {
		t.Errorf("%d changes wait", n)
	}
	w.get("changes/"+uuid.NewString(), second).wantProblem(t, 404, "not_found")
	applied := w.post("apply", w.operator, `{"spec":{"rules":[{"name":"more","effect":"allow","skills":["*"]}]}}`)
	if items := listItems(t, applied.wantStatus(t, 200)); items[0].(map[string]any)["waits"] == nil {
		t.Errorf("apply: %s", applied.body)
	}
}
