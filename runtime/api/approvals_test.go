package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// hostile arguments contain numbers, escapes and spaces that a careless encoder changes.
const hostile = `{"big":9007199254740993,"huge":1e400,"zero":-0,"html":"<b>&amp;","sep":"` + "\u2028" + `","esc":"\u003c\u202e"}`

func (w *world) getDigest(id uuid.UUID) string {
	w.t.Helper()
	digest, _ := w.get("approvals/"+id.String(), w.reviewer).wantStatus(w.t, 200)["digest"].(string)
	return digest
}

func TestApprovalShape(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(hostile)
	answer := w.get("approvals/"+id.String(), w.reviewer)
	v := answer.wantStatus(t, 200)
	if !strings.Contains(answer.body, `"arguments":`+hostile+`,`) {
		t.Errorf("arguments are not as they were sent: %s", answer.body)
	}
	sum := sha256.Sum256([]byte(hostile))
	for name, want := range map[string]any{
		"id": id.String(), "call_id": id.String(), "status": "pending", "agent": "billing", "skill": "files", "tool": "write",
		"arguments_digest": hex.EncodeToString(sum[:]), "principal": nil, "decision": nil, "rule": "gated",
	} {
		if got, ok := v[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"digest", "tool_pin"} {
		if text, _ := v[name].(string); len(text) != 64 {
			t.Errorf("%s is %v", name, v[name])
		}
	}
	for _, name := range []string{"created_at", "deadline"} {
		text, _ := v[name].(string)
		if _, err := time.Parse(time.RFC3339, text); err != nil || !strings.HasSuffix(text, "Z") {
			t.Errorf("%s is %v", name, v[name])
		}
	}
	list := listItems(t, w.get("approvals?status=pending", w.reviewer).wantStatus(t, 200))
	if len(list) != 1 {
		t.Fatalf("%d approvals", len(list))
	}
	if got := listItems(t, w.get("approvals?status=rejected", w.reviewer).wantStatus(t, 200)); len(got) != 0 {
		t.Errorf("rejected: %v", got)
	}
}

// An approval and its call have what the caller of a gate-only call claims: the folder, the resolved paths and the file.
func TestGateCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.Apply(agent.Spec{Skills: []agent.SkillSpec{{Name: "laptop", Transport: tool.Gate, Host: "claude-code"}}})
	_, err := w.agents.Assign(t.Context(), audit.System(), w.billing.ID, agent.AssignmentSpec{Skill: "laptop"}, nil)
	check(t, err)
	entry, err := w.catalog.FindGated(t.Context(), w.billing.ID, "laptop", "Edit")
	check(t, err)
	ticket, err := w.calls.Submit(t.Context(), call.Submission{
		Agent: w.billing, Entry: entry, Arguments: []byte(`{"file_path":"a","old_string":"x","new_string":"y"}`), Gate: &call.GateRequest{
			GateBinding: call.GateBinding{Directory: "/w", Paths: []string{"/w/a"}, File: &call.GateFile{Path: "/w/a", Exists: true, Size: 1, Text: new("x")}},
		},
	})
	check(t, err)
	for _, path := range []string{"approvals/", "calls/"} {
		text, err := json.Marshal(w.get(path+ticket.ID.String(), w.reviewer).wantStatus(t, 200)["gate"])
		check(t, err)
		want := `{"cwd":"/w","file":{"exists":true,"path":"/w/a","sha256":null,"size":1,"text":"x"},"host":"claude-code","paths":["/w/a"],` +
			`"session_id":null,"subagent":null,"subject":null,"version":null}`
		if string(text) != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
	for _, path := range []string{"approvals", "calls"} {
		items := listItems(t, w.get(path, w.reviewer).wantStatus(t, 200))
		if gate, _ := items[0].(map[string]any)["gate"].(map[string]any); gate["host"] != "claude-code" || gate["paths"] != nil || gate["file"] != nil {
			t.Errorf("in a list: %v", items[0])
		}
	}
	if gate, ok := w.get("approvals/"+w.parkCall(hostile).String(), w.reviewer).wantStatus(t, 200)["gate"]; gate != nil || !ok {
		t.Errorf("of another call: %v", gate)
	}
}

// An approval has the evidence about each argument.
func TestApprovalHasEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 3 {
		id := w.parkCall(fmt.Sprintf(`{"n":%d,"account":"a1"}`, 100+n))
		w.post("approvals/"+id.String()+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, w.getDigest(id))).wantStatus(t, 200)
		eventually.Holds(t, "the call to end", func() bool { return w.get("calls/"+id.String(), w.reviewer).wantStatus(t, 200)["finished_at"] != nil })
	}
	id := w.parkCall(`{"n":5000,"token":"t0p","account":"a1"}`)
	list, _ := w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)["evidence"].([]any)
	first, _ := list[0].(map[string]any)
	last, _ := first["last"].(map[string]any)
	if at, err := time.Parse(time.RFC3339, fmt.Sprint(last["at"])); err != nil || last["value"] != "102" || last["target"] != "a1" || last["target_path"] != "/account" || time.Since(at) > time.Hour {
		t.Errorf("the last call to the same account: %v", last)
	}
	delete(first, "last")
	got, err := json.Marshal(list[:2])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"path":"/n","reasons":["above_range"],"usual":{"calls":3,"currency":null,"domains":[],"having":3,"max":102,"median":101,"min":100,"nearest":null,"same":0,"values":[]},"verdict":"unusual"},` +
		`{"path":"/token","reasons":["new_argument"],"usual":{"calls":3,"currency":null,"domains":[],"having":0,"max":null,"median":null,"min":null,"nearest":null,"same":0,"values":[]},"verdict":"unusual"}]`
	if string(got) != want {
		t.Errorf("evidence is %s, want %s", got, want)
	}
}

// An operator shows a value that the schema declares as a secret, and hides it again.
func TestNotSecretOfATool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const path = "/api/v1/skills/files/tools/write"
	w.parkCall(`{"n":1}`)
	settings := func() string {
		t.Helper()
		tools := w.get("skills/files", w.operator).wantStatus(t, 200)["tools"].(map[string]any)
		return fmt.Sprint(tools["write"])
	}
	w.send("PATCH", path, w.operator, `{"not_secret":["/rows/*/token","/n"]}`).wantStatus(t, 200)
	if got := settings(); got != "map[not_secret:[/n /rows/*/token]]" {
		t.Errorf("marked: %s", got)
	}
	w.send("PATCH", path, w.operator, `{"not_secret":["n"]}`).wantProblem(t, 422, "invalid_request")
	w.send("PATCH", path, w.reviewer, `{"not_secret":[]}`).wantProblem(t, 403, "forbidden")
	w.send("PATCH", path, w.operator, `{"not_secret":[]}`).wantStatus(t, 200)
	if got := settings(); got != "<nil>" {
		t.Errorf("taken back: %s", got)
	}
}

// An operator's risk setting overrides the server's hint, as in the dashboard.
func TestApprovalSaysTheRisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	risk := func(id uuid.UUID) any {
		t.Helper()
		return w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)["risk"]
	}
	first := w.parkCall(`{"n":1}`)
	if got := risk(first); got != "standard" {
		t.Errorf("as it comes: %v", got)
	}
	w.send("PATCH", "/api/v1/skills/files/tools/write", w.operator, `{"risk":"high"}`).wantStatus(t, 200)
	if got := risk(first); got != "high" {
		t.Errorf("marked: %v", got)
	}
	w.send("PATCH", "/api/v1/skills/files/tools/write", w.operator, `{"risk":""}`).wantStatus(t, 200)
	w.source.Offer(strings.Replace(writeTool, `{"name"`, `{"annotations":{"destructiveHint":true},"name"`, 1))
	w.get("skills/files/tools?refresh=true", w.operator).wantStatus(t, 200)
	second := w.parkCall(`{"n":2}`)
	if got := risk(second); got != "destructive" {
		t.Errorf("risk by the server's hint: %v", got)
	}
	w.post("approvals/"+second.String()+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, w.getDigest(second))).wantStatus(t, 200)
	if got := risk(second); got != nil {
		t.Errorf("decided: %v", got)
	}
	for _, one := range listItems(t, w.get("approvals", w.reviewer).wantStatus(t, 200)) {
		if listed, _ := one.(map[string]any); listed["risk"] != nil || listed["rule"] == nil {
			t.Errorf("in a list: %v", one)
		}
	}
}

func TestApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(hostile)
	digest := w.getDigest(id)
	v := w.post("approvals/"+id.String()+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q,"note":"fine"}`, digest)).wantStatus(t, 200)
	decision, _ := v["decision"].(map[string]any)
	if v["status"] != "approved" || decision["by"] != "rita" || decision["outcome"] != "approved" || decision["note"] != "fine" || decision["at"] == "" {
		t.Errorf("got %v", v)
	}
	w.waitForEnd(id)
	answer := w.get("calls/"+id.String(), w.reviewer)
	if got := answer.wantStatus(t, 200)["status"]; got != "succeeded" {
		t.Errorf("call is %v", got)
	}
	if !strings.Contains(answer.body, `"result":{"content":[{"type":"text","text":"<ok> \u003c 9007199254740993"}]}`) {
		t.Errorf("the result is not as it came: %s", answer.body)
	}
	for _, late := range []string{"approve", "reject"} {
		v := w.post("approvals/"+id.String()+"/"+late, w.both, fmt.Sprintf(`{"digest":%q,"%s":"x"}`, digest, reasonField(late))).
			wantProblem(t, 409, "already_decided")
		decision, _ := v["decision"].(map[string]any)
		if v["approval_status"] != "approved" || decision["by"] != "rita" || decision["outcome"] != "approved" {
			t.Errorf("late %s: %v", late, v)
		}
	}
}

