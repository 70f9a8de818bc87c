package ui_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const orderTool = `{"name":"change_order","inputSchema":{"type":"object","properties":{"order":{"type":"string"},"note":{"type":"string"},
	"pin":{"type":"string","writeOnly":true},"extra":{"type":"object","properties":{"token":{"type":"string"}}}},"required":["order"]},"x-holdpoint-http":{"method":"PATCH","preview":{"method":"GET"}}}`

// sealedTool has a secret in its path.
var sealedTool = strings.NewReplacer("change_order", "change_sealed", `"order":{"type":"string"}`, `"order":{"type":"string","format":"password"}`).Replace(orderTool)

// withShop gives the agent a skill over an HTTP API.
func (w *world) withShop() {
	w.t.Helper()
	w.source.set(func() { w.source.own = map[string][]string{"shop": {orderTool, sealedTool}} })
	_, err := w.agents.Apply(w.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{{Name: "shop", Transport: tool.OpenAPI, APISpec: agent.APISpec{
			BaseURL: "https://shop.example/v1", Spec: "https://shop.example/openapi.json", Preview: true,
			Auth: &agent.APIAuthSpec{Type: tool.APIBearer, Secret: "sk-geheim"},
		}}},
		Agents: []agent.AgentSpec{{Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "shop"}}}},
	}, false)
	check(w.t, err)
}

// there sets the state that the shop returns.
func (w *world) there(status int, body string) {
	w.source.set(func() {
		w.source.before = func(server tool.Server, _ tool.CallRequest) (*tool.State, error) {
			return &tool.State{Request: tool.Outgoing{Method: http.MethodGet, URL: server.URL + "/orders/7"}, Status: status, Body: []byte(body), Media: "application/json"}, nil
		}
	})
}

func TestRequestIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"a/b","note":"now\u202e"}`)
	page := v.get(callPath(id))
	text := strings.Join(strings.Fields(page.find("request").Text()), " ")
	for _, want := range []string{"PATCH", "https://shop.example/v1/orders/a%2Fb?notify=true", "Authorization", "hidden secret", "Accept", "application/json", "U+202E", "sent on approval"} {
		if !strings.Contains(text, want) {
			t.Errorf("the request lacks %q: %s", want, text)
		}
	}
	if strings.Contains(page.body, "geheim") {
		t.Error("the secret is shown")
	}
	if after := v.get(callPath(id) + "/before"); after.status != http.StatusOK || !strings.Contains(after.find("before-failed").Text(), "no answer in time") {
		t.Errorf("nothing can be read: %d: %s", after.status, after.text())
	}
	// A call can be decided even if the state cannot be read.
	confirm := v.post(callPath(id)+"/approve", page.form("decide")) // the hidden character takes a second step
	if a := v.post(callPath(id)+"/approve", confirm.form("confirm")); a.status != http.StatusSeeOther {
		t.Fatalf("approve: %d: %s", a.status, a.text())
	}
	w.waitForEnd(id)
	done := v.get(callPath(id))
	if text := done.find("request").Text(); !strings.Contains(text, "This request was sent.") || done.find("before").Length() != 0 {
		t.Errorf("afterwards: %s", done.text())
	}
	if a := v.get(callPath(id) + "/before"); !strings.Contains(a.find("before-failed").Text(), "not pending any more") {
		t.Errorf("afterwards: %d: %s", a.status, a.text())
	}
}

func TestRequestOfAnEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"7","note":"now"}`)
	preview := v.preview(id, `{"order":"8","note":"now"}`)
	if text := preview.find("request").Text(); !strings.Contains(text, "/orders/8?notify=true") || preview.find("before").Length() != 0 {
		t.Errorf("the request of what was edited: %s", text)
	}
	wrong := v.preview(id, `{"order":"..","note":"now"}`)
	if wrong.status != http.StatusUnprocessableEntity || !strings.Contains(wrong.find("problems").Text(), "argument order") {
		t.Errorf("what makes no request: %d: %s", wrong.status, wrong.text())
	}
	if a := v.post(callPath(id)+"/approve", preview.form("decide")); a.status != http.StatusSeeOther {
		t.Fatalf("approve as edited: %d: %s", a.status, a.text())
	}
	w.waitForEnd(id)
	if text := v.get(callPath(id)).find("request").Text(); !strings.Contains(text, "/orders/8?notify=true") {
		t.Errorf("what was sent: %s", text)
	}
}

