package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// TestEditAndApproveInTheBrowser: in the form, and as JSON. What the diff showed is sent, and the agent is told.
func TestEditAndApproveInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	form, one := w.begin("record", 1, "to production")
	text, two := w.begin("remove", 2, "everything")
	ada := w.reviewer(t, "ada", browsertest.Options{})
	ada.open(form)
	ada.Click("edit-open")
	ada.step("editor")
	ada.fill(`[data-testid=edit-form] input[value="to production"]`, "to staging")
	ada.Click("edit-preview")
	ada.step("diff")
	ada.WaitText("diff", "to production")
	ada.WaitText("diff", "to staging")
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 1")
	wantTold(t, one, `"edited":true`, "to staging", "recorded 1")
	w.wantSent(1, callArguments(1, "to staging"))
	w.decided(form.CallID, "approved")

	ada.open(text)
	ada.Click("edit-open")
	ada.step("editor")
	ada.Click("as-json")
	ada.Wait("edit-json")
	ada.fill("#edit-json", `{"n":2,"note":}`)
	ada.WaitFor("buttons to work", armed)
	ada.expectStatus(http.StatusUnprocessableEntity)
	ada.Click("edit-preview")
	ada.Wait("problems")
	ada.fill("#edit-json", `{"n":2,"note":"one line"}`)
	ada.Click("edit-preview")
	ada.step("diff")
	ada.Click("approve")
	ada.step("confirm")
	w.wantSent(2, "")
	ada.Click("approve")
	ada.WaitText("sent-edited", "one line")
	wantTold(t, two, `"edited":true`, "one line")
	w.wantSent(2, callArguments(2, "one line"))
	w.decided(text.CallID, "approved")
}

// TestSecondReviewerApprovesAnEditInTheBrowser: the editor proposes and waits, whatever they press. The other reviewer has the edit on the
// screen at once, and approves it; that is sent, and the agent is told.
func TestSecondReviewerApprovesAnEditInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\nedits: second\n")
	shown, done := w.begin("record", 1, "to production")
	ada, ben := w.reviewer(t, "ada", browsertest.Options{}), w.reviewer(t, "ben", browsertest.Phone())
	ada.open(shown)
	ben.Go(w.p.URL + "/calls/" + shown.CallID)
	ben.ready(shown)
	ada.Click("edit-open")
	ada.step("editor")
	ada.fill(`[data-testid=edit-form] input[value="to production"]`, "to staging")
	ada.Click("edit-preview")
	ada.step("diff")
	ada.WaitText("edited", "Another reviewer has to approve")
	ada.Click("approve")
	ada.step("own-edit")
	ada.WaitGone("approve")
	w.wantSent(1, "")

	ben.WaitText("proposed-edit", "to staging")
	ben.WaitText("proposed-edit", "What ada changed")
	ben.ready(shown)
	ben.Tap("approve")
	ben.WaitText("outcome", "recorded 1")
	wantTold(t, done, `"edited":true`, "to staging", "recorded 1")
	w.wantSent(1, callArguments(1, "to staging"))
	w.decided(shown.CallID, "approved")
	ada.WaitText("decision", "by ben")
	ada.WaitText("sent-edited", "What ada changed")
}

// TestArgumentsSwappedBeforeTheClick: the click is about what was on the screen. Nothing is decided, what waits now is shown,
// and since nobody submitted that, it is not sent even if it is approved.
func TestArgumentsSwappedBeforeTheClick(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	shown, done := w.begin("record", 1, "harmless")
	ada := w.reviewer(t, "ada", browsertest.Options{})
	ada.open(shown)
	ada.Type("reason", "as agreed")
	w.exec(`UPDATE calls SET arguments = $2 WHERE id = $1`, shown.CallID, []byte(callArguments(1, "harmful")))
	w.exec(`UPDATE approvals SET digest = sha256(digest) WHERE call_id = $1`, shown.CallID)
	ada.expectStatus(http.StatusConflict)
	ada.Click("approve")
	ada.WaitText("notice", "Nothing was decided: the call changed.")
	ada.WaitText("arguments", "harmful")
	if kept := ada.value("#reason"); kept != "as agreed" {
		t.Errorf("kept %q", kept)
	}
	if now := w.parked(1); now.Digest == shown.Digest {
		t.Error("the digest is the same")
	}
	ada.ready(shown)
	ada.Click("approve")
	ada.WaitText("outcome", "what was stored is no longer what was approved")
	wantTold(t, done, `"envelope_changed"`)
	w.wantSent(1, "")
}

// TestToolChangedBeforeTheClick: a change that Holdpoint knows of is told instead of a decision; one that nobody
// noticed yet is found before anything is sent.
func TestToolChangedBeforeTheClick(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	known, one := w.begin("record", 1, "before")
	ada := w.reviewer(t, "ada", browsertest.Options{})
	ada.open(known)
	ada.Type("reason", "as ever")
	w.describe("Records a number, and tells the world.")
	newSession(t, w.worker) // Holdpoint lists the tools anew
	ada.expectStatus(http.StatusConflict)
	ada.Click("approve")
	ada.WaitText("notice", "Nothing was decided: the tool changed.")
	ada.WaitText("definition", "As it was when the call was made")
	ada.WaitText("definition", "and tells the world")
	if kept := ada.value("#reason"); kept != "as ever" {
		t.Errorf("kept %q", kept)
	}
	ada.ready(known)
	ada.fill("#reason", "it changed")
	ada.Click("reject")
	ada.WaitText("decision", "it changed")
	wantTold(t, one, "it changed")
	w.decided(known.CallID, "rejected")

	unknown, two := w.begin("record", 2, "again")
	ada.open(unknown)
	ada.WaitText("definition", "and tells the world")
	w.describe("Records a number, and sells it.")
	ada.Click("approve")
	ada.WaitText("outcome", "the tool's definition changed since the call was made")
	wantTold(t, two, `"definition_changed"`)
	w.awaitEnd(unknown, "denied")
	for _, n := range []int{1, 2} {
		w.wantSent(n, "")
	}
}

// TestLostSession: whoever is signed out while they write comes back to the same call, with all that they wrote, whether
// the page hears of it or only the sending does.
func TestLostSession(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	for i, hears := range []bool{true, false} {
		t.Run(fmt.Sprintf("hears=%t", hears), func(t *testing.T) {
			t.Parallel()
			n, reason := i+1, fmt.Sprintf("a long reason of %d", i+1)
			door := w.door(t)
			shown := w.park("record", n, fmt.Sprintf("for session %d", n))
			d := w.desk(t, fmt.Sprintf("reviewer-%d", n), "reviewer", browsertest.Options{}, door.URL)
			d.expectStatus(http.StatusUnauthorized)
			d.expectOutage()
			d.signIn("/")
			d.open(shown)
			d.Type("reason", reason)
			if !hears {
				door.cut(streams)
				d.Wait("stale")
			}
			w.signOut(d.name)
			if !hears {
				d.PressCtrlEnter()
			}
			d.Wait("sign-in")
			w.parked(n) // nothing was decided
			door.mend()
			d.giveToken()
			d.ready(shown)
			d.WaitFor("what was written", fmt.Sprintf(`document.querySelector("#reason").value === %q`, reason))
			d.Click("reject")
			d.WaitText("decision", reason)
			w.decided(shown.CallID, "rejected")
			w.wantSent(n, "")
		})
	}
}
