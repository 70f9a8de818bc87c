package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// TestDualControlInTheBrowser: one operator switches a skill to auto_approve and sees that it waits; another one sees the difference and
// approves it.
func TestDualControlInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.control.On = true
	skill := w.skillNamed("files")
	signIn := func(name string) *browsertest.Page {
		p := browsertest.New(t, browsertest.Options{})
		p.Go(w.server.URL + w.createLink(name, identity.Operator))
		p.Click("sign-in-link")
		p.Wait("queue")
		return p
	}
	olga, otto := signIn("olga"), signIn("otto")
	olga.Go(w.server.URL + "/skills/" + skill.ID.String() + "/edit")
	olga.Wait("skill-form")
	olga.ClickOn("#f-auto_approve")
	olga.Click("send")
	olga.WaitText("notice", "waits for a second operator")
	olga.WaitText("difference", "auto_approve")
	olga.WaitText("why", "Another operator has to approve it.")
	olga.Screenshot("proposed")
	if now := w.skillNamed("files"); now.AutoApprove {
		t.Error("the skill is auto-approved before the approval")
	}
	if olga.Count("approve-change") != 0 {
		t.Error("who proposed the change can approve it")
	}
	otto.Go(w.server.URL + "/changes")
	otto.WaitText("change-row", "Skill files")
	otto.ClickOn(`[data-testid="change-row"] a`)
	otto.WaitText("difference", "false")
	otto.Screenshot("to-approve")
	otto.Type("note", "as agreed")
	otto.Click("approve-change")
	otto.WaitText("change", "Approved")
	otto.Screenshot("approved")
	if now := w.skillNamed("files"); !now.AutoApprove {
		t.Error("the skill is not auto-approved after the approval")
	}
	noComplaints(t, olga)
	noComplaints(t, otto)
}

func TestChangesOnPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	if a := olga.get("/changes"); a.status != http.StatusOK || !strings.Contains(a.text(), "Dual control is off") || a.find("empty").Length() != 1 {
		t.Errorf("without dual control: %s", a.text())
	}
	w.setRule(rule.Spec{Name: "never", Skills: []string{"files"}, Effect: rule.Deny})
	w.control.On = true
	if a := olga.post("/rules/named/never/delete", url.Values{}); a.status != http.StatusConflict || !strings.Contains(a.text(), "Invite a second operator") {
		t.Errorf("without a second operator: %d %s", a.status, a.text())
	}
	otto := w.signedIn("otto", identity.Operator)
	a := olga.post("/rules/named/never/delete", url.Values{})
	page := a.header.Get("Location")
	if a.status != http.StatusSeeOther || !strings.HasPrefix(page, "/changes/") || w.rule("never") == nil {
		t.Fatalf("delete: %d, %s", a.status, page)
	}
	path, _, _ := strings.Cut(page, "?")
	if a := olga.post(path+"/approve", url.Values{}); a.status != http.StatusForbidden || !strings.Contains(a.text(), "Nothing was decided.") {
		t.Errorf("approved alone: %d %s", a.status, a.text())
	}
	if a := otto.get("/"); !strings.Contains(a.text(), "1 change waits for a second operator.") {
		t.Errorf("the other operator is not told: %s", a.text())
	}
	if a := otto.post(path+"/reject", url.Values{"note": {"keep it"}}); a.status != http.StatusSeeOther {
		t.Errorf("reject: %d %s", a.status, a.text())
	}
	if a := olga.get(path); !strings.Contains(a.text(), "Rejected") || !strings.Contains(a.text(), "keep it") {
		t.Errorf("after the decision: %s", a.text())
	}
	if a := otto.post(path+"/approve", url.Values{}); a.status != http.StatusConflict {
		t.Errorf("decided twice: %d %s", a.status, a.text())
	}
	// A role and an invitation.
	member := "/members/" + w.personCalled("rita").String()
	if a := olga.post(member+"/grant", url.Values{"role": {"operator"}, "limit-skills": {"led*"}}); !strings.HasPrefix(a.header.Get("Location"), "/changes/") {
		t.Errorf("a role: %d %s", a.status, a.text())
	}
	if a := olga.post("/members", url.Values{"person": {"nora"}, "role": {"reviewer"}}); a.find("waits").Length() != 1 {
		t.Errorf("an invitation: %d %s", a.status, a.text())
	}
	if a := rita.get("/changes"); a.status != http.StatusForbidden {
		t.Errorf("a reviewer: %d", a.status)
	}
}

// TestLimitedReviewer: a reviewer sees calls outside their limit, marked, and decides none of them.
func TestLimitedReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	rita := w.signedIn("rita", identity.Reviewer)
	if a := rita.get("/"); strings.Contains(a.text(), "Outside your limit") {
		t.Errorf("without a limit: %s", a.text())
	}
	olga := w.signedIn("olga", identity.Operator)
	member := "/members/" + w.personCalled("rita").String()
	if a := olga.post(member+"/grant", url.Values{"limit-skills": {"led*, mail"}, "limit-teams": {" finance "}}); a.status != http.StatusSeeOther {
		t.Fatalf("grant: %d %s", a.status, a.text())
	}
	if a := olga.get(member); a.find("limit-skills").AttrOr("value", "") != "led*, mail" || a.find("limit-teams").AttrOr("value", "") != "finance" {
		t.Errorf("the form: %s", a.text())
	}
	if a := rita.get("/"); !strings.Contains(a.text(), "Outside your limit") {
		t.Errorf("the queue: %s", a.text())
	}
	page := rita.get("/calls/" + id.String())
	if !strings.Contains(page.text(), "outside the limit of your role (teams: finance; skills: led*, mail)") || page.find("approve").Length() != 0 {
		t.Errorf("the call: %s", page.text())
	}
	waiting, err := w.calls.GetApproval(t.Context(), id)
	check(t, err)
	for _, verdict := range []string{"approve", "reject"} {
		a := rita.post("/calls/"+id.String()+"/"+verdict, url.Values{"digest": {waiting.Approval.Digest.String()}, "reason": {"x"}})
		if a.status != http.StatusForbidden || !strings.Contains(a.text(), "outside the limit") {
			t.Errorf("%s: %d %s", verdict, a.status, a.text())
		}
	}
	if next := rita.get("/next"); strings.Contains(next.header.Get("Location"), id.String()) {
		t.Error("the next call is one outside the limit")
	}
	_, err = w.people.ChangeMember(t.Context(), audit.System(), w.personCalled("rita"), identity.MemberChange{Limit: &identity.Limit{Skills: []string{"fil*"}}})
	check(t, err)
	if a := rita.get("/calls/" + id.String()); a.find("approve").Length() == 0 {
		t.Errorf("within the limit: %s", a.text())
	}
}
