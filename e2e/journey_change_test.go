package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// TestEditAndApproveInTheBrowser covers the form and JSON. The arguments in the diff are sent, and the agent learns of
// the edit.
func TestEditAndApproveInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	form, one := w.beginCall("record", 1, "to production")
	text, two := w.beginCall("remove", 2, "everything")
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.openCall(form)
	ada.Click("edit-open")
	ada.awaitStep("editor")
	ada.fillField(`[data-testid=edit-form] input[value="to production"]`, "to staging")
	ada.Click("edit-preview")
	ada.awaitStep("diff")
	ada.WaitText("diff", "to production")
	ada.WaitText("diff", "to staging")
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 1")
	wantTold(t, one, `"edited":true`, "to staging", "recorded 1")
	w.wantSent(1, callArguments(1, "to staging"))
	w.checkDecided(form.CallID, "approved")

	ada.openCall(text)
	ada.Click("edit-open")
	ada.awaitStep("editor")
	ada.Click("as-json")
	ada.Wait("edit-json")
	ada.fillField("#edit-json", `{"n":2,"note":}`)
	ada.WaitFor("buttons to work", armed)
	ada.expectStatus(http.StatusUnprocessableEntity)
	ada.Click("edit-preview")
	ada.Wait("problems")
	ada.fillField("#edit-json", `{"n":2,"note":"one line"}`)
	ada.Click("edit-preview")
	ada.awaitStep("diff")
	ada.Click("approve")
	ada.awaitStep("confirm")
	w.wantSent(2, "")
	ada.Click("approve")
	ada.WaitText("sent-edited", "one line")
	wantTold(t, two, `"edited":true`, "one line")
	w.wantSent(2, callArguments(2, "one line"))
	w.checkDecided(text.CallID, "approved")
}

// TestSecondReviewerApprovesAnEditInTheBrowser: the editor can only propose. The other reviewer sees the edit at once
// and approves it. It is sent, and the agent learns of it.
func TestSecondReviewerApprovesAnEditInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\nedits: second\n")
	shown, done := w.beginCall("record", 1, "to production")
	ada, ben := w.openReviewer(t, "ada", browsertest.Options{}), w.openReviewer(t, "ben", browsertest.Phone())
	ada.openCall(shown)
	ben.Go(w.p.URL + "/calls/" + shown.CallID)
	ben.awaitCall(shown)
	ada.Click("edit-open")
	ada.awaitStep("editor")
	ada.fillField(`[data-testid=edit-form] input[value="to production"]`, "to staging")
	ada.Click("edit-preview")
	ada.awaitStep("diff")
	ada.WaitText("edited", "Another reviewer has to approve")
	ada.Click("approve")
	ada.awaitStep("own-edit")
	ada.WaitGone("approve")
	w.wantSent(1, "")

	ben.WaitText("proposed-edit", "to staging")
	ben.WaitText("proposed-edit", "Changes by ada")
	ben.awaitCall(shown)
	ben.readAll()
	ben.Tap("approve")
	ben.WaitText("outcome", "recorded 1")
	wantTold(t, done, `"edited":true`, "to staging", "recorded 1")
	w.wantSent(1, callArguments(1, "to staging"))
	w.checkDecided(shown.CallID, "approved")
	ada.WaitText("decision", "by ben")
	ada.WaitText("sent-edited", "Changes by ada")
}

// TestArgumentsSwappedBeforeTheClick: a click decides only the arguments on the screen. The swapped ones are shown
// instead, and are not sent even after an approval, because no client submitted them.
func TestArgumentsSwappedBeforeTheClick(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	shown, done := w.beginCall("record", 1, "harmless")
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.openCall(shown)
	ada.Type("reason", "as agreed")
	w.execSQL(`UPDATE calls SET arguments = $2 WHERE id = $1`, shown.CallID, []byte(callArguments(1, "harmful")))
	w.execSQL(`UPDATE approvals SET digest = sha256(digest) WHERE call_id = $1`, shown.CallID)
	ada.expectStatus(http.StatusConflict)
	ada.Click("approve")
	ada.WaitText("notice", "Nothing was decided: the call changed.")
	ada.WaitText("arguments", "harmful")
	if kept := ada.fieldValue("#reason"); kept != "as agreed" {
		t.Errorf("kept %q", kept)
	}
	if now := w.awaitParked(1); now.Digest == shown.Digest {
		t.Error("the digest is the same")
	}
	ada.awaitCall(shown)
	ada.Click("approve")
	ada.WaitText("outcome", "the stored call differs from the approved call")
	wantTold(t, done, `"envelope_changed"`)
	w.wantSent(1, "")
}

// TestToolChangedBeforeTheClick: a known change is shown instead of deciding. An unknown one is found before sending.
func TestToolChangedBeforeTheClick(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	known, one := w.beginCall("record", 1, "before")
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.openCall(known)
	ada.Type("reason", "as ever")
	w.describeTool("Records a number, and tells the world.")
	newSession(t, w.worker) // makes Holdpoint list the tools again
	ada.expectStatus(http.StatusConflict)
	ada.Click("approve")
	ada.WaitText("notice", "Nothing was decided: the tool changed.")
	ada.WaitText("definition", "Definition when the call was made")
	ada.WaitText("definition", "and tells the world")
	if kept := ada.fieldValue("#reason"); kept != "as ever" {
		t.Errorf("kept %q", kept)
	}
	ada.awaitCall(known)
	ada.fillField("#reason", "it changed")
	ada.Click("reject")
	ada.WaitText("decision", "it changed")
	wantTold(t, one, "it changed")
	w.checkDecided(known.CallID, "rejected")

	unknown, two := w.beginCall("record", 2, "again")
	ada.openCall(unknown)
	ada.WaitText("definition", "and tells the world")
	w.describeTool("Records a number, and sells it.")
	ada.Click("approve")
	ada.awaitStep("confirm")
	ada.Click("approve")
	ada.WaitText("outcome", "the tool’s definition changed since the call was made")
	wantTold(t, two, `"definition_changed"`)
	w.awaitEnd(unknown, "denied")
	for _, n := range []int{1, 2} {
		w.wantSent(n, "")
	}
}

// TestLostSession: a reviewer who is signed out while typing returns to the same call with the text intact, whether the
// page or only the submission notices it.
func TestLostSession(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	for i, hears := range []bool{true, false} {
		t.Run(fmt.Sprintf("hears=%t", hears), func(t *testing.T) {
			t.Parallel()
			n, reason := i+1, fmt.Sprintf("a long reason of %d", i+1)
			door := w.openDoor(t)
			shown := w.parkCall("record", n, fmt.Sprintf("for session %d", n))
			d := w.openDesk(t, fmt.Sprintf("reviewer-%d", n), "reviewer", browsertest.Options{}, door.URL)
			d.expectStatus(http.StatusUnauthorized)
			d.expectOutage()
			d.signIn("/")
			d.openCall(shown)
			d.Type("reason", reason)
			if !hears {
				door.cutOff(isStream)
				d.Wait("stale")
			}
			w.signOut(d.name)
			if !hears {
				d.PressCtrlEnter()
			}
			d.Wait("sign-in")
			w.awaitParked(n) // nothing was decided
			door.restore()
			d.giveToken()
			d.awaitCall(shown)
			d.WaitFor("what was written", fmt.Sprintf(`document.querySelector("#reason").value === %q`, reason))
			d.Click("reject")
			d.WaitText("decision", reason)
			w.checkDecided(shown.CallID, "rejected")
			w.wantSent(n, "")
		})
	}
}
