package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const spec = `{"skills":[{"name":"notes","transport":"http","url":"http://127.0.0.1:1/notes","headers":{"X-Team":"t0p"},
		"approval_timeout":"2m","approval_validity":"10m","tools":{"write":{"risk":"high"}}}],
		"agents":[{"name":"clerk","skills":[{"skill":"notes","tools":["write"],"prefix":""}]}]}`
	actions := func(v map[string]any) string {
		var all []string
		for _, item := range listItems(t, v) {
			change := item.(map[string]any)
			all = append(all, fmt.Sprintf("%v %v %v", change["action"], change["kind"], change["name"]))
		}
		return strings.Join(all, ", ")
	}
	const created = "create skill notes, create agent clerk, create assignment clerk/notes"
	answer := w.post("apply", w.operator, `{"dry_run":true,"spec":`+spec+`}`)
	if got := actions(answer.wantStatus(t, 200)); got != created {
		t.Errorf("dry run: %s", got)
	}
	if strings.Contains(answer.body, "t0p") {
		t.Errorf("the secret is shown: %s", answer.body)
	}
	w.get("skills/notes", w.operator).wantProblem(t, 404, "not_found")
	if got := actions(w.post("apply", w.operator, `{"spec":`+spec+`}`).wantStatus(t, 200)); got != created {
		t.Errorf("apply: %s", got)
	}
	if got := actions(w.post("apply", w.operator, `{"spec":`+spec+`}`).wantStatus(t, 200)); strings.Count(got, "unchanged") != 3 {
		t.Errorf("apply again: %s", got)
	}
	skill := w.get("skills/notes", w.reviewer)
	v := skill.wantStatus(t, 200)
	if strings.Contains(skill.body, "t0p") || fmt.Sprint(v["headers"]) != "[X-Team]" || v["approval_timeout"] != "2m" || v["approval_validity"] != "10m" {
		t.Errorf("skill: %s", skill.body)
	}
	v = w.get("agents/clerk", w.reviewer).wantStatus(t, 200)
	if fmt.Sprint(v["skills"]) != "[map[prefix: skill:notes tools:[write]]]" {
		t.Errorf("agent: %v", v)
	}
}

func TestApplyErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct{ name, spec, location string }{
		{"no URL", `{"skills":[{"name":"a","transport":"http","url":"http://x/"},{"name":"b","transport":"http"}]}`, "body.spec.skills[1].url"},
		{"unknown skill", `{"agents":[{"name":"a","skills":[{"skill":"nope"}]}]}`, "body.spec.agents[0].skills[0].skill"},
		{"unknown member", `{"skills":[{"name":"a","transport":"http","uri":"http://x/"}]}`, "body.spec.skills[0].uri"},
		{"wrong type", `{"skills":[{"name":"a","transport":"http","url":5}]}`, "body.spec.skills[0].url"},
		{"no name", `{"agents":[{}]}`, "body.spec.agents[0]"},
		{"secret of a wrong type", `{"skills":[{"name":"a","transport":"http","url":"http://x/","headers":{"X-A":["hush"]}}]}`, "body.spec.skills[0].headers.X-A"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answer := w.post("apply", w.operator, `{"spec":`+test.spec+`}`)
			v := answer.wantProblem(t, 422, "invalid_request")
			if !strings.Contains(answer.body, `"location":"`+test.location) {
				t.Errorf("want %s: %v", test.location, v)
			}
			if strings.Contains(answer.body, "hush") {
				t.Errorf("a possible secret is echoed: %s", answer.body)
			}
		})
	}
	w.post("apply", w.operator, `{"spec":{"skills":[{"name":"a","transport":"http","url":"http://x/","call_timeout":"soon"}]}}`).
		wantProblem(t, 422, "invalid_request")
}

