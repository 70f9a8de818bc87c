package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestTeams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann, bea := w.createToken("ann", identity.Reviewer), w.createToken("bea", identity.Reviewer)
	annID, beaID := w.personID(ann), w.personID(bea)
	w.send("PATCH", "/api/v1/people/"+annID.String(), w.operator, `{"granted_teams":["pay"]}`).wantStatus(t, 200)
	soon := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)

	// An absence with a substitute, by the person; by others only if they are operators.
	away := fmt.Sprintf(`{"person":"%s","substitute":"%s","ends":"%s"}`, annID, beaID, soon)
	w.post("absences", bea, away).wantProblem(t, 422, "invalid_request")
	absence := w.post("absences", ann, away).wantStatus(t, 201)
	if absence["substitute"].(map[string]any)["name"] != "bea" || absence["created_by"] != "ann" {
		t.Errorf("%v", absence)
	}
	for body, location := range map[string]string{
		fmt.Sprintf(`{"substitute":"%s","ends":"%s"}`, annID, soon):                  "body.substitute",
		fmt.Sprintf(`{"substitute":"%s","ends":"%s"}`, w.personID(w.operator), soon): "body.substitute",
		fmt.Sprintf(`{"substitute":"%s","ends":"2020-01-01T00:00:00Z"}`, beaID):      "body.ends",
		fmt.Sprintf(`{"person":"%s","ends":"%s"}`, uuid.New(), soon):                 "body.person",
	} {
		if problem := w.post("absences", ann, body).wantProblem(t, 422, "invalid_request"); !strings.Contains(fmt.Sprint(problem["errors"]), location) {
			t.Errorf("%s: %v", body, problem)
		}
	}
	w.post("absences", w.operator, fmt.Sprintf(`{"person":"%s","ends":"%s"}`, uuid.New(), soon)).wantProblem(t, 422, "invalid_request")

	// Ann's team is shown with both.
	calendar := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		form := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("20060102T150405Z") }
		fmt.Fprintf(rw, "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:On Call - ann - Payments\r\nDTSTART:%s\r\nDTEND:%s\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", form(-time.Hour), form(time.Hour))
	}))
	defer calendar.Close()
	set := w.send("PUT", "/api/v1/teams/pay/schedule", w.operator, fmt.Sprintf(`{"url":"%s/hushhush.ics"}`, calendar.URL))
	if v := set.wantStatus(t, 200); v["failed_since"] != nil || v["checked_at"] == nil || strings.Contains(set.body, "hushhush") {
		t.Errorf("%s", set.body)
	}
	teams := listItems(t, w.get("teams", bea).wantStatus(t, 200))
	team, _ := teams[0].(map[string]any)
	var members []string
	for _, m := range team["members"].([]any) {
		one := m.(map[string]any)
		members = append(members, fmt.Sprint(one["person"].(map[string]any)["name"], " ", one["way"], " ", one["on_call"]))
	}
	if len(teams) != 1 || team["name"] != "pay" || strings.Join(members, ", ") != "ann membership false, ann on_call true, bea substitution false, bea substitution true" &&
		strings.Join(members, ", ") != "bea substitution false, bea substitution true, ann membership false, ann on_call true" {
		t.Errorf("%v: %v", members, teams)
	}
	if shift := team["on_call"].([]any)[0].(map[string]any); shift["label"] != "On Call - ann - Payments" || len(shift["people"].([]any)) != 1 {
		t.Errorf("%v", shift)
	}
	calendar.Close()
	if v := w.post("teams/pay/schedule/fetch", w.operator, "").wantStatus(t, 200); v["failed_since"] == nil || v["error"] == nil {
		t.Errorf("%v", v)
	}
	w.send("PUT", "/api/v1/teams/pay/schedule", w.operator, `{"url":"http://chat.example/hushhush"}`).wantProblem(t, 422, "invalid_request")
	w.send("DELETE", "/api/v1/teams/pay/schedule", w.operator, "").wantStatus(t, 204)
	for _, name := range []string{"pay", "%00"} {
		w.send("DELETE", "/api/v1/teams/"+name+"/schedule", w.operator, "").wantProblem(t, 404, "not_found")
		w.post("teams/"+name+"/schedule/fetch", w.operator, "").wantProblem(t, 404, "not_found")
	}

	// Members delegate their own team, operators any.
	delegate := func(team string, to uuid.UUID) string {
		return fmt.Sprintf(`{"team":"%s","person":"%s","ends":"%s"}`, team, to, soon)
	}
	w.post("delegations", bea, delegate("pay", annID)).wantProblem(t, 403, "forbidden") // a substitute is no member who may delegate
	w.post("delegations", ann, delegate("pay", annID)).wantProblem(t, 403, "forbidden")
	w.post("delegations", ann, delegate("ops", beaID)).wantProblem(t, 403, "forbidden")
	byAnn := w.post("delegations", ann, delegate("pay", beaID)).wantStatus(t, 201)
	byOlga := w.post("delegations", w.operator, delegate("ops", beaID)).wantStatus(t, 201)
	if byAnn["member"].(map[string]any)["name"] != "ann" || byOlga["member"] != nil || len(listItems(t, w.get("delegations", ann).wantStatus(t, 200))) != 2 {
		t.Errorf("%v, %v", byAnn, byOlga)
	}
	path := func(kind string, v map[string]any) string { return "/api/v1/" + kind + "/" + v["id"].(string) }
	w.send("DELETE", path("delegations", byOlga), ann, "").wantProblem(t, 404, "not_found")
	w.send("DELETE", path("delegations", byOlga), bea, "").wantStatus(t, 204)
	w.send("DELETE", path("delegations", byAnn), ann, "").wantStatus(t, 204)
	w.send("DELETE", path("absences", absence), bea, "").wantProblem(t, 404, "not_found")
	w.send("DELETE", path("absences", absence), ann, "").wantStatus(t, 204)
	if list := listItems(t, w.get("absences", bea).wantStatus(t, 200)); len(list) != 0 {
		t.Errorf("%v", list)
	}
	if list := listItems(t, w.get("reviewers", bea).wantStatus(t, 200)); len(list) < 2 {
		t.Errorf("%v", list)
	}
}

