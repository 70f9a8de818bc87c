package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
)

func TestGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	body := fmt.Sprintf(`{"call_id":%q,"arguments":[{"argument":"/n","kind":"range","min":0,"max":9007199254740993}]`, id)
	preview := w.send("POST", "/api/v1/grants/preview", w.reviewer, body+"}").wantStatus(t, http.StatusOK)
	if preview["sentence"] != "n is from 0 to 9007199254740993" || fmt.Sprint(preview["pending"]) != "1" || preview["needs_second"] != false {
		t.Errorf("preview: %v", preview)
	}
	made := w.send("POST", "/api/v1/grants", w.reviewer, body+`,"time":"1h","uses":3}`).wantStatus(t, http.StatusCreated)
	grant := fmt.Sprint(made["id"])
	if made["state"] != "active" || made["agent"] != "billing" || fmt.Sprint(made["uses"]) != "3" || made["call_id"] != id.String() || made["wide"] != false {
		t.Errorf("made: %v", made)
	}
	if items, _ := w.get("grants", w.operator).wantStatus(t, http.StatusOK)["items"].([]any); len(items) != 1 {
		t.Errorf("listed: %v", items)
	}
	if got := w.get("grants/"+grant, w.operator).wantStatus(t, http.StatusOK); got["sentence"] != preview["sentence"] {
		t.Errorf("the grant: %v", got)
	}
	passed := w.submitCall("files__write", `{"n":2}`, uuid.Nil)
	for path, n := range map[string]int{"calls?grant=" + grant: 1, "calls?grant=" + uuid.NewString(): 0} {
		if items := listItems(t, w.get(path, w.reviewer).wantStatus(t, http.StatusOK)); len(items) != n || n == 1 && items[0].(map[string]any)["id"] != passed.String() {
			t.Errorf("%s: %v", path, items)
		}
	}
	w.send("POST", "/api/v1/grants/"+grant+"/confirm", w.operator, "").wantProblem(t, http.StatusConflict, "state_conflict")
	if revoked := w.send("POST", "/api/v1/grants/"+grant+"/revoke", w.operator, "").wantStatus(t, http.StatusOK); revoked["state"] != "revoked" || revoked["revoked_at"] == nil {
		t.Errorf("revoked: %v", revoked)
	}
	w.send("POST", "/api/v1/grants/"+grant+"/revoke", w.operator, "").wantProblem(t, http.StatusConflict, "state_conflict")
	if items, _ := w.get("grants", w.operator).wantStatus(t, http.StatusOK)["items"].([]any); len(items) != 0 {
		t.Errorf("listed after the revocation: %v", items)
	}
	if items, _ := w.get("grants?all=true", w.operator).wantStatus(t, http.StatusOK)["items"].([]any); len(items) != 1 {
		t.Errorf("all: %v", items)
	}
	w.send("POST", "/api/v1/grants", w.reviewer, fmt.Sprintf(`{"call_id":%q,"time":"1s"}`, id)).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
	w.send("POST", "/api/v1/grants", w.reviewer, fmt.Sprintf(`{"call_id":%q,"arguments":[{"argument":"/n","kind":"exact","values":[2]}]}`, id)).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
	w.send("POST", "/api/v1/grants", w.reviewer, fmt.Sprintf(`{"call_id":%q}`, uuid.New())).wantProblem(t, http.StatusNotFound, "not_found")
	if got := w.get("grants/suggestions", w.operator).wantStatus(t, http.StatusOK); fmt.Sprint(got["items"]) != "[]" || got["complete"] != true || got["since"] != nil {
		t.Errorf("suggestions without decisions: %v", got)
	}
	w.get("grants/"+uuid.NewString(), w.operator).wantProblem(t, http.StatusNotFound, "not_found")
	w.send("PATCH", "/api/v1/skills/files/tools/write", w.operator, `{"risk":"high"}`).wantStatus(t, http.StatusOK)
	w.send("POST", "/api/v1/grants", w.reviewer, fmt.Sprintf(`{"call_id":%q}`, id)).wantProblem(t, http.StatusConflict, "no_grants")
}
