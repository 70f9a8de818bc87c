package e2e_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// TestTwoReviewersAtOnce: each sees that the other has the call open. When both decide at the same moment, one decision
// counts and the other reviewer learns who made it.
func TestTwoReviewersAtOnce(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	door := w.openDoor(t)
	shown, done := w.beginCall("record", 1, "for both")
	ada := w.openDesk(t, "ada", "reviewer", browsertest.Options{}, door.URL)
	ben := w.openDesk(t, "ben", "reviewer", browsertest.Options{}, door.URL)
	for _, d := range []*desk{ada, ben} {
		d.expectStatus(http.StatusConflict)
		d.signIn("/")
		d.openCall(shown)
	}
	ada.WaitText("viewers", "ben")
	ben.WaitText("viewers", "ada")
	ben.Type("reason", "better not")
	ben.awaitCall(shown)
	door.releaseTogether(2)
	ada.Click("approve")
	ben.Click("reject")

	var decided holdpoint.Approval
	eventually.Succeeds(t, patience, "a decision", func() error {
		var err error
		if decided, err = operatorAPI(w.p).Approval(t.Context(), shown.ID); err == nil && decided.Decision == nil {
			err = errors.New("there is none")
		}
		return err
	})
	first, second, sent := ada, ben, callArguments(1, "for both")
	if decided.Status == "rejected" {
		first, second, sent = ben, ada, ""
	}
	second.WaitText("notice", "Your decision came too late.")
	second.WaitText("notice", first.name)
	first.Wait("decision")
	for _, d := range []*desk{first, second} {
		d.WaitText("decision", "by "+first.name)
		d.WaitGone("decide")
	}
	if text := first.Text("call"); strings.Contains(text, "too late") {
		t.Errorf("%s, who was first, reads %s", first.name, text)
	}
	wantTold(t, done, map[bool]string{true: "recorded 1", false: "better not"}[sent != ""])
	w.wantSent(1, sent)
	w.checkDecided(shown.CallID, decided.Status)
}

// TestStreamIsCutAndBack: a banner reports the lost stream. Decisions still work without it; without the server, the
// page says that the decision did not arrive. Afterwards the list catches up.
func TestStreamIsCutAndBack(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	door := w.openDoor(t)
	first := w.parkCall("record", 1, "the first")
	ada := w.openDesk(t, "ada", "reviewer", browsertest.Options{}, door.URL)
	ada.expectOutage()
	ada.signIn("/")
	ada.stayOnDecidedCalls()
	ada.openCall(first)
	ada.WaitFor("the stream", `document.documentElement.hasAttribute("data-live")`)

	door.cutOff(isStream)
	ada.Wait("stale")
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 1")
	second := w.parkCall("record", 2, "the second")
	door.restore()
	ada.WaitGone("stale")
	ada.openCall(second)

	door.cutOff(allRequests)
	ada.Wait("stale")
	ada.Click("approve")
	ada.Wait("unsent")
	third := w.parkCall("record", 3, "the third")
	w.wantSent(2, "")
	door.restore()
	ada.WaitGone("stale")
	ada.WaitText("queue", "the third")
	ada.awaitCall(second)
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 2")
	ada.WaitGone("unsent")
	ada.openCall(third)
	ada.Click("reject")
	ada.WaitText("decision", "Rejected by ada")
	w.checkDecided(second.CallID, "approved")
	w.checkDecided(third.CallID, "rejected")
	w.wantSent(2, callArguments(2, "the second"))
}

// TestServerRestartsUnderAReviewer: the page keeps its content and continues by itself.
func TestServerRestartsUnderAReviewer(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	shown := w.parkCall("record", 1, "the first")
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.expectOutage()
	ada.openCall(shown)
	ada.Type("reason", "half a thought")
	w.p.Kill()
	ada.Wait("stale")
	again := w.serverOptions()
	again.Port = w.p.Port
	w.p = program.Serve(t, again)
	ada.WaitGone("stale")
	w.parkCall("record", 2, "the second")
	ada.WaitText("queue", "the second")
	ada.awaitCall(shown)
	if kept := ada.fieldValue("#reason"); kept != "half a thought" {
		t.Errorf("kept %q", kept)
	}
	ada.Click("reject")
	ada.WaitText("decision", "half a thought")
	w.checkDecided(shown.CallID, "rejected")
}
