package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// paymentTool has a schema that conditions are compared with.
const paymentTool = `{"name":"write","inputSchema":{"type":"object","properties":{"amount":{"type":"number"},"n":{"type":"integer"}}}}`

// newRuledWorld is a world whose tools have a schema and are listed.
func newRuledWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.source.Offer(paymentTool)
	w.submitCall("files__write", `{"n":0}`, uuid.Nil)
	return w
}

func (w *world) put(path, token, body string) answer {
	return w.send("PUT", "/api/v1/"+path, token, body)
}

func TestRules(t *testing.T) {
	t.Parallel()
	w := newRuledWorld(t)
	const rule = `{"skills":["files"],"tools":["wri*"],"when":"args.amount <= 100.0","effect":"allow","mode":"shadow"}`
	made := w.put("rules/small", w.operator, rule).wantStatus(t, 200)
	wantMembers(t, "rule", made, `{"name":"small","agents":[],"skills":["files"],"tools":["wri*"],"when":"args.amount <= 100.0","effect":"allow","mode":"shadow",
		"message":null,"high_risk":false,"changed_by":{"name":"olga"},"warnings":[]}`)
	revision := made["revision"].(json.Number)
	if got := w.put("rules/small", w.operator, rule).wantStatus(t, 200); got["revision"] != revision {
		t.Errorf("the same rule again has revision %v, not %v", got["revision"], revision)
	}
	w.put("rules/small", w.operator, strings.Replace(rule, `"shadow"`, `"shadow","revision":0`, 1)).wantProblem(t, 409, "state_conflict")
	changed := w.put("rules/small", w.operator, fmt.Sprintf(`{"effect":"deny","message":"No.","revision":%s}`, revision)).wantStatus(t, 200)
	wantMembers(t, "replaced", changed, `{"skills":[],"tools":[],"when":"","effect":"deny","mode":"enforce","message":"No."}`)

	wantMembers(t, "get", w.get("rules/small", w.reviewer).wantStatus(t, 200), `{"effect":"deny","shadow":null}`)
	w.put("rules/tried", w.operator, rule).wantStatus(t, 200)
	tried := w.get("rules/tried", w.reviewer).wantStatus(t, 200)
	wantMembers(t, "in shadow mode", tried, `{"shadow":{"complete":true,"matched":0,"failed":0,"rejected":[],"outcomes":[{"would":"allow","calls":0},{"would":"park"},{"would":"deny","waiting":0}]}}`)
	if _, listed := tried["agents"]; listed {
		t.Errorf("a list without names is not omitted, so the rule cannot be sent back: %v", tried)
	}
	w.send("DELETE", "/api/v1/rules/tried", w.operator, "").wantStatus(t, 204)
	w.put("rules/another", w.operator, `{"effect":"park","when":"args.n > 3","tools":["write"]}`).wantStatus(t, 200)
	list := listItems(t, w.get("rules", w.reviewer).wantStatus(t, 200))
	if len(list) != 2 || list[0].(map[string]any)["name"] != "another" {
		t.Errorf("list: %v", list)
	}
	w.send("DELETE", "/api/v1/rules/small", w.operator, "").wantStatus(t, 204)
	w.send("DELETE", "/api/v1/rules/small", w.operator, "").wantProblem(t, 404, "not_found")
	w.get("rules/small", w.reviewer).wantProblem(t, 404, "not_found")
	versions := listItems(t, w.get("rules/small/history", w.reviewer).wantStatus(t, 200))
	if len(versions) != 3 {
		t.Fatalf("history: %v", versions)
	}
	wantMembers(t, "deleted", versions[0], `{"rule":null,"changed_by":{"name":"olga"}}`)
	wantMembers(t, "first version", versions[2], `{"revision":`+revision.String()+`,"rule":{"tools":["wri*"],"effect":"allow","mode":"shadow"}}`)
	w.get("rules/none/history", w.reviewer).wantProblem(t, 404, "not_found")
}

// Errors about a rule name its field, and each problem of a condition.
func TestInvalidRules(t *testing.T) {
	t.Parallel()
	w := newRuledWorld(t)
	for _, tc := range []struct{ path, body, location, message string }{
		{"rules/two%20words", `{"effect":"park"}`, "path.name", "letters"},
		{"rules/r", `{}`, "body", "effect"},
		{"rules/r", `{"effect":"approve"}`, "body.effect", "allow"},
		{"rules/r", `{"effect":"park","mode":"on"}`, "body.mode", "enforce"},
		{"rules/r", `{"effect":"park","message":"x"}`, "body.message", "effect deny"},
		{"rules/r", `{"effect":"park","high_risk":true}`, "body.high_risk", "effect allow"},
		{"rules/r", `{"effect":"park","agents":["a",""]}`, "body.agents[1]", "must be a name"},
		{"rules/r", `{"effect":"park","agents":[]}`, "body.agents", `must be omitted, or ["*"] for all`},
		{"rules/r", `{"effect":"allow","when":""}`, "body.skills", `Write ["*"] if that is meant`},
		{"rules/r", `{"effect":"park","when":"args.amount >"}`, "body.when", "1:14: "},
		{"rules/r", `{"effect":"park","tools":["write"],"when":"args.amuont > 1.0"}`, "body.when", "1:6: args has no field amuont: did you mean amount? (tool write of skill files)"},
		{"rules/r", `{"effect":"park","tools":["write"],"when":"args.n > 1 &&\n args.amount > 1"}`, "body.when", "2:14: cannot compare a number with an integer: write 1.0"},
	} {
		v := w.put(tc.path, w.operator, tc.body).wantProblem(t, 422, "invalid_request")
		errs, _ := v["errors"].([]any)
		if len(errs) == 0 {
			t.Fatalf("%s: %v", tc.body, v)
		}
		first := errs[0].(map[string]any)
		if first["location"] != tc.location || !strings.Contains(first["message"].(string), tc.message) {
			t.Errorf("%s: %v, want %s with %q", tc.body, first, tc.location, tc.message)
		}
	}
	v := w.post("apply", w.operator, `{"spec":{"rules":[{"name":"ok","effect":"park"},{"name":"r","effect":"park","tools":["write"],"when":"args.m > 1"}]}}`).wantProblem(t, 422, "invalid_request")
	if text := fmt.Sprint(v["errors"]); !strings.Contains(text, "body.spec.rules[1].when") || !strings.Contains(text, "1:6: args has no field m") {
		t.Errorf("apply: %v", v)
	}
	if list := listItems(t, w.get("rules", w.operator).wantStatus(t, 200)); len(list) != 0 {
		t.Errorf("stored: %v", list)
	}
}