// The error of a custom type names the field and the expected value.
func TestWrongDuration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct{ method, path, body, location string }{
		{"PATCH", "skills/files", `{"approval_timeout":"hush"}`, "body.approval_timeout"},
		{"POST", "agents", `{"name":"n","wait_budget":"hush"}`, "body.wait_budget"},
		{"POST", "apply", `{"spec":{"skills":[{"name":"a","transport":"http","url":"http://x/"},{"name":"b","transport":"http","url":"http://x/","call_timeout":"hush"}]}}`, "body.spec.skills[1].call_timeout"},
	}
	for _, test := range tests {
		answer := w.send(test.method, "/api/v1/"+test.path, w.operator, test.body)
		answer.wantProblem(t, 422, "invalid_request")
		want := `"location":"` + test.location + `","message":"must be a duration such as 90s, 5m or 1h30m"`
		if !strings.Contains(answer.body, want) || strings.Contains(answer.body, "hush") {
			t.Errorf("%s: %s", test.path, answer.body)
		}
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.post("agents", w.operator, `{"name":"clerk","instructions":"Be brief.","wait_budget":"10s",
		"model":{"provider":"openai","name":"m","api_key":"sk-hush"},"skills":[{"skill":"files"}]}`).wantStatus(t, 201)
	if v["name"] != "clerk" || v["wait_budget"] != "10s" || len(v["skills"].([]any)) != 1 {
		t.Errorf("created: %v", v)
	}
	w.post("agents", w.operator, `{"name":"clerk"}`).wantProblem(t, 409, "state_conflict")
	w.post("agents", w.operator, `{"name":"No Such Form"}`).wantProblem(t, 422, "invalid_request")
	answer := w.send("PATCH", "/api/v1/agents/clerk", w.operator, `{"instructions":"Be nice."}`)
	v = answer.wantStatus(t, 200)
	if v["instructions"] != "Be nice." || v["wait_budget"] != "10s" || v["model"] == nil || strings.Contains(answer.body, "hush") {
		t.Errorf("updated: %s", answer.body)
	}
	if limits := v["limits"].(map[string]any); v["error_style"] != "mcp" || v["reply_timeout"] != "0s" || len(limits) != 0 {
		t.Errorf("its endpoint: %s", answer.body)
	}
	w.send("PATCH", "/api/v1/agents/clerk", w.operator, `{"error_style":"codes","reply_timeout":"2m","limits":{"concurrency":3}}`).wantStatus(t, 200)
	v = w.send("PATCH", "/api/v1/agents/clerk", w.operator, `{"limits":{"calls_per_minute":60}}`).wantStatus(t, 200)
	if v["error_style"] != "codes" || v["reply_timeout"] != "2m" || fmt.Sprint(v["limits"]) != "map[calls_per_minute:60]" {
		t.Errorf("its endpoint: %v", v)
	}
	w.send("PATCH", "/api/v1/agents/clerk", w.operator, `{"limits":{"calls_per_minute":-1}}`).wantProblem(t, 422, "invalid_request")
	w.send("PATCH", "/api/v1/agents/clerk", w.operator, `{"instructions":"Be late.","revision":1}`).wantProblem(t, 409, "state_conflict")
	w.send("PATCH", "/api/v1/agents/clerk", w.operator, fmt.Sprintf(`{"team":"desk","revision":%v}`, v["revision"])).wantStatus(t, 200)
	w.post("assignments", w.operator, `{"agent":"clerk","skill":"files","revision":1}`).wantProblem(t, 409, "state_conflict")
	list := listItems(t, w.get("agents", w.reviewer).wantStatus(t, 200))
	if len(list) != 3 || list[0].(map[string]any)["name"] != "billing" {
		t.Errorf("list: %v", list)
	}
	page := w.get("agents?limit=2", w.reviewer).wantStatus(t, 200)
	rest := listItems(t, w.get(fmt.Sprintf("agents?limit=2&cursor=%v", page["next_cursor"]), w.reviewer).wantStatus(t, 200))
	if len(rest) != 1 || rest[0].(map[string]any)["name"] != "other" {
		t.Errorf("second page: %v", rest)
	}
	w.send("DELETE", "/api/v1/agents/clerk", w.operator, "").wantStatus(t, 204)
	w.get("agents/clerk", w.operator).wantProblem(t, 404, "not_found")
	w.send("DELETE", "/api/v1/agents/clerk", w.operator, "").wantProblem(t, 404, "not_found")
}

func TestSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := w.post("skills", w.operator, `{"name":"shell","transport":"stdio","command":["cat"],"env":{"TOKEN":"hush"}}`)
	v := answer.wantStatus(t, 201)
	if fmt.Sprint(v["env"]) != "[TOKEN]" || v["auto_approve"] != false || v["approval_timeout"] != "5m" || strings.Contains(answer.body, "hush") {
		t.Errorf("created: %s", answer.body)
	}
	if health := v["health"].(map[string]any); health["status"] != "unknown" {
		t.Errorf("health: %v", health)
	}
	w.post("skills", w.reviewer, `{"name":"more","transport":"stdio","command":["cat"]}`).wantProblem(t, 403, "forbidden")
	w.post("skills", w.operator, `{"name":"shell","transport":"stdio","command":["cat"]}`).wantProblem(t, 409, "state_conflict")
	v = w.send("PATCH", "/api/v1/skills/shell", w.operator, `{"auto_approve":true,"env":{"TOKEN":null,"OTHER":"x"}}`).wantStatus(t, 200)
	if v["auto_approve"] != true || fmt.Sprint(v["env"]) != "[OTHER]" || fmt.Sprint(v["command"]) != "[cat]" {
		t.Errorf("updated: %v", v)
	}
	w.send("PATCH", "/api/v1/skills/shell", w.operator, `{"auto_approve":false,"revision":1}`).wantProblem(t, 409, "state_conflict")
	w.send("PATCH", "/api/v1/skills/shell", w.operator, `{"name":"x"}`).wantProblem(t, 422, "invalid_request")
	w.send("PATCH", "/api/v1/skills/shell", w.operator, `{"url":"http://x/"}`).wantProblem(t, 422, "invalid_request")
	w.send("DELETE", "/api/v1/skills/shell", w.operator, "").wantStatus(t, 204)
	w.get("skills/shell", w.operator).wantProblem(t, 404, "not_found")
}

func TestSkillTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tools := func() (string, []any) {
		answer := w.get("skills/files/tools?refresh=true", w.operator)
		return answer.body, listItems(t, answer.wantStatus(t, 200))
	}
	w.get("skills/files/tools?refresh=true", w.reviewer).wantProblem(t, 403, "forbidden") // as in the dashboard
	body, list := tools()
	if len(list) != 1 || !strings.Contains(body, `"definition":`+writeTool) || list[0].(map[string]any)["state"] != "accepted" {
		t.Fatalf("got %s", body)
	}
	w.source.Offer(otherTool)
	body, list = tools() // from the server, not from a cache
	changed := list[0].(map[string]any)
	if changed["state"] != "changed" || !strings.Contains(body, `"definition":`+otherTool) || !strings.Contains(body, `"accepted_definition":`+writeTool) {
		t.Fatalf("got %s", body)
	}
	accept := func(pin any) answer {
		return w.post("skills/files/tools/write/accept", w.operator, fmt.Sprintf(`{"pin":%q}`, pin))
	}
	refuse := func(pin any) answer {
		return w.post("skills/files/tools/write/refuse", w.operator, fmt.Sprintf(`{"pin":%q}`, pin))
	}
	refuse("x").wantProblem(t, 422, "invalid_request")
	refuse(changed["accepted_pin"]).wantProblem(t, 409, "state_conflict")
	if v := refuse(changed["pin"]).wantStatus(t, 200); v["state"] != "refused" || v["accepted_definition"] == nil {
		t.Errorf("refused: %v", v)
	}
	accept("x").wantProblem(t, 422, "invalid_request")
	accept(changed["accepted_pin"]).wantProblem(t, 409, "state_conflict")
	w.post("skills/files/tools/nothing/accept", w.operator, fmt.Sprintf(`{"pin":%q}`, changed["pin"])).wantProblem(t, 404, "not_found")
	if v := accept(changed["pin"]).wantStatus(t, 200); v["state"] != "accepted" || v["pin"] != changed["pin"] {
		t.Errorf("accepted: %v", v)
	}
	set := func(body string) answer { return w.send("PATCH", "/api/v1/skills/files/tools/write", w.operator, body) }
	if v := set(`{"risk":"high","enabled":false}`).wantStatus(t, 200); fmt.Sprint(v["tools"]) != "map[write:map[enabled:false risk:high]]" {
		t.Errorf("settings: %v", v["tools"])
	}
	if v := set(`{"risk":"","idempotent":true}`).wantStatus(t, 200); fmt.Sprint(v["tools"]) != "map[write:map[enabled:false idempotent:true]]" {
		t.Errorf("settings: %v", v["tools"])
	}
	set(`{"risk":"low"}`).wantProblem(t, 422, "invalid_request")
	set(`{"risk":"high","revision":1}`).wantProblem(t, 409, "state_conflict")
	w.send("PATCH", "/api/v1/skills/files/tools/nosuch", w.operator, `{"risk":"high"}`).wantProblem(t, 404, "not_found")
	w.send("PATCH", "/api/v1/skills/files", w.operator, `{"tools":{"ahead":{"risk":"high"},"write":{"enabled":false,"idempotent":true}}}`).wantStatus(t, 200)
	w.send("PATCH", "/api/v1/skills/files/tools/ahead", w.operator, `{"risk":""}`).wantStatus(t, 200) // a setting that was made before the tool existed
	if v := set(`{"enabled":true,"idempotent":false}`).wantStatus(t, 200); fmt.Sprint(v["tools"]) != "map[]" {
		t.Errorf("settings: %v", v["tools"])
	}
	health := w.get("skills/files/health?range=30d", w.reviewer).wantStatus(t, 200)
	if spans := health["spans"].([]any); len(spans) != 1 || spans[0].(map[string]any)["failed"] != json.Number("0") {
		t.Errorf("health: %v", health)
	}
	w.get("skills/files/health?range=1y", w.reviewer).wantProblem(t, 422, "invalid_request")
	v := w.post("skills/files/probe", w.operator, "").wantStatus(t, 200)
	if v["ok"] != true || len(v["steps"].([]any)) != 2 {
		t.Errorf("probe: %v", v)
	}
}

