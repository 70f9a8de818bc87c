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

// TestTwoReviewersAtOnce: each sees that the other looks. Both decide in the same moment: one decision counts, and the
// other reviewer is told whose it was.
func TestTwoReviewersAtOnce(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	door := w.door(t)
	shown, done := w.begin("record", 1, "for both")
	ada := w.desk(t, "ada", "reviewer", browsertest.Options{}, door.URL)
	ben := w.desk(t, "ben", "reviewer", browsertest.Options{}, door.URL)
	for _, d := range []*desk{ada, ben} {
		d.expectStatus(http.StatusConflict)
		d.signIn("/")
		d.open(shown)
	}
	ada.WaitText("viewers", "ben")
	ben.WaitText("viewers", "ada")
	ben.Type("reason", "better not")
	ben.ready(shown)
	door.together(2)
	ada.Click("approve")
	ben.Click("reject")

	var decided holdpoint.Approval
	eventually.Succeeds(t, patience, "a decision", func() error {
		var err error
		if decided, err = operator(w.p).Approval(t.Context(), shown.ID); err == nil && decided.Decision == nil {
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
	w.decided(shown.CallID, decided.Status)
}

// TestStreamIsCutAndBack: a banner says so. Without the stream one still decides; without the server one is told that the
// decision did not arrive. Afterwards the list catches up by itself.
func TestStreamIsCutAndBack(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	door := w.door(t)
	first := w.park("record", 1, "the first")
	ada := w.desk(t, "ada", "reviewer", browsertest.Options{}, door.URL)
	ada.expectOutage()
	ada.signIn("/")
	ada.open(first)
	ada.WaitFor("the stream", `document.documentElement.hasAttribute("data-live")`)

	door.cut(streams)
	ada.Wait("stale")
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 1")
	second := w.park("record", 2, "the second")
	door.mend()
	ada.WaitGone("stale")
	ada.open(second)

	door.cut(allRequests)
	ada.Wait("stale")
	ada.Click("approve")
	ada.Wait("unsent")
	third := w.park("record", 3, "the third")
	w.wantSent(2, "")
	door.mend()
	ada.WaitGone("stale")
	ada.WaitText("queue", "the third")
	ada.ready(second)
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 2")
	ada.WaitGone("unsent")
	ada.open(third)
	ada.Click("reject")
	ada.WaitText("decision", "Rejected by ada")
	w.decided(second.CallID, "approved")
	w.decided(third.CallID, "rejected")
	w.wantSent(2, callArguments(2, "the second"))
}

// TestServerRestartsUnderAReviewer: nothing that was on the screen is lost, and the page goes on by itself.
func TestServerRestartsUnderAReviewer(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	shown := w.park("record", 1, "the first")
	ada := w.reviewer(t, "ada", browsertest.Options{})
	ada.expectOutage()
	ada.open(shown)
	ada.Type("reason", "half a thought")
	w.p.Kill()
	ada.Wait("stale")
	again := w.options()
	again.Port = w.p.Port
	w.p = program.Serve(t, again)
	ada.WaitGone("stale")
	w.park("record", 2, "the second")
	ada.WaitText("queue", "the second")
	ada.ready(shown)
	if kept := ada.value("#reason"); kept != "half a thought" {
		t.Errorf("kept %q", kept)
	}
	ada.Click("reject")
	ada.WaitText("decision", "half a thought")
	w.decided(shown.CallID, "rejected")
}
