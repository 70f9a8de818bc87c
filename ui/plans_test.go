package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// submitPlan submits a plan of calls of one tool.
func (w *world) submitPlan(principal uuid.UUID, title, tool string, arguments ...string) agent.Plan {
	w.t.Helper()
	_, entry := w.registry.FindTool(w.agent, principal, tool)
	sub := call.PlanSubmission{Agent: w.agent, PrincipalID: principal, Title: title, Lookup: func(string) (*catalog.Entry, bool) { return entry, true }}
	for _, one := range arguments {
		sub.Calls = append(sub.Calls, call.PlannedCall{Tool: tool, Arguments: []byte(one)})
	}
	p, err := w.calls.SubmitPlan(w.t.Context(), &sub)
	check(w.t, err)
	return p
}

// Without a script, a reviewer finds a plan in the queue, approves it without one of its calls, sees it on a call that it let pass, and revokes it.
func TestPlanPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita, olga := w.signedIn("rita", identity.Reviewer), w.signedIn("olga", identity.Operator)
	p := w.submitPlan(uuid.Nil, "Reports of <March>", "files__save_csv", `{"filename":"a.csv"}`, `{"filename":"b.csv"}`, `{"filename":"c.csv"}`)
	path := "/plans/" + p.ID.String()
	queue := rita.get("/")
	if title := queue.doc.Find("title").Text(); !strings.HasPrefix(title, "(1) ") || queue.doc.Find(`.total [href="#plans"]`).Text() != "1 plan" {
		t.Errorf("the title of the queue is %q: %s", title, queue.find("total").Text())
	}
	row := queue.find("pending-plan")
	if got := row.Find("a").AttrOr("href", ""); got != path || !strings.Contains(row.Text(), "Plan with 3 calls") || !strings.Contains(row.Text(), "Reports of <March>") {
		t.Fatalf("the queue leads to %q: %s", got, row.Text())
	}
	if got := olga.get(path); got.status != http.StatusOK || got.find("approve-plan").Length() != 0 {
		t.Errorf("%d: an operator who is no reviewer sees: %s", got.status, got.text())
	}
	page := rita.get(path)
	if page.find("plan-call").Length() != 3 || !strings.Contains(page.find("plan-call").Text(), "b.csv") || page.doc.Find("[name=strike]").Length() != 3 || page.find("compared").Length() != 3 {
		t.Errorf("the plan: %s", page.text())
	}
	sent := url.Values{"digest": {page.doc.Find("[name=digest]").AttrOr("value", "")}, "hours": {"8"}, "strike": {"1"}}
	stale := url.Values{"digest": {"00"}, "hours": {"8"}}
	if a := rita.post(path+"/approve", stale); a.status != http.StatusConflict {
		t.Errorf("%d: approved with another digest", a.status)
	}
	if a := rita.post(path+"/approve", sent); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	queue = rita.get("/")
	if title := queue.doc.Find("title").Text(); queue.find("pending-plan").Length() != 0 || strings.HasPrefix(title, "(") {
		t.Errorf("the queue still has the plan: %q", title)
	}
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
	if got := rita.get(callPath(first)).find("planned-by").AttrOr("href", ""); got != path {
		t.Errorf("the call leads to %q", got)
	}
	if page = rita.get(path); !strings.Contains(page.text(), "Left out") || page.find("plan-call").Find("a").AttrOr("href", "") != callPath(first) {
		t.Errorf("the approved plan: %s", page.text())
	}
	if a := olga.post(path+"/revoke", url.Values{}); a.status != http.StatusSeeOther {
		t.Errorf("%d: %s", a.status, a.text())
	}
	if got := w.statusOf(w.submit(uuid.Nil, "files__save_csv", `{"filename":"c.csv"}`)); got != call.Parked {
		t.Errorf("after the revocation, the next call is %s", got)
	}
	if a := rita.get("/plans?all=1"); a.find("plan-row").Length() != 1 || a.doc.Find("nav [aria-current]").AttrOr("href", "") != "/plans" {
		t.Errorf("the list: %s", a.text())
	}
	if a := rita.get("/plans/" + uuid.NewString()); a.status != http.StatusNotFound {
		t.Errorf("%d: a plan that does not exist", a.status)
	}
}

// A call with a red warning, or one that is too long to be shown, is not approved by a plan's page, whatever the form says.
func TestPlanLeavesOutWhatNeedsItsOwnPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita := w.signedIn("rita", identity.Reviewer)
	p := w.submitPlan(uuid.Nil, "Reports", "files__save_csv", `{"filename":"a\u202e.csv"}`, `{"filename":"`+strings.Repeat("long ", 10_000)+`"}`, `{"filename":"c.csv"}`)
	path := "/plans/" + p.ID.String()
	page := rita.get(path)
	if page.find("own-page").Length() != 2 || page.doc.Find("[type=checkbox][name=strike]").Length() != 1 {
		t.Fatalf("the plan: %s", page.text())
	}
	if a := rita.post(path+"/approve", url.Values{"digest": {p.Digest()}, "hours": {"8"}}); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if got := w.statusOf(w.submit(uuid.Nil, "files__save_csv", `{"filename":"a\u202e.csv"}`)); got != call.Parked {
		t.Errorf("the call with a warning is %s", got)
	}
	if got := w.submit(uuid.Nil, "files__save_csv", `{"filename":"c.csv"}`); w.waitForEnd(got).Status != call.Succeeded {
		t.Error("the other call does not pass")
	}
	only := w.submitPlan(uuid.Nil, "Reports", "files__save_csv", `{"filename":"a\u202e.csv"}`)
	if page := rita.get("/plans/" + only.ID.String()); page.find("approve-plan").Length() != 0 || page.find("reject-plan").Length() != 1 {
		t.Errorf("the plan of one call: %s", page.text())
	}
}
