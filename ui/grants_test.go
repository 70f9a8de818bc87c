package ui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

func (w *world) statusOf(id uuid.UUID) call.Status {
	w.t.Helper()
	c, err := w.calls.Get(w.t.Context(), call.Viewer{}, id)
	check(w.t, err)
	return c.Status
}

// Without a script, a reviewer previews and makes a grant from a call, sees it on the call that it let pass, and revokes it.
func TestGrantForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita, olga := w.signedIn("rita", identity.Reviewer), w.signedIn("olga", identity.Operator)
	no := w.submit(uuid.Nil, "files__save_csv", `{"filename":"reports/no.csv"}`)
	_, err := w.calls.Decide(t.Context(), call.Decision{CallID: no, Digest: w.getApproval(no).Digest.String(), By: uuid.New()})
	check(t, err)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"reports/a.csv"}`)
	page := rita.get(callPath(id))
	path := page.find("grant-like").AttrOr("href", "")
	if path != callPath(id)+"/grant" {
		t.Fatalf("the call leads to %q: %s", path, page.text())
	}
	form := rita.get(path)
	if got := form.find("preview").Text(); !strings.Contains(got, "1 recorded call matches.") || form.find("needs-second").Length() != 0 {
		t.Errorf("the exact grant: %s", got)
	}
	if got := form.doc.Find(`select[name="kind.0"]`).Text(); !strings.Contains(got, "Exactly this value") || !strings.Contains(got, `"reports"`) {
		t.Errorf("kinds: %s", got)
	}
	sent := form.fillForm("grant-form", url.Values{"kind.0": {"path_below"}, "values.0": {""}, "uses": {"2"}})
	preview := rita.post(path+"/preview", sent)
	if preview.status != http.StatusOK || preview.find("needs-second").Length() != 1 || preview.find("match").Length() != 2 || !strings.Contains(preview.find("preview").Text(), "1 rejected, 1 pending.") {
		t.Errorf("%d: the preview: %s", preview.status, preview.text())
	}
	if part := rita.post(path+"/preview", sent, "HX-Request", "true"); part.find("preview").Length() != 1 || part.doc.Find("form, nav").Length() != 0 {
		t.Errorf("the part: %s", part.body)
	}
	sent.Set("kind.0", "prefix")
	sent.Set("values.0", "other/")
	sent.Set("uses", "many")
	if a := rita.post(path, sent); a.status != http.StatusUnprocessableEntity || a.find("problem-uses").Length() != 1 {
		t.Errorf("%d: %s", a.status, a.text())
	}
	sent.Set("uses", "")
	if a := rita.post(path, sent); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("problems").Text(), "must allow the call") {
		t.Errorf("%d: %s", a.status, a.text())
	}

	// The grant allows a call that was rejected, so it needs a second person.
	sent.Set("values.0", "reports/")
	made := rita.post(path, sent).wantRedirect("done=granted")
	waits := rita.get(made)
	if !strings.Contains(waits.text(), "Waits for a second person") || waits.find("confirm").Length() != 0 || w.statusOf(w.submit(uuid.Nil, "files__save_csv", `{"filename":"reports/b.csv"}`)) != call.Parked {
		t.Errorf("waiting: %s", waits.text())
	}
	own, _, _ := strings.Cut(made, "?")
	if a := rita.post(own+"/confirm", nil); a.status != http.StatusForbidden {
		t.Errorf("confirmed by the same person: %d", a.status)
	}
	if olga.get(own).find("confirm").Length() != 1 {
		t.Error("an operator cannot confirm it")
	}
	confirmed := olga.get(olga.post(own+"/confirm", nil).wantRedirect("done=grant-confirmed"))
	if !strings.Contains(confirmed.text(), "Active") || !strings.Contains(confirmed.find("argument").Text(), "reports/") {
		t.Errorf("confirmed: %s", confirmed.text())
	}
	passed := w.submit(uuid.Nil, "files__save_csv", `{"filename":"reports/c.csv"}`)
	w.waitForEnd(passed)
	if got := rita.get(callPath(passed)).find("granted-by").AttrOr("href", ""); got != own {
		t.Errorf("the call that passed leads to %q", got)
	}
	list := rita.get("/grants")
	if list.find("grant-row").Length() != 1 || !strings.Contains(list.find("grant-row").Text(), "files: save_csv") {
		t.Errorf("the list: %s", list.text())
	}
	gone := rita.get(rita.post(own+"/revoke", nil).wantRedirect("done=grant-revoked"))
	if !strings.Contains(gone.text(), "Grant revoked") || gone.find("grant-row").Length() != 0 || rita.get("/grants?all=1").find("grant-row").Length() != 1 {
		t.Errorf("revoked: %s", gone.text())
	}
	if got := w.statusOf(w.submit(uuid.Nil, "files__save_csv", `{"filename":"reports/d.csv"}`)); got != call.Parked {
		t.Errorf("after the revocation a call is %s", got)
	}
	if a := rita.post(own+"/revoke", nil); a.status != http.StatusConflict {
		t.Errorf("revoked again: %d", a.status)
	}
	log := olga.get("/audit?subject=" + strings.TrimPrefix(own, "/grants/"))
	for _, want := range []string{"rita made ", "olga confirmed ", "rita revoked "} {
		if !strings.Contains(log.text(), want) {
			t.Errorf("the audit log lacks %q: %s", want, log.text())
		}
	}
}

// Operators see the grants that decisions suggest, and open one in the form. A grant that covers a suggestion removes it.
func TestGrantSuggestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita, olga := w.signedIn("rita", identity.Reviewer), w.signedIn("olga", identity.Operator)
	decide := func(n int, filename string, approve bool) uuid.UUID {
		id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+filename+`"}`)
		_, err := w.calls.Decide(t.Context(), call.Decision{CallID: id, Approve: approve, Digest: w.getApproval(id).Digest.String(), By: w.personCalled("rita")})
		check(t, err)
		if approve {
			w.waitForEnd(id)
		}
		w.db.Exec(`UPDATE approvals SET decided_at = decided_at - $2 * interval '6 hours' WHERE call_id = $1`, id, n)
		return id
	}
	var newest uuid.UUID
	for n := range 14 {
		newest = decide(14-n, fmt.Sprintf("/srv/reports/%d.csv", n), true)
	}
	decide(3, "/srv/secrets/b.csv", false)
	if a := rita.get("/grants/suggestions"); a.status != http.StatusForbidden || rita.get("/grants").find("to-suggestions").Length() != 0 {
		t.Errorf("a reviewer: %d", a.status)
	}
	if olga.get("/grants").find("to-suggestions").Length() != 1 {
		t.Error("the grants do not lead an operator to suggestions")
	}
	page := olga.get("/grants/suggestions")
	for _, want := range []string{"files: save_csv", "14 of 14 calls like this were approved. Only filename varied. 1 person approved them.", "1 call of this agent and tool was rejected or edited", `"/srv/reports"`, "From 15 decisions"} {
		if !strings.Contains(page.find("suggestions").Text(), want) {
			t.Errorf("the page lacks %q: %s", want, page.text())
		}
	}
	path := page.find("fill-in").AttrOr("href", "")
	form := olga.get(path)
	if !strings.HasPrefix(path, callPath(newest)+"/grant?suggestion=") || form.find("needs-second").Length() != 0 || !strings.Contains(form.find("preview").Text(), "14 recorded calls match.") {
		t.Fatalf("%s: %s", path, form.text())
	}
	olga.post(callPath(newest)+"/grant", form.fillForm("grant-form", nil)).wantRedirect("done=granted")
	if page := olga.get("/grants/suggestions"); page.find("suggestion").Length() != 0 || page.find("empty").Length() != 1 {
		t.Errorf("a grant covers the suggestion: %s", page.text())
	}
}