// The request contains the secrets of the arguments, so it is revealed with them or not at all.
func TestRequestWithSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"7","pin":"4711"}`)
	page := v.get(callPath(id))
	if page.find("request-hidden").Length() != 1 || strings.Contains(page.body, "4711") || page.find("before").Length() != 0 {
		t.Errorf("the secret is shown: %s", page.text())
	}
	shown := v.post(callPath(id)+"/reveal", page.form("reveal"))
	if text := shown.find("request").Text(); !strings.Contains(text, "4711") || !strings.Contains(text, "/orders/7") {
		t.Errorf("revealed: %s", shown.text())
	}
}

// If a call was never sent, the page does not claim that its request was.
func TestRequestThatWasNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	const was, never = "This request was sent.", "This request would have been sent, but was not."
	for _, tt := range []struct {
		name    string
		failure tool.Failure
		want    string
	}{
		{"not reached", tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "connection refused"}, never},
		{"no answer", tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "no answer in time"}, was},
		{"refused", tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "HTTP 401", Exchange: tool.Exchange{Status: 401, Steps: []tool.Step{{Name: "call", Took: time.Millisecond}}}}, was},
	} {
		w.source.set(func() {
			w.source.Reply = func(tool.CallRequest) (tool.Result, error) { return tool.Result{}, &tt.failure }
		})
		id := w.submit(uuid.Nil, "shop__change_order", `{"order":"7","note":"`+tt.name+`"}`)
		w.approve(v, id)
		w.waitForEnd(id)
		if text := v.get(callPath(id)).find("request").Text(); !strings.Contains(text, tt.want) {
			t.Errorf("%s: %s", tt.name, text)
		}
	}
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"8","note":"x"}`)
	form := v.get(callPath(id)).form("decide")
	form.Set("reason", "no")
	v.post(callPath(id)+"/reject", form)
	if text := v.get(callPath(id)).find("request").Text(); !strings.Contains(text, never) {
		t.Errorf("rejected: %s", text)
	}
}

// A short value that the schema calls secret cannot hide a call's effect: the request must be revealed before approval.
func TestHiddenRequestsAreRevealedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v, other := w.signedIn("rita", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	for _, tt := range []struct{ tool, arguments, url, secret string }{
		{"shop__change_order", `{"order":"7","note":"all of them","extra":{"token":"x-93f1"}}`, "https://shop.example/v1/orders/7?notify=true", "x-93f1"},
		{"shop__change_sealed", `{"order":"k/93f1","note":"x"}`, "https://shop.example/v1/orders/hidden?notify=true", "93f1"},
	} {
		id := w.submit(uuid.Nil, tt.tool, tt.arguments)
		page := v.get(callPath(id))
		if text := page.find("request").Text(); !strings.Contains(text, "PATCH") || !strings.Contains(text, tt.url) || page.find("request-hidden").Length() != 1 {
			t.Errorf("%s: method and URL: %s", tt.tool, text)
		}
		if strings.Contains(page.body, tt.secret) {
			t.Errorf("%s: the secret is shown: %s", tt.tool, page.text())
		}
		if page.find("approve").Length() != 0 || page.find("reveal-first").Length() != 1 || !strings.Contains(page.find("notice").Text(), "The request is hidden") {
			t.Errorf("%s: can be approved unseen: %s", tt.tool, page.text())
		}
		if a := v.post(callPath(id)+"/approve", page.form("decide")); a.status != http.StatusUnprocessableEntity || w.getApproval(id).Status != approval.Pending {
			t.Errorf("%s: approved unseen: %d", tt.tool, a.status)
		}
		revealed := v.post(callPath(id)+"/reveal", page.form("reveal"))
		if !strings.Contains(revealed.find("request").Text(), tt.secret) || revealed.find("approve").Length() != 1 {
			t.Errorf("%s: revealed: %s", tt.tool, revealed.text())
		}
		if other.get(callPath(id)).find("approve").Length() != 0 {
			t.Errorf("%s: somebody else looked, and it is approved unseen", tt.tool)
		}
		if a := v.post(callPath(id)+"/approve", revealed.form("decide")); a.status != http.StatusSeeOther || w.getApproval(id).Status != approval.Approved {
			t.Errorf("%s: approved after looking: %d", tt.tool, a.status)
		}
	}
}

