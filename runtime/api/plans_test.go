package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestPlans: an agent submits a plan, a reviewer approves it without a call, and an operator revokes it.
func TestPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parkCall(`{"n":0}`) // the tools were listed
	const body = `{"title":"Close the month","calls":[{"tool":"files__write","arguments":{"n":9007199254740993},"note":"first"},{"tool":"files__write","arguments":{"n":2}}]}`
	w.send("POST", "/api/v1/plans", w.key, body).wantProblem(t, http.StatusForbidden, "forbidden")
	w.send("PATCH", "/api/v1/agents/billing", w.operator, `{"plans":true}`).wantStatus(t, http.StatusOK)
	if tools := fmt.Sprint(w.get("agents/billing/tools", w.operator).wantStatus(t, http.StatusOK)); !strings.Contains(tools, "submit_plan") || !strings.Contains(tools, "check_plan") {
		t.Errorf("the tools: %s", tools)
	}
	w.send("POST", "/api/v1/plans", w.key, `{"title":"x","calls":[{"tool":"files__none"}]}`).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
	made := w.send("POST", "/api/v1/plans", w.key, body).wantStatus(t, http.StatusCreated)
	if made["status"] != "pending" || made["agent"] != "billing" || !strings.Contains(fmt.Sprint(made["calls"]), "9007199254740993") {
		t.Errorf("submitted: %v", made)
	}
	path := "/api/v1/plans/" + fmt.Sprint(made["id"])
	if items, _ := w.get("plans", w.operator).wantStatus(t, http.StatusOK)["items"].([]any); len(items) != 1 {
		t.Errorf("listed: %v", items)
	}
	w.send("POST", path+"/approve", w.operator, fmt.Sprintf(`{"digest":%q}`, made["digest"])).wantProblem(t, http.StatusForbidden, "forbidden")
	w.send("POST", path+"/approve", w.reviewer, `{"digest":"00"}`).wantProblem(t, http.StatusConflict, "digest_mismatch")
	w.send("POST", path+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q,"strike":[2]}`, made["digest"])).wantProblem(t, http.StatusUnprocessableEntity, "invalid_request")
	approved := w.send("POST", path+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q,"strike":[1],"time":"1h"}`, made["digest"])).wantStatus(t, http.StatusOK)
	calls, _ := approved["calls"].([]any)
	if first, second := fmt.Sprint(calls[0]), fmt.Sprint(calls[1]); approved["status"] != "approved" || strings.Contains(first, "grant_id:<nil>") || !strings.Contains(second, "struck:true") {
		t.Errorf("approved: %v", approved)
	}
	w.get("plans/"+fmt.Sprint(made["id"]), w.newKey("other")).wantProblem(t, http.StatusNotFound, "not_found")
	w.get("plans/"+fmt.Sprint(made["id"]), w.key).wantStatus(t, http.StatusOK)
	w.send("POST", path+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q}`, made["digest"])).wantProblem(t, http.StatusConflict, "already_decided")
	if revoked := w.send("POST", path+"/revoke", w.operator, "").wantStatus(t, http.StatusOK); revoked["status"] != "revoked" {
		t.Errorf("revoked: %v", revoked)
	}
	w.send("POST", path+"/cancel", w.key, "").wantProblem(t, http.StatusConflict, "already_decided")
	w.get("plans/"+uuid.NewString(), w.operator).wantProblem(t, http.StatusNotFound, "not_found")

	own := w.send("POST", "/api/v1/plans", w.reviewer, `{"agent":"billing",`+body[1:]).wantStatus(t, http.StatusCreated)
	w.send("POST", "/api/v1/plans/"+fmt.Sprint(own["id"])+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, own["digest"])).wantProblem(t, http.StatusForbidden, "self_approval")
}
