package e2e_test

import (
	"net/http"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// wantBar checks that the page fits a phone: large buttons at the bottom of the window, and no horizontal scrolling.
func (d *desk) wantBar() {
	d.t.Helper()
	d.WaitFor("a bar of large buttons in view", `(() => {
		const buttons = [...document.querySelectorAll("#call .actions .buttons > :is(button, a)")].map((b) => b.getBoundingClientRect());
		return buttons.length > 1 && buttons.every((b) => b.height >= 44 && b.width >= 48 && b.top > innerHeight / 2 && b.bottom <= innerHeight && b.right <= innerWidth);
	})()`)
	if browsertest.Eval[bool](d.Page, "document.documentElement.scrollWidth > document.documentElement.clientWidth") {
		d.t.Error("the page is wider than its window")
	}
}

// tapRow opens a call from the list, on its own page.
func (d *desk) tapRow(a holdpoint.Approval) {
	d.t.Helper()
	d.TapOn("#row-" + a.CallID + " a")
	d.awaitCall(a)
	if path := d.Path(); path != "/calls/"+a.CallID {
		d.t.Errorf("the call is at %s", path)
	}
	if d.Count("queue") != 0 {
		d.t.Error("the list is on the call's page")
	}
	d.wantBar()
}

// TestReviewOnAPhone uses the list and the page of a call, by touch only.
func TestReviewOnAPhone(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	good, bad, grave := w.parkCall("record", 1, "good"), w.parkCall("record", 2, "bad"), w.parkCall("remove", 3, "grave")
	ada := w.openReviewer(t, "ada", browsertest.Phone())
	ada.Wait("queue")
	ada.tapRow(good)
	ada.Tap("approve")
	ada.WaitText("outcome", "recorded 1")
	ada.TapOn(".crumbs a")
	ada.tapRow(bad)
	ada.Tap("reject")
	ada.WaitFor("the focus on the reason", `document.activeElement?.id === "reason"`)
	ada.Press("not like this")
	ada.Tap("reject")
	ada.WaitText("decision", "not like this")
	ada.TapOn(".crumbs a")
	ada.tapRow(grave)
	ada.Tap("approve")
	ada.awaitStep("confirm")
	ada.wantBar()
	w.wantSent(3, "")
	ada.Tap("approve")
	ada.WaitText("outcome", "recorded 3")
	ada.TapOn(".crumbs a")
	ada.Wait("empty")
	w.checkDecided(good.CallID, "approved")
	w.checkDecided(bad.CallID, "rejected")
	w.checkDecided(grave.CallID, "approved")
	w.wantSent(1, callArguments(1, "good"))
	w.wantSent(2, "")
	w.wantSent(3, callArguments(3, "grave"))
}

// openPlain follows the link of a row.
func (d *desk) openPlain(a holdpoint.Approval) {
	d.t.Helper()
	d.Go(d.address)
	d.ClickOn("#row-" + a.CallID + " a")
	d.Wait("decide")
}

// TestReviewWithoutJavaScript: the list refreshes itself, and each kind of decision works.
func TestReviewWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	ada := w.openReviewer(t, "ada", browsertest.Options{NoScript: true})
	ada.expectStatus(http.StatusUnprocessableEntity)
	ada.Wait("empty")
	good, told := w.beginCall("record", 1, "good")
	ada.WaitText("row", "good") // without a reload
	bad, edited, grave := w.parkCall("record", 2, "bad"), w.parkCall("record", 3, "wrong"), w.parkCall("remove", 4, "grave")
	ada.openPlain(good)
	ada.Type("reason", "well done")
	ada.Click("extend")
	ada.WaitFor("what was written", `document.querySelector("#reason").value === "well done"`)
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 1")
	wantTold(t, told, "recorded 1")

	ada.openPlain(bad)
	ada.Type("reason", "not like this")
	ada.Click("reject")
	ada.WaitText("decision", "not like this")

	ada.openPlain(edited)
	ada.Click("edit-open")
	ada.Wait("editor")
	ada.fillField(`[data-testid=edit-form] input[value=wrong]`, "right")
	ada.Click("edit-preview")
	ada.WaitText("diff", "right")
	ada.Click("approve")
	ada.WaitText("sent-edited", "right")
	ada.WaitText("outcome", "recorded 3")

	ada.openPlain(grave)
	ada.Type("reason", "if it must be")
	ada.Click("approve")
	ada.Wait("confirm")
	ada.Click("back")
	ada.WaitFor("what was written", `!document.querySelector("[data-testid=confirm]") && document.querySelector("#reason")?.value === "if it must be"`)
	w.wantSent(4, "")
	ada.Click("approve")
	ada.Wait("confirm")
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 4")
	w.checkDecided(good.CallID, "approved")
	w.checkDecided(bad.CallID, "rejected")
	w.checkDecided(edited.CallID, "approved")
	w.checkDecided(grave.CallID, "approved")
	w.wantSent(2, "")
	w.wantSent(3, callArguments(3, "right"))
	w.wantSent(4, callArguments(4, "grave"))
}
