package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

func TestOperatorCancelsACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga, olgaID := w.signedInAs("olga", identity.Operator)
	rita := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	if rita.get(callPath(id)).find("cancel").Length() != 0 {
		t.Error("a reviewer is offered to cancel")
	}
	if olga.get(callPath(id)).find("cancel").Length() != 1 {
		t.Fatal("an operator is not offered to cancel")
	}
	asked := olga.post(callPath(id)+"/cancel", nil)
	if asked.status != http.StatusOK || !strings.Contains(asked.find("cancelling").Text(), "files: save_csv") {
		t.Fatalf("the question: %d: %s", asked.status, asked.text())
	}
	if a := olga.post(callPath(id)+"/cancel", asked.form("confirm-cancel")); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if c := w.waitForEnd(id); c.Status != call.Cancelled {
		t.Errorf("the call is %s", c.Status)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: id})
	check(t, err)
	if last := events[0]; last.Action != "approval.cancelled" || last.Actor != audit.Person(olgaID) {
		t.Errorf("recorded %+v", last)
	}
	for _, form := range []url.Values{nil, asked.form("confirm-cancel")} {
		if a := olga.post(callPath(id)+"/cancel", form); a.status != http.StatusConflict || !strings.Contains(a.find("notice").Text(), "Not cancelled.") {
			t.Errorf("again, with %v: %d: %s", form, a.status, a.text())
		}
	}
	if olga.get(callPath(id)).find("cancel").Length() != 0 {
		t.Error("what is cancelled can be cancelled")
	}
}

// An approved call can be cancelled until a process claims it.
func TestOperatorCancelsAnApprovedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	// Without a job, no worker claims it.
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now(), approved_until = holdpoint_now() + interval '1 hour' WHERE call_id = $1`, id)
	w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, id)
	if olga.get(callPath(id)).find("cancel").Length() != 1 {
		t.Fatal("an operator is not offered to cancel")
	}
	asked := olga.post(callPath(id)+"/cancel", nil)
	if asked.status != http.StatusOK || !strings.Contains(asked.find("cancelling").Text(), "A reviewer approved this call.") {
		t.Fatalf("the question: %d: %s", asked.status, asked.text())
	}
	w.db.Exec(`UPDATE calls SET status = 'executing' WHERE id = $1`, id)
	if page := olga.get(callPath(id)); page.find("cancel").Length() != 0 {
		t.Error("a call that is being sent can be cancelled")
	}
	w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, id)
	if a := olga.post(callPath(id)+"/cancel", asked.form("confirm-cancel")); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if c := w.waitForEnd(id); c.Status != call.Cancelled {
		t.Errorf("the call is %s", c.Status)
	}
}

func TestOperatorCancelsWhatWaitsForAConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.registerGuarded(newAuthServer(t), agent.SkillSpec{})
	olga, olgaID := w.signedInAs("olga", identity.Operator)
	w.refuseRequest(skill, olgaID)
	id := w.submit(olgaID, "guarded__save_csv", `{"filename":"x"}`)
	if page := olga.get(callPath(id)); !strings.Contains(page.find("state").Text(), "Needs a connection") || page.find("cancel").Length() != 1 {
		t.Fatalf("not offered: %s", page.text())
	}
	if a := olga.post(callPath(id)+"/cancel", url.Values{"confirmed": {"yes"}}); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if c := w.waitForEnd(id); c.Status != call.Cancelled {
		t.Errorf("the call is %s", c.Status)
	}
}