// The steps of an escalation are set in the API, and shown with their times.
func TestEscalationSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := `[{"after":"10s","teams":["duty"]},{"after":"50%","people":["ann@example.com"]}]`
	if v := w.send("PATCH", "/api/v1/skills/files", w.operator, `{"escalation":`+steps+`}`).wantStatus(t, 200); len(v["escalation"].([]any)) != 2 {
		t.Errorf("%v", v)
	}
	if v := w.send("PATCH", "/api/v1/agents/billing", w.operator, `{"escalation":`+steps+`}`).wantStatus(t, 200); len(v["escalation"].([]any)) != 2 {
		t.Errorf("%v", v)
	}
	for body, location := range map[string]string{
		`{"escalation":[{"after":"soon","teams":["a"]}]}`:  "body.escalation[0].after",
		`{"escalation":[{"after":"1m"}]}`:                  "body.escalation[0]",
		`{"escalation":[{"after":"1m","teams":["a, b"]}]}`: "body.escalation[0].teams[0]",
		`{"escalate_to":"duty"}`:                           "body.escalate_to",
	} {
		if problem := w.send("PATCH", "/api/v1/skills/files", w.operator, body).wantProblem(t, 422, "invalid_request"); !strings.Contains(fmt.Sprint(problem["errors"]), location+" ") {
			t.Errorf("%s: %v", body, problem)
		}
	}
	v := w.get("approvals/"+w.parkCall(`{"n":1}`).String(), w.reviewer).wantStatus(t, 200)
	planned := v["escalation"].([]any)
	if len(planned) != 2 || planned[0].(map[string]any)["taken"] != false || v["escalate_to"] != nil {
		t.Errorf("%v", v["escalation"])
	}
}