// A reviewer makes no grant from a call on their own behalf, nor from one of a tool of high risk. A secret is never shown.
func TestGrantsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita := w.signedIn("rita", identity.Reviewer)
	own := w.submit(w.personCalled("rita"), "files__save_csv", `{"filename":"x"}`)
	if a := rita.get(callPath(own)); a.find("grant-like").Length() != 0 {
		t.Error("the own call leads to a grant")
	}
	if a := rita.get(callPath(own) + "/grant"); a.status != http.StatusForbidden {
		t.Errorf("the form of the own call: %d", a.status)
	}
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"f"}`)
	files := w.skillNamed("files")
	_, err := w.agents.UpdateTool(t.Context(), audit.System(), files.ID, "save_csv", agent.ToolPatch{Risk: new(agent.RiskHigh)})
	check(t, err)
	if a := rita.get(callPath(id)); a.find("grant-like").Length() != 0 {
		t.Error("a tool of high risk leads to a grant")
	}
	if a := rita.get(callPath(id) + "/grant"); a.status != http.StatusConflict || !strings.Contains(a.text(), "take no grants") {
		t.Errorf("the form of a tool of high risk: %d: %s", a.status, a.text())
	}
	if a := rita.get("/grants/" + uuid.NewString()); a.status != http.StatusNotFound || !strings.Contains(a.text(), "no such grant") {
		t.Errorf("an unknown grant: %d: %s", a.status, a.text())
	}
}

// The page of a grant lists the calls that it let pass, the newest first.
func TestCallsOfAGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
	g, err := w.calls.Grant(t.Context(), w.personCalled("rita"), call.GrantRequest{CallID: id})
	check(t, err)
	page := "/grants/" + g.ID.String()
	if a := rita.get(page); !strings.Contains(a.words("grant-calls"), "None so far.") {
		t.Errorf("before a call passed: %s", a.words("grant-calls"))
	}
	var passed []uuid.UUID
	for range 21 {
		one := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
		w.waitForEnd(one)
		passed = append(passed, one)
	}
	first := rita.get(page)
	if n := first.find("passed").Length(); n != 20 || first.find("passed").First().Find("a").AttrOr("href", "") != callPath(passed[20]) {
		t.Errorf("%d calls, from %s", n, first.find("passed").First().Text())
	}
	second := rita.get(first.find("older").AttrOr("href", ""))
	if n := second.find("passed").Length(); n != 1 || second.find("passed").Find("a").AttrOr("href", "") != callPath(passed[0]) || second.find("older").Length() != 0 {
		t.Errorf("the last page has %d calls: %s", n, second.words("grant-calls"))
	}
}

// Under dual control, a reviewer proposes a wide grant, and an operator approves it.
func TestGrantUnderDualControl(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita, olga := w.signedIn("rita", identity.Reviewer), w.signedIn("olga", identity.Operator)
	w.control.On = true
	id := w.submit(w.personCalled("olga"), "files__save_csv", `{"filename":"a.csv"}`)
	path := callPath(id) + "/grant"
	form := rita.get(path).fillForm("grant-form", url.Values{"kind.0": {"anything"}})
	to := rita.post(path, form).wantRedirect(callPath(id) + "?done=grant-proposed")
	if a := rita.get(to); !strings.Contains(a.text(), "The grant waits for a second operator.") {
		t.Errorf("the page after the proposal: %s", a.text())
	}
	if a := rita.get("/grants"); a.find("grant-row").Length() != 0 {
		t.Error("the grant counts before the approval")
	}
	list := olga.get("/changes")
	change := list.find("change-row").Find("a").AttrOr("href", "")
	if !strings.Contains(list.text(), "Grant billing: files/save_csv") {
		t.Fatalf("the changes: %s", list.text())
	}
	if a := olga.get(change); !strings.Contains(a.text(), "anything") || a.doc.Find(`main a[href="`+callPath(id)+`"]`).Length() != 1 {
		t.Errorf("the change: %s", a.text())
	}
	if a := olga.post(change+"/approve", url.Values{}); a.status != http.StatusForbidden || !strings.Contains(a.text(), "Nothing was decided.") {
		t.Errorf("approved by the person for whom the calls are made: %d %s", a.status, a.text())
	}
	otto := w.signedIn("otto", identity.Operator)
	otto.post(change+"/approve", url.Values{}).wantRedirect(change)
	if a := rita.get("/grants"); a.find("grant-row").Length() != 2 || !strings.Contains(a.text(), "by rita") {
		t.Errorf("after the approval: %s", a.text())
	}

	// A short, narrow one counts at once.
	other := w.submit(uuid.Nil, "files__save_csv", `{"filename":"b.csv"}`)
	path = callPath(other) + "/grant"
	if a := rita.post(path, rita.get(path).fillForm("grant-form", url.Values{})); !strings.HasPrefix(a.header.Get("Location"), "/grants/") {
		t.Errorf("within the bound: %d %s", a.status, a.header.Get("Location"))
	}
	// Operators see the change that they propose.
	third := w.submit(uuid.Nil, "files__save_csv", `{"filename":"c.csv"}`)
	path = callPath(third) + "/grant"
	if a := olga.post(path, olga.get(path).fillForm("grant-form", url.Values{"time": {"24h0m0s"}})); !strings.HasPrefix(a.header.Get("Location"), "/changes/") {
		t.Errorf("proposed by an operator: %d %s", a.status, a.text())
	}
}

// With two keys on the page of a call, calls like it are allowed.
func TestGrantJourney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + callPath(id))
	p.WaitFor("buttons to work", armed)
	p.Press("l")
	p.Wait("grant-form")
	p.WaitText("preview", "1 recorded call matches.")
	p.WaitFor("the button to have the focus", `document.activeElement.dataset.testid === "send"`)
	p.Press("\r")
	p.WaitText("grant", "Active")
	if got := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`); w.waitForEnd(got).Status != call.Succeeded {
		t.Error("a call like it does not pass")
	}

	// Another kind is previewed while it is chosen.
	other := w.submit(uuid.Nil, "files__save_csv", `{"filename":"b.csv"}`)
	p.Go(w.server.URL + callPath(other) + "/grant")
	p.WaitFor("scripts to work", `document.querySelector("[data-testid=grant-form][data-htmx-powered]") !== null`)
	browsertest.Eval[bool](p, `(() => { const kind = document.querySelector("[name='kind.0']"); kind.value = "anything"; return kind.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	p.WaitText("preview", "2 recorded calls match.")
	p.Click("send")
	p.WaitText("grant", "Wide")
	p.Click("revoke")
	p.WaitText("grants", "files: save_csv")
}