func TestCheckRule(t *testing.T) {
	t.Parallel()
	w := newRuledWorld(t)
	const write = `"tools":["write"],"skills":["files"]`
	for body, want := range map[string]string{
		`{"when":"args.amount > 1.0",` + write + `}`:  `{"problems":[],"tools":[{"skill":"files","tool":"write","problems":[]}]}`,
		`{"when":"args.amount > 1",` + write + `}`:    `{"problems":[],"tools":[{"skill":"files","tool":"write","problems":[{"line":1,"column":13,"message":"cannot compare a number with an integer: write 1.0"}]}]}`,
		`{"when":"args.amount >\n",` + write + `}`:    `{"problems":[{"line":1,"column":14}],"tools":[{"skill":"files","tool":"write","problems":[]}]}`,
		`{"when":"args.amount > 1","tools":["none"]}`: `{"problems":[],"tools":[]}`,
		`{"when":"",` + write + `}`:                   `{"problems":[],"tools":[{"problems":[]}]}`,
	} {
		wantMembers(t, body, w.post("rules/check", w.reviewer, body).wantStatus(t, 200), want)
	}
	w.post("rules/check", w.operator, `{"when":"args.a == 1","tools":[""]}`).wantProblem(t, 422, "invalid_request")
}

// A rule whose condition a new definition does not fit has a warning.
func TestRuleWarnings(t *testing.T) {
	t.Parallel()
	w := newRuledWorld(t)
	w.put("rules/small", w.operator, `{"skills":["files"],"when":"args.amount <= 100.0","effect":"allow"}`).wantStatus(t, 200)
	w.source.Offer(strings.Replace(paymentTool, "amount", "total", 1))
	w.get("skills/files/tools?refresh=true", w.operator).wantStatus(t, 200)
	const warned = `{"warnings":[{"skill":"files","tool":"write","message":"1:6: args has no field amount: it must be one of n, total"}]}`
	wantMembers(t, "get", w.get("rules/small", w.operator).wantStatus(t, 200), warned)
	wantMembers(t, "list", listItems(t, w.get("rules", w.operator).wantStatus(t, 200))[0], warned)
}

// Calls and approvals name the rules that were applied, for people who see approvals.
func TestCallsNameTheirRules(t *testing.T) {
	t.Parallel()
	w := newRuledWorld(t)
	revision := w.put("rules/limit", w.operator, `{"skills":["files"],"when":"args.amount > 100.0","effect":"park"}`).wantStatus(t, 200)["revision"]
	w.put("rules/maybe", w.operator, `{"skills":["files"],"when":"args.n == 1","effect":"deny","mode":"shadow"}`).wantStatus(t, 200)
	id := w.parkCall(`{"n":1}`).String()
	want := fmt.Sprintf(`{"rules":[{"name":"limit","revision":%v,"effect":"park","mode":"enforce","failure":"no such key: amount"},{"name":"maybe","effect":"deny","mode":"shadow","failure":null}]}`, revision)
	wantMembers(t, "call", w.get("calls/"+id, w.reviewer).wantStatus(t, 200), want)
	approval := w.get("approvals/"+id, w.reviewer).wantStatus(t, 200)
	wantMembers(t, "approval", approval, want)
	wantMembers(t, "approval", approval, `{"rule":"rule_failed"}`)
	wantMembers(t, "call of the agent", w.get("calls/"+id, w.key).wantStatus(t, 200), `{"rules":[]}`)
	wantMembers(t, "list", listItems(t, w.get("calls", w.reviewer).wantStatus(t, 200))[0], want)
}

// A replay judges recorded calls by a rule that is not stored.
func TestReplayRule(t *testing.T) {
	t.Parallel()
	w := newRuledWorld(t)
	got := w.post("rules/replay", w.reviewer, `{"name":"small","tools":["write"],"when":"args.n == 0","effect":"allow"}`).wantStatus(t, 200)
	wantMembers(t, "replay", got, `{"judged":1,"matched":1,"failed":0,"complete":true,"differing":1,"rejected":0,
		"differences":[{"agent":"billing","skill":"files","tool":"write","before":"park","after":"allow","decision":"pending","failure":null}]}`)
	v := w.post("rules/replay", w.reviewer, `{"name":"small","when":"args.n ==","effect":"allow"}`).wantProblem(t, 422, "invalid_request")
	if text := fmt.Sprint(v["errors"]); !strings.Contains(text, "body.when") {
		t.Errorf("a mistake: %v", v)
	}
}