func reasonField(action string) string {
	if action == "approve" {
		return "note"
	}
	return "reason"
}

func TestReject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	path, digest := "approvals/"+id.String()+"/reject", w.getDigest(id)
	for _, body := range []string{
		fmt.Sprintf(`{"digest":%q}`, digest), fmt.Sprintf(`{"digest":%q,"reason":""}`, digest),
		fmt.Sprintf(`{"digest":%q,"reason":"  \n"}`, digest), `{}`,
	} {
		v := w.post(path, w.reviewer, body).wantProblem(t, 422, "invalid_request")
		if !strings.Contains(v["detail"].(string), "body.reason") {
			t.Errorf("%s: %v", body, v)
		}
	}
	v := w.post(path, w.reviewer, fmt.Sprintf(`{"digest":%q,"reason":"not now"}`, digest)).wantStatus(t, 200)
	if v["status"] != "rejected" {
		t.Errorf("got %v", v)
	}
	v = w.get("calls/"+id.String(), w.key).wantStatus(t, 200)
	if v["status"] != "rejected" || v["code"] != "rejected" || v["message"] != "not now" || v["finished_at"] == nil {
		t.Errorf("got %v", v)
	}
}

func TestDigestMismatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	digest := w.getDigest(id)
	digests := []string{
		`""`, `"x"`, `null`, `5`, `true`, `[]`, `{}`, `["` + digest + `"]`, `"` + digest[:63] + `"`, `"` + digest + `0"`,
		`"` + strings.ToUpper(digest) + `"`, `" ` + digest + `"`, `"` + strings.Repeat("0", 64) + `"`,
	}
	for _, action := range []string{"approve", "reject"} {
		path := "approvals/" + id.String() + "/" + action
		for _, wrong := range digests {
			body := fmt.Sprintf(`{"digest":%s,"%s":"x"}`, wrong, reasonField(action))
			w.post(path, w.reviewer, body).wantProblem(t, 409, "digest_mismatch")
		}
	}
	path := "approvals/" + id.String() + "/approve"
	w.post(path, w.reviewer, `{}`).wantProblem(t, 409, "digest_mismatch")
	w.post(path, w.reviewer, ``).wantProblem(t, 409, "digest_mismatch")
	w.post("approvals/"+id.String()+"/reject", w.reviewer, `{"reason":"x"}`).wantProblem(t, 409, "digest_mismatch")
	if got := w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)["status"]; got != "pending" {
		t.Errorf("approval is %v", got)
	}
	other := w.parkCall(`{"n":2}`)
	body := fmt.Sprintf(`{"digest":%q}`, digest)
	w.post("approvals/"+other.String()+"/approve", w.reviewer, body).wantProblem(t, 409, "digest_mismatch")
}

func TestApproveBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	path, digest := "approvals/"+id.String()+"/approve", w.getDigest(id)
	tests := []struct {
		name, body, code string
		status           int
	}{
		{"arguments that are a list", `{"digest":"%s","arguments":[1]}`, "invalid_request", 422},
		{"arguments twice", `{"digest":"%s","arguments":{"n":1,"n":2}}`, "invalid_request", 422},
		{"arguments that are no object", `{"digest":"%s","arguments":null}`, "invalid_request", 422},
		{"unknown member", `{"digest":"%s","force":true}`, "invalid_request", 422},
		{"name in another case", `{"digest":"%s","Note":"x"}`, "invalid_request", 422},
		{"duplicate name", `{"digest":"%s","digest":"x"}`, "invalid_request", 422},
		{"note of another type", `{"digest":"%s","note":5}`, "invalid_request", 422},
		{"long note", `{"digest":"%s","note":"` + strings.Repeat("x", 4001) + `"}`, "invalid_request", 422},
		{"not JSON", `{"digest":"%s"`, "invalid_request", 422},
		{"invalid UTF-8", `{"digest":"%s","note":"` + "\xff" + `"}`, "invalid_request", 422},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w.post(path, w.reviewer, strings.Replace(test.body, "%s", digest, 1)).wantProblem(t, test.status, test.code)
		})
	}
	t.Run("too large", func(t *testing.T) {
		body := `{"digest":"` + digest + `","note":"` + strings.Repeat("x", 2<<20) + `"}`
		w.post(path, w.reviewer, body).wantProblem(t, 413, "invalid_request")
	})
	if got := w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)["status"]; got != "pending" {
		t.Errorf("approval is %v", got)
	}
}

func TestApproveWithOtherArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	got := w.post("approvals/"+id.String()+"/approve", w.reviewer,
		fmt.Sprintf(`{"digest":%q,"arguments":{ "n": 9007199254740993, "to": "<\u00e9>" }}`, w.getDigest(id))).wantStatus(t, 200)
	if got["edited"] != true {
		t.Errorf("approval %v", got)
	}
	text := w.get("calls/"+id.String(), w.operator)
	text.wantStatus(t, 200)
	if body := text.body; !strings.Contains(body, `"arguments":{"n":9007199254740993,"to":"<\u00e9>"}`) ||
		!strings.Contains(body, `"submitted_arguments":{"n":1}`) {
		t.Errorf("call %s", body)
	}
}

func TestEditWithASecondReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	path, approve := "approvals/"+id.String(), "approvals/"+id.String()+"/approve"
	before := w.get(path, w.reviewer).wantStatus(t, 200)
	// The skill's edits need a second reviewer.
	if v := w.send("PATCH", "/api/v1/skills/files", w.operator, `{"edits":"second"}`).wantStatus(t, 200); v["edits"] != "second" {
		t.Fatalf("skill %v", v)
	}
	w.send("PATCH", "/api/v1/skills/files", w.operator, `{"edits":"nobody"}`).wantProblem(t, 422, "invalid_request")

	edit := fmt.Sprintf(`{"digest":%q,"arguments":{"n":2}}`, w.getDigest(id))
	proposed := w.post(approve, w.reviewer, edit).wantStatus(t, 202)
	made, _ := proposed["edit"].(map[string]any)
	if proposed["status"] != "pending" || proposed["deadline"] != before["deadline"] || proposed["digest"] == before["digest"] || proposed["decision"] != nil ||
		made["by"] != "rita" || made["at"] == nil || fmt.Sprint(made["submitted_arguments"]) != "map[n:1]" || fmt.Sprint(proposed["arguments"]) != "map[n:2]" {
		t.Fatalf("approval %v", proposed)
	}
	w.post(approve, w.reviewer, fmt.Sprintf(`{"digest":%q}`, w.getDigest(id))).wantProblem(t, 403, "own_edit")
	w.post(approve, w.both, fmt.Sprintf(`{"digest":%q}`, before["digest"])).wantProblem(t, 409, "digest_mismatch")
	w.post("approvals/"+id.String()+"/reject", w.both, fmt.Sprintf(`{"digest":%q,"reason":"x"}`, before["digest"])).wantProblem(t, 409, "digest_mismatch")
	approved := w.post(approve, w.both, fmt.Sprintf(`{"digest":%q}`, proposed["digest"])).wantStatus(t, 200)
	if decision, _ := approved["decision"].(map[string]any); approved["status"] != "approved" || decision["by"] == "rita" || approved["edited"] != true {
		t.Errorf("approval %v", approved)
	}
	w.post(approve, w.reviewer, edit).wantProblem(t, 409, "digest_mismatch")
}

