package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestLegalHoldsOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := w.post("legal-holds", w.operator, `{"agent":"billing","from":"2026-01-01T00:00:00Z","to":"2026-04-01T00:00:00Z","reason":"case 4711"}`)
	v := set.wantStatus(t, 201)
	if v["agent"] != "billing" || v["reason"] != "case 4711" || v["created_by"] != "olga" || v["lifted_at"] != nil || v["from"] != "2026-01-01T00:00:00Z" {
		t.Errorf("%s", set.body)
	}
	id := fmt.Sprint(v["id"])
	if found := listItems(t, w.get("legal-holds", w.operator).wantStatus(t, 200)); len(found) != 1 {
		t.Errorf("%v", found)
	}
	for body, location := range map[string]string{
		`{"agent":"nobody","reason":"x"}`: "body.agent", `{"reason":"x"}`: "body.agent", `{"agent":"billing","reason":" "}`: "body.reason",
		`{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z","reason":"x"}`: "body.to",
	} {
		got := w.post("legal-holds", w.operator, body)
		if problem := got.wantProblem(t, 422, "invalid_request"); !strings.Contains(fmt.Sprint(problem["errors"]), location) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	w.post("legal-holds/"+id+"/lift", w.operator, `{"reason":""}`).wantProblem(t, 422, "invalid_request")
	if v := w.post("legal-holds/"+id+"/lift", w.operator, `{"reason":"settled"}`).wantStatus(t, 200); v["lifted_by"] != "olga" || v["lift_reason"] != "settled" {
		t.Errorf("%v", v)
	}
	w.post("legal-holds/"+id+"/lift", w.operator, `{"reason":"settled"}`).wantProblem(t, 409, "state_conflict")
	w.post("legal-holds/"+uuid.NewString()+"/lift", w.operator, `{"reason":"settled"}`).wantProblem(t, 404, "not_found")
	w.get("legal-holds", w.reviewer).wantProblem(t, 403, "forbidden")
}

func TestErasureOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createToken("vera", identity.Reviewer)
	var vera uuid.UUID
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT id FROM people WHERE name = 'vera'`).Scan(&vera))
	path := "people/" + vera.String()
	w.get(path+"/erasure", w.operator).wantProblem(t, 404, "not_found")
	w.post(path+"/erase", w.operator, "").wantProblem(t, 409, "state_conflict")
	export := w.get(path+"/export", w.operator)
	var exported map[string][]map[string]any
	if check(t, json.Unmarshal([]byte(export.body), &exported)); exported["person"][0]["name"] != "vera" {
		t.Errorf("%s", export.body)
	}
	w.send("PATCH", "/api/v1/"+path, w.operator, `{"blocked":true}`).wantStatus(t, 200)
	if v := w.post(path+"/erase", w.operator, "").wantStatus(t, 202); v["asked_by"] != "olga" || !strings.HasPrefix(fmt.Sprint(v["pseudonym"]), "erased-") {
		t.Errorf("%v", v)
	}
	eventually.Holds(t, "the erasure ends", func() bool { return w.get(path+"/erasure", w.operator).wantStatus(t, 200)["finished_at"] != nil })
	if got := w.get(path, w.operator); strings.Contains(got.body, "vera") || !strings.Contains(got.body, "erased-") {
		t.Errorf("%s", got.body)
	}
	for _, path := range []string{path + "/export", path + "/erasure"} {
		w.get(path, w.reviewer).wantProblem(t, 403, "forbidden")
	}
	w.post(path+"/erase", w.reviewer, "").wantProblem(t, 403, "forbidden")
	w.post("people/"+uuid.NewString()+"/erase", w.operator, "").wantProblem(t, 404, "not_found")
	w.get("people/"+uuid.NewString()+"/export", w.operator).wantProblem(t, 404, "not_found")
}

// A call whose content was deleted has its skeleton in every list, page and export.
func TestCallWithoutContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.Must(uuid.NewV7()).String()
	w.db.Exec(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, finished_at, gated, status, tool, exposed_name, pin, arguments, content_deleted_at)
		SELECT $1, $2, id, 1, holdpoint_now(), false, 'succeeded', 'write', 'files__write', sha256('x'), '{}', holdpoint_now() FROM skills LIMIT 1`, id, w.billing.ID)
	for path, token := range map[string]string{"calls/" + id: w.reviewer, "calls/" + id + "?": w.key} {
		if v := w.get(strings.TrimSuffix(path, "?"), token).wantStatus(t, 200); v["content_deleted_at"] == nil || v["arguments"] != nil || v["result"] != nil || v["status"] != "succeeded" {
			t.Errorf("%v", v)
		}
	}
	list := listItems(t, w.get("calls", w.reviewer).wantStatus(t, 200))
	if len(list) != 1 {
		t.Errorf("%v", list)
	}
	for _, format := range []string{"csv", "jsonl"} {
		if got := w.get("calls/export?format="+format, w.reviewer); got.status != 200 || !strings.Contains(got.body, id) {
			t.Errorf("%s: %d %s", format, got.status, got.body)
		}
	}
	w.get("calls?text=nothing", w.reviewer).wantStatus(t, 200)
}