// With a connection for each person, a skill is probed and listed with the connection of the caller.
func TestSkillOfEachPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.post("skills", w.operator, `{"name":"own","transport":"http","url":"http://127.0.0.1:1/own","connection":"per_user"}`).wantStatus(t, 201)
	if v := w.post("skills/own/probe", w.operator, "").wantStatus(t, 200); v["ok"] != true {
		t.Errorf("probe: %v", v)
	}
	if list := listItems(t, w.get("skills/own/tools?refresh=true", w.operator).wantStatus(t, 200)); len(list) != 1 {
		t.Errorf("tools: %v", list)
	}
	if health := w.get("skills/own", w.operator).wantStatus(t, 200)["health"].(map[string]any); health["status"] != "ok" {
		t.Errorf("health: %v", health)
	}
}

func TestAssignments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.post("assignments", w.operator, `{"agent":"other","skill":"files","tools":["write"]}`).wantStatus(t, 201)
	w.post("assignments", w.operator, `{"agent":"nobody","skill":"files"}`).wantProblem(t, 422, "invalid_request")
	w.post("assignments", w.operator, `{"agent":"other","skill":"nothing"}`).wantProblem(t, 422, "invalid_request")
	if n := len(listItems(t, w.get("assignments", w.reviewer).wantStatus(t, 200))); n != 3 {
		t.Errorf("%d assignments", n)
	}
	if n := len(listItems(t, w.get("assignments?agent=other", w.reviewer).wantStatus(t, 200))); n != 1 {
		t.Errorf("%d assignments of other", n)
	}
	w.send("DELETE", "/api/v1/assignments/other/files", w.operator, "").wantStatus(t, 204)
	w.send("DELETE", "/api/v1/assignments/other/files", w.operator, "").wantProblem(t, 404, "not_found")
}

func TestPreviewAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("skills/files/tools?refresh=true", w.operator).wantStatus(t, 200)
	v := w.get("agents/billing/tools", w.reviewer).wantStatus(t, 200)
	tools, problems := v["tools"].([]any), v["problems"].([]any)
	if len(tools) != 1 || tools[0].(map[string]any)["name"] != "files__write" || len(problems) != 1 || problems[0].(map[string]any)["skill"] != "open" {
		t.Errorf("offered: %v", v)
	}
	w.get("agents/nobody/tools", w.operator).wantProblem(t, 404, "not_found")
}

func TestServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.get("server", w.operator).wantStatus(t, 200)
	instances := v["instances"].([]any)
	if v["version"] != "1.2.3" || v["database"] != "external" || v["stdio"] != true || len(instances) != 1 || instances[0].(map[string]any)["this"] != true {
		t.Errorf("server: %v", v)
	}
}
