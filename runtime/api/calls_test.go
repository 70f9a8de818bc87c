package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestCallShape(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(hostile)
	answer := w.get("calls/"+id.String(), w.key)
	v := answer.wantStatus(t, 200)
	if !strings.Contains(answer.body, `"arguments":`+hostile+`,`) {
		t.Errorf("arguments are not as they were sent: %s", answer.body)
	}
	for name, want := range map[string]any{
		"id": id.String(), "status": "parked", "code": nil, "failure": nil, "effect": nil, "message": nil,
		"agent": "billing", "skill": "files", "tool": "write", "name": "files__write", "result": nil, "finished_at": nil,
		"principal": nil, "late": nil, "resolution": nil, "gated": true,
	} {
		if got, ok := v[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"created_at", "deadline", "conversation_id"} {
		if text, _ := v[name].(string); text == "" {
			t.Errorf("%s is %v", name, v[name])
		}
	}
	list := w.get("calls?agent=billing&status=parked", w.reviewer)
	if got := listItems(t, list.wantStatus(t, 200)); len(got) != 1 || got[0].(map[string]any)["deadline"] != v["deadline"] {
		t.Errorf("list: %s", list.body)
	}
}

// TestMineIsMine checks that calls of other callers do not exist.
func TestMineIsMine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paula := w.createToken("paula", identity.Reviewer)
	bare, hers := w.parkCall(`{"n":1}`), w.submitCall("files__write", `{"n":1}`, w.personID(paula))
	other := w.newKey("other")

	w.get("calls/"+bare.String(), w.key).wantStatus(t, 200)
	w.get("calls/"+hers.String(), w.key).wantProblem(t, 404, "not_found")
	w.post("calls/"+hers.String()+"/cancel", w.key, "").wantProblem(t, 404, "not_found")
	for _, id := range []uuid.UUID{bare, hers} {
		w.get("calls/"+id.String(), other).wantProblem(t, 404, "not_found")
		w.post("calls/"+id.String()+"/cancel", other, "").wantProblem(t, 404, "not_found")
	}
	w.get("calls/nonsense", w.reviewer).wantProblem(t, 404, "not_found")
	w.get("calls/"+uuid.NewString(), w.reviewer).wantProblem(t, 404, "not_found")

	count := func(path, token string) int { return len(listItems(t, w.get(path, token).wantStatus(t, 200))) }
	if n := count("calls", w.key); n != 1 {
		t.Errorf("the key sees %d calls", n)
	}
	if n := count("calls?agent=billing", w.key); n != 1 {
		t.Errorf("the key sees %d calls of its own agent", n)
	}
	w.get("calls?agent=other", w.key).wantProblem(t, 404, "not_found")
	if n := count("calls", other); n != 0 {
		t.Errorf("another key sees %d calls", n)
	}
	if n := count("calls", w.reviewer); n != 2 {
		t.Errorf("the reviewer sees %d calls", n)
	}
	if n := count("conversations", w.key); n != 1 {
		t.Errorf("the key sees %d conversations", n)
	}
	if v := w.get("conversations?limit=1", w.key).wantStatus(t, 200); len(listItems(t, v)) != 1 || v["next_cursor"] != nil {
		t.Errorf("a page is short, or its cursor reveals another caller's conversation: %v", v)
	}
	if n := count("conversations?agent=billing", w.reviewer); n != 2 {
		t.Errorf("the reviewer sees %d conversations", n)
	}
	conversation, _ := w.get("calls/"+hers.String(), w.reviewer).wantStatus(t, 200)["conversation_id"].(string)
	w.get("conversations/"+conversation, w.key).wantProblem(t, 404, "not_found")
	w.get("conversations/"+conversation, other).wantProblem(t, 404, "not_found")
	v := w.get("conversations/"+conversation, w.reviewer).wantStatus(t, 200)
	if v["agent"] != "billing" || v["principal"] != "paula" || len(v["tools"].([]any)) != 2 {
		t.Errorf("got %v", v)
	}
	w.get("conversations/"+uuid.NewString(), w.reviewer).wantProblem(t, 404, "not_found")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paula := w.createToken("paula", identity.Reviewer)
	byAgent, byPrincipal, byOperator := w.parkCall(`{"n":1}`), w.submitCall("files__write", `{"n":1}`, w.personID(paula)), w.parkCall(`{"n":3}`)

	w.post("calls/"+byAgent.String()+"/cancel", w.reviewer, "").wantProblem(t, 403, "forbidden")
	for id, token := range map[uuid.UUID]string{byAgent: w.key, byPrincipal: paula, byOperator: w.operator} {
		v := w.post("calls/"+id.String()+"/cancel", token, "").wantStatus(t, 200)
		if v["status"] != "cancelled" || v["code"] != "cancelled" {
			t.Errorf("got %v", v)
		}
		v = w.post("calls/"+id.String()+"/cancel", token, "").wantProblem(t, 409, "state_conflict")
		if v["detail"] != "the call is cancelled" {
			t.Errorf("got %v", v)
		}
	}
	body := fmt.Sprintf(`{"digest":%q}`, w.getDigest(byAgent))
	v := w.post("approvals/"+byAgent.String()+"/approve", w.reviewer, body).wantProblem(t, 409, "already_decided")
	if v["approval_status"] != "cancelled" {
		t.Errorf("got %v", v)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	path := "calls/" + id.String() + "/resolve"
	w.post(path, w.operator, `{"outcome":"succeeded"}`).wantProblem(t, 409, "state_conflict")
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE calls SET status = 'unknown', finished_at = holdpoint_now(), effect = 'possible' WHERE id = $1`, id)
	check(t, err)
	w.post(path, w.operator, `{"outcome":"perhaps"}`).wantProblem(t, 422, "invalid_request")
	w.post(path, w.operator, `{"note":"x"}`).wantProblem(t, 422, "invalid_request")
	v := w.post(path, w.operator, `{"outcome":"succeeded","note":"the file is there"}`).wantStatus(t, 200)
	resolution, _ := v["resolution"].(map[string]any)
	if v["status"] != "unknown" || resolution["outcome"] != "succeeded" || resolution["by"] != "olga" || resolution["note"] != "the file is there" {
		t.Errorf("got %v", v)
	}
	w.post(path, w.operator, `{"outcome":"failed"}`).wantProblem(t, 409, "state_conflict")
	w.post("calls/"+uuid.NewString()+"/resolve", w.operator, `{"outcome":"failed"}`).wantProblem(t, 404, "not_found")
}

func TestFailedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{}, &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "no", RPC: []byte(`{"code":-1,"message":"<no>"}`)}
	})
	id := w.submitCall("open__write", `{}`, uuid.Nil)
	w.waitForEnd(id)
	answer := w.get("calls/"+id.String(), w.key)
	v := answer.wantStatus(t, 200)
	if v["status"] != "failed" || v["failure"] != "jsonrpc_error" || v["effect"] != "none" || v["gated"] != false {
		t.Errorf("got %v", v)
	}
	if !strings.Contains(answer.body, `"result":{"code":-1,"message":"<no>"}`) {
		t.Errorf("got %s", answer.body)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	w.post("approvals/"+id.String()+"/reject", w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"no"}`, w.getDigest(id))).wantStatus(t, 200)
	w.get("audit?subject="+id.String(), w.reviewer).wantProblem(t, 403, "forbidden")
	answer := w.get("audit?subject="+id.String(), w.operator)
	list := listItems(t, answer.wantStatus(t, 200))
	if len(list) < 2 {
		t.Fatalf("got %s", answer.body)
	}
	newest, oldest := list[0].(map[string]any), list[len(list)-1].(map[string]any)
	if oldest["action"] != "call.parked" || oldest["actor"].(map[string]any)["name"] != "billing" {
		t.Errorf("oldest: %v", oldest)
	}
	if newest["actor"].(map[string]any)["name"] != "rita" || newest["subject"] != id.String() {
		t.Errorf("newest: %v", newest)
	}
	page := w.get("audit?limit=1", w.operator).wantStatus(t, 200)
	next, _ := page["next_cursor"].(string)
	second := listItems(t, w.get("audit?limit=1&cursor="+next, w.operator).wantStatus(t, 200))
	if len(second) != 1 || second[0].(map[string]any)["id"] == listItems(t, page)[0].(map[string]any)["id"] {
		t.Errorf("second page: %v", second)
	}
	w.get("audit?subject=nonsense", w.operator).wantProblem(t, 422, "invalid_request")
	w.get("audit?cursor=x", w.operator).wantProblem(t, 422, "invalid_request")
}