// A request that can no longer be rebuilt exactly is not shown at all. The editor shows the request of the edit.
func TestHiddenRequestsOfOtherSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"7","pin":"4711"}`)
	if text := v.preview(id, `{"order":"8","pin":"4712"}`).find("request").Text(); !strings.Contains(text, "/orders/8") || !strings.Contains(text, "4712") {
		t.Errorf("the request of an edit: %s", text)
	}
	moved := agent.SkillSpec{Name: "shop", Transport: tool.OpenAPI, APISpec: agent.APISpec{BaseURL: "https://shop.example/v2", Spec: "https://shop.example/openapi.json", Preview: true}}
	_, err := w.agents.Apply(t.Context(), audit.System(), agent.Spec{Skills: []agent.SkillSpec{moved}}, false)
	check(t, err)
	if text := v.get(callPath(id)).find("request").Text(); !strings.Contains(text, "hidden URL") || strings.Contains(text, "shop.example") || strings.Contains(text, "4711") {
		t.Errorf("after the skill moved: %s", text)
	}
}

// The previous state is read only after the call's secrets are revealed, because its address or content may contain
// them.
func TestBeforeWithSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v, other := w.signedIn("rita", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"7","pin":"4711"}`)
	read := 0
	w.source.set(func() {
		w.source.before = func(server tool.Server, _ tool.CallRequest) (*tool.State, error) {
			read++
			return &tool.State{Request: tool.Outgoing{Method: http.MethodGet, URL: server.URL + "/orders/7/4711"}, Status: 200, Body: []byte(`{"number":"4711"}`)}, nil
		}
	})
	for _, who := range []*visitor{v, other} {
		if a := who.get(callPath(id) + "/before"); a.find("before-hidden").Length() != 1 || strings.Contains(a.body, "4711") || read != 0 {
			t.Errorf("without a reveal, read %d times: %s", read, a.text())
		}
	}
	v.post(callPath(id)+"/reveal", v.get(callPath(id)).form("reveal"))
	if a := v.get(callPath(id) + "/before"); !strings.Contains(a.find("before").Text(), "/orders/7/4711") || a.find("before-hidden").Length() != 0 {
		t.Errorf("revealed: %s", a.text())
	}
	if a := other.get(callPath(id) + "/before"); strings.Contains(a.body, "4711") || len(w.revealed(id)) != 1 {
		t.Errorf("somebody else had them shown: %s", a.text())
	}
}

func TestWhatACallChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	before := func(arguments string, status int, body string) *answer {
		t.Helper()
		w.there(status, body)
		return v.get(callPath(w.submit(uuid.Nil, "shop__change_order", arguments)) + "/before")
	}
	changed := before(`{"order":"7","note":"tomorrow","extra":{"a":null,"b":2}}`, 200, `{"id":7,"note":"now","extra":{"a":1,"b":1,"c":3}}`)
	diff := strings.Join(strings.Fields(changed.find("diff").Text()), " ")
	for _, want := range []string{`- "note": "now"`, `+ "note": "tomorrow"`, `- "a": 1`, `+ "b": 2`, `"c": 3`, `"id": 7`} {
		if !strings.Contains(diff, want) {
			t.Errorf("the difference lacks %s: %s", want, diff)
		}
	}
	if strings.Contains(diff, "null") {
		t.Errorf("a member that is taken away is shown as null: %s", diff)
	}
	deleted := before(`{"order":"7"}`, 200, `{"id":7,"note":"<b>now</b>"}`)
	if deleted.find("before-deleted").Length() != 1 || !strings.Contains(deleted.find("before").Text(), "<b>now</b>") {
		t.Errorf("of a DELETE: %s", deleted.text())
	}
	if gone := before(`{"order":"8","note":"x"}`, 404, `no such order`); !strings.Contains(gone.find("before-gone").Text(), "nothing at this URL now (HTTP 404)") {
		t.Errorf("of nothing: %s", gone.text())
	}
	if refused := before(`{"order":"9","note":"x"}`, 403, ``); !strings.Contains(refused.find("before-failed").Text(), "Forbidden") {
		t.Errorf("of what may not be read: %s", refused.text())
	}
	if odd := before(`{"order":"10","note":"x"}`, 200, `not JSON`); odd.find("diff").Length() != 0 || !strings.Contains(odd.find("before").Text(), "not JSON") {
		t.Errorf("of what is no JSON: %s", odd.text())
	}
	// None of that decided the call.
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"11","note":"x"}`)
	if v.get(callPath(id) + "/before"); w.getApproval(id).Status != approval.Pending {
		t.Error("a look decides")
	}
	if a := v.get(callPath(w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)) + "/before"); a.status != http.StatusNotFound {
		t.Errorf("of what is no HTTP API: %d", a.status)
	}
}