func TestExtend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	path := "approvals/" + id.String()
	before := w.get(path, w.reviewer).wantStatus(t, 200)
	if before["reviewers"] != true || before["team"] != nil {
		t.Errorf("approval %v", before)
	}
	for range 3 {
		if after := w.post(path+"/extend", w.reviewer, ``).wantStatus(t, 200); after["deadline"] == before["deadline"] {
			t.Errorf("the deadline did not move: %v", after["deadline"])
		}
	}
	w.post(path+"/extend", w.reviewer, ``).wantProblem(t, 409, "state_conflict")
	w.post("approvals/"+uuid.NewString()+"/extend", w.reviewer, ``).wantProblem(t, 404, "not_found")
}

func TestExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.parkCall(`{"n":1}`)
	digest := w.getDigest(id)
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE clock_offset SET value = '1 hour'`)
	check(t, err)
	v := w.post("approvals/"+id.String()+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, digest)).wantProblem(t, 409, "expired")
	decision, _ := v["decision"].(map[string]any)
	if v["approval_status"] != "expired" || decision["outcome"] != "expired" || decision["by"] != nil || decision["at"] == nil {
		t.Errorf("got %v", v)
	}
	if got := w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)["status"]; got != "expired" {
		t.Errorf("approval is %v", got)
	}
	if got := w.get("calls/"+id.String(), w.key).wantStatus(t, 200)["status"]; got != "expired" {
		t.Errorf("call is %v", got)
	}
}

func TestSelfApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reviewer = w.createToken("paula", identity.Reviewer)
	id := w.submitCall("files__write", `{"n":1}`, w.personID(w.reviewer))
	digest := w.getDigest(id)
	v := w.get("approvals/"+id.String(), w.reviewer).wantStatus(t, 200)
	if v["principal"] != "paula" {
		t.Errorf("principal is %v", v["principal"])
	}
	body := fmt.Sprintf(`{"digest":%q,"reason":"x"}`, digest)
	w.post("approvals/"+id.String()+"/reject", w.reviewer, body).wantProblem(t, 403, "self_approval")
	w.post("approvals/"+id.String()+"/approve", w.reviewer, fmt.Sprintf(`{"digest":%q}`, digest)).wantProblem(t, 403, "self_approval")
	w.post("approvals/"+id.String()+"/approve", w.both, fmt.Sprintf(`{"digest":%q}`, digest)).wantStatus(t, 200)
	w.waitForEnd(id)
}

func TestApprovalPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for i := range 5 {
		want = append([]string{w.parkCall(fmt.Sprintf(`{"n":%d}`, i)).String()}, want...)
	}
	var got []string
	path := "approvals?status=pending&limit=2"
	for range 4 {
		v := w.get(path, w.reviewer).wantStatus(t, 200)
		for _, item := range listItems(t, v) {
			got = append(got, item.(map[string]any)["id"].(string))
		}
		if v["next_cursor"] == nil {
			break
		}
		path = "approvals?status=pending&limit=2&cursor=" + v["next_cursor"].(string)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("got %s, want %s", a, b)
	}
}
