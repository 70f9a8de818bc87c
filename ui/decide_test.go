package ui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

func (w *world) getApproval(id uuid.UUID) approval.Approval {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	return waiting.Approval
}

func callPath(id uuid.UUID) string { return "/calls/" + id.String() }

func TestApproveAndReject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	yes := w.submit(uuid.Nil, "files__save_csv", `{"filename":"yes"}`)
	no := w.submit(uuid.Nil, "files__save_csv", `{"filename":"no"}`)

	queue := v.get("/")
	if queue.find("row").Length() != 2 || queue.doc.Find("title").Text() != "(2) Queue · Holdpoint" {
		t.Errorf("%d rows, title %q", queue.find("row").Length(), queue.doc.Find("title").Text())
	}
	form := v.get(callPath(yes)).form("decide")
	form.Set("reason", "as agreed")
	if a := v.post(callPath(yes)+"/approve", form); a.status != http.StatusSeeOther || a.header.Get("Location") != callPath(yes) {
		t.Fatalf("approve: %d to %q: %s", a.status, a.header.Get("Location"), a.text())
	}
	if c := w.waitForEnd(yes); c.Status != call.Succeeded {
		t.Errorf("the approved call is %s", c.Status)
	}
	form = v.get(callPath(no)).form("decide")
	form.Set("reason", " wrong\r\nfolder ")
	if a := v.post(callPath(no)+"/reject", form); a.status != http.StatusSeeOther {
		t.Fatalf("reject: %d: %s", a.status, a.text())
	}
	if a := w.getApproval(no); a.Status != approval.Rejected || a.Note != "wrong\nfolder" {
		t.Errorf("the rejected approval is %s, %q", a.Status, a.Note)
	}
	page := v.get(callPath(yes))
	for _, want := range []string{" called files: save_csv", "Approved by ana", "as agreed", "Saved 2 rows"} {
		if !strings.Contains(page.text(), want) {
			t.Errorf("the page does not say %q: %s", want, page.text())
		}
	}
	if page.find("decide").Length() != 0 {
		t.Error("a decided call can be decided")
	}
	if empty := v.get("/"); empty.find("empty").Length() != 1 || !strings.Contains(empty.text(), "Last decision: files: save_csv") {
		t.Errorf("the empty queue says %s", empty.text())
	}
}

func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	v := w.signedIn("ana", identity.Reviewer)
	for _, action := range []string{"/approve", "/reject"} {
		form := v.get(callPath(id)).form("decide")
		form.Set("reason", "not\x00 to\xffday")
		a := v.post(callPath(id)+action, form)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "cannot be stored") {
			t.Errorf("%s: %d %s", action, a.status, a.text())
		}
		if kept := a.form("decide").Get("reason"); kept != "not today" {
			t.Errorf("%s: kept %q", action, kept)
		}
	}
	if a := w.getApproval(id); a.Status != approval.Pending {
		t.Errorf("the approval is %s", a.Status)
	}
}

func TestRejectComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	page := w.signedIn("ana", identity.Reviewer).get(callPath(id))
	form := page.find("decide")
	if action := form.AttrOr("action", ""); action != callPath(id)+"/reject" {
		t.Errorf("without a button the form goes to %s", action)
	}
	if first := form.Find("button").First().AttrOr("data-testid", ""); first != "reject" {
		t.Errorf("the first button is %s", first)
	}
}

func TestLateDecisionIsToldWhoWasFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana, bob := w.signedIn("ana", identity.Reviewer), w.signedIn("bob", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	anaForm, bobForm := ana.get(callPath(id)).form("decide"), bob.get(callPath(id)).form("decide")
	ana.post(callPath(id)+"/reject", anaForm)
	bobForm.Set("reason", "looks good to me")
	late := bob.post(callPath(id)+"/approve", bobForm)
	if late.status != http.StatusConflict {
		t.Errorf("status %d, want 409", late.status)
	}
	if notice := late.find("notice").First().Text(); !strings.Contains(notice, "too late") || !strings.Contains(notice, "Rejected by ana at ") {
		t.Errorf("notice %q", notice)
	}
	if draft := late.find("draft").Text(); draft != "looks good to me" {
		t.Errorf("kept %q", draft)
	}
	if len(w.source.Arguments()) != 0 {
		t.Error("a rejected call was sent")
	}
}

func TestExpiredCallCannotBeApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	form := v.get(callPath(id)).form("decide")
	form.Set("reason", "a long thought")
	w.db.Exec(`UPDATE clock_offset SET value = interval '1 hour'`)
	late := v.post(callPath(id)+"/approve", form)
	if late.status != http.StatusConflict || !strings.Contains(late.find("notice").Text(), "Expired at") {
		t.Errorf("%d %s", late.status, late.find("notice").Text())
	}
	if late.find("draft").Text() != "a long thought" || late.find("decide").Length() != 0 {
		t.Errorf("draft %q, %d forms", late.find("draft").Text(), late.find("decide").Length())
	}
}

func TestChangedCallIsShownAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	form := v.get(callPath(id)).form("decide")
	digest := form.Get("digest")
	for _, other := range []string{strings.Repeat("0", 64), "", "what?", strings.ToUpper(digest) + "A"} {
		form.Set("digest", other)
		form.Set("reason", "fine")
		a := v.post(callPath(id)+"/approve", form)
		if a.status != http.StatusConflict || !strings.Contains(a.find("notice").Text(), "Nothing was decided: the call changed.") {
			t.Errorf("digest %q: %d %s", other, a.status, a.find("notice").Text())
		}
		if again := a.form("decide"); again.Get("digest") != digest || again.Get("reason") != "fine" {
			t.Errorf("digest %q: the new form has %v", other, again)
		}
	}
	if a := w.getApproval(id); a.Status != approval.Pending {
		t.Errorf("the approval is %s", a.Status)
	}
}

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator, ana := w.signedIn("olga", identity.Operator), w.signedIn("ana", identity.Reviewer)
	people, _, err := w.people.Members(t.Context(), identity.MemberFilter{})
	check(t, err)
	var anaID uuid.UUID
	for _, p := range people {
		if p.Name == "ana" {
			anaID = p.ID
		}
	}
	id := w.submit(anaID, "files__save_csv", `{"filename":"x"}`)
	digest := w.getApproval(id).Digest.String()
	for name, v := range map[string]*visitor{"an operator": operator, "the principal": ana, "nobody": w.visitor()} {
		page := v.get(callPath(id))
		if page.find("decide").Length() != 0 {
			t.Errorf("%s is offered to decide", name)
		}
		if name != "nobody" && page.find("no-actions").Length() != 1 {
			t.Errorf("%s is not told why: %s", name, page.text())
		}
		for _, action := range []string{"/approve", "/reject"} {
			a := v.post(callPath(id)+action, url.Values{"digest": {digest}})
			if name == "nobody" {
				if a.status != http.StatusSeeOther || a.header.Get("Location") != "/sign-in?next="+url.QueryEscape(callPath(id)) {
					t.Errorf("%s: %s: %d to %s", name, action, a.status, a.header.Get("Location"))
				}
			} else if a.status != http.StatusForbidden {
				t.Errorf("%s: %s: %d, want 403", name, action, a.status)
			}
		}
	}
	if a := w.getApproval(id); a.Status != approval.Pending {
		t.Errorf("the approval is %s", a.Status)
	}
}

func TestApproveTakesSeeingEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x","note":"ok`+strings.Repeat(`\n`, 412)+`rm -rf /"}`)
	page := v.get(callPath(id))
	if page.find("approve").Length() != 0 || page.find("show-first").Length() != 1 || !strings.Contains(page.text(), "lines") {
		t.Errorf("approving is offered for folded arguments: %s", page.text())
	}
	form := page.form("decide")
	form.Set("reason", "fine")
	refused := v.post(callPath(id)+"/approve", form)
	if refused.status != http.StatusUnprocessableEntity || refused.find("form-error").Length() != 1 {
		t.Errorf("%d %s", refused.status, refused.text())
	}
	if refused.form("decide").Get("reason") != "fine" {
		t.Error("the reason was lost")
	}
	for _, format := range []string{"?full=1", "?view=json&full=1", "?view=raw&full=1"} {
		whole := v.get(callPath(id) + format)
		if whole.find("cut").Length() != 0 || whole.find("approve").Length() != 1 || !strings.Contains(whole.text(), "rm -rf /") {
			t.Errorf("%s: not all is shown, or approving is not offered", format)
		}
	}
	whole := v.get(callPath(id) + "?full=1")
	if a := v.post(callPath(id)+"/approve", whole.form("decide")); a.status != http.StatusSeeOther {
		t.Errorf("approve: %d %s", a.status, a.text())
	}
}

func TestDestructiveTakesASecondStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/customers.db"}`)
	form := v.get(callPath(id)).form("decide")
	form.Set("reason", "as agreed")
	if a := v.post(callPath(id)+"/approve", form); a.status != http.StatusUnprocessableEntity || a.find("confirm").Length() != 1 {
		t.Errorf("approving at once: %d %s", a.status, a.text())
	}
	step := v.post(callPath(id)+"/confirm", form)
	text := step.find("confirm").Text()
	if step.status != http.StatusOK || !strings.Contains(text, "files: delete_file") || !strings.Contains(text, "/srv/shared/customers.db") {
		t.Errorf("%d %s", step.status, text)
	}
	if a := w.getApproval(id); a.Status != approval.Pending {
		t.Fatalf("before the second step the approval is %s", a.Status)
	}
	if a := v.post(callPath(id)+"/approve", step.form("confirm")); a.status != http.StatusSeeOther {
		t.Errorf("approve: %d %s", a.status, a.text())
	}
	if a := w.getApproval(id); a.Status != approval.Approved || a.Note != "as agreed" {
		t.Errorf("the approval is %s, %q", a.Status, a.Note)
	}
}

// The second step repeats the arguments with a red warning and the unusual ones, also if others say more about the effect.
func TestSecondStepRepeatsWhatIsOdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	usual := `{"filename":"f%d","to":"a","amount":5,"subject":"s","limit":1,"note":"n","homepage":"https://example.com/"}`
	w.sendApproved("files__save_csv", fmt.Sprintf(usual, 1), fmt.Sprintf(usual, 2), fmt.Sprintf(usual, 3))
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"f4","to":"a","amount":5,"subject":"s","limit":4711,"note":"n","homepage":"https://example.com@evil.example/"}`)
	step := v.post(callPath(id)+"/confirm", v.get(callPath(id)).form("decide"))
	said := step.find("confirm").Text()
	if at := strings.Index(said, "evil.example"); at < 0 || !strings.Contains(said[at:], "4711") {
		t.Errorf("the second step lacks a warning or an unusual value, or has them in another order: %s", said)
	}
}

func TestHighRiskTakesASecondStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(agent.SkillSpec{Name: "files", Tools: map[string]agent.ToolSettings{"save_csv": {Risk: "high"}}})
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	page := w.signedIn("ana", identity.Reviewer).get(callPath(id))
	if step := page.find("call").AttrOr("data-step", ""); step != "step" {
		t.Errorf("step %q: %s", step, page.text())
	}
	if !strings.Contains(page.find("notice").Text(), "High risk.") || !strings.Contains(page.find("state").Text(), "High risk") {
		t.Errorf("the page does not warn: %s", page.text())
	}
}

func TestLongReasonIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	form := v.get(callPath(id)).form("decide")
	form.Set("reason", strings.Repeat("long ", 2000))
	a := v.post(callPath(id)+"/reject", form)
	if a.status != http.StatusUnprocessableEntity || len(a.form("decide").Get("reason")) < 9000 {
		t.Errorf("%d %s", a.status, a.find("form-error").Text())
	}
}
