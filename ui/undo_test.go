package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// keepUndoOpen sets the clock back once a call is approved, so that the time to undo does not end on a slow machine.
func (w *world) keepUndoOpen(id uuid.UUID) {
	w.t.Helper()
	eventually.Holds(w.t, "the approval", func() bool { return w.getApproval(id).Status == approval.Approved })
	w.db.MoveClock("-1 hour")
}

// stopClock stops the page's own clock, so that only the server ends the time to undo. A slow machine would let it pass.
func stopClock(p *browsertest.Page) {
	browsertest.Eval[bool](p, `(Date.now = ((now) => () => now)(Date.now()), true)`)
}

// approveFirst opens the queue for a person who may undo, and approves its first call. The second one is on the screen then.
func (w *world) approveFirst(id uuid.UUID) *browsertest.Page {
	w.t.Helper()
	p := w.signInWith(browsertest.Options{})
	w.setQueue(true, true)
	ready(p)
	p.Press("j")
	p.WaitText("arguments", "first")
	p.WaitFor("keys to work", armed)
	stopClock(p)
	p.Press("a")
	w.keepUndoOpen(id)
	p.WaitText("arguments", "second") // the next call opens, and the time to undo still runs
	p.WaitText("undo-last", "save_csv")
	return p
}

func TestUndoInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.approveFirst(first)
	p.Press("u")
	p.WaitFor("the first call to wait again", fmt.Sprintf(`document.querySelector("#call").dataset.call === %q && document.querySelector("#call").dataset.phase === "parked"`, first))
	p.WaitFor("nothing to undo", `document.querySelector("#undo").hidden`)
	if a := w.getApproval(first); a.Status != approval.Pending || len(w.source.Arguments()) != 0 {
		t.Errorf("the approval is %s, and %d calls were sent", a.Status, len(w.source.Arguments()))
	}
	noComplaints(t, p)
}

// After an undo, the call is at its top, in the list and under the keys, although its row had left the list and the focus is in it.
func TestUndoAfterTheRowLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("one line\n", 18)
	first := w.submit(uuid.Nil, "files__save_csv", plainJSON(t, map[string]string{"filename": "first", "text": long}))
	w.submit(uuid.Nil, "files__save_csv", plainJSON(t, map[string]string{"filename": "second", "text": long}))
	p := w.signInWith(browsertest.Options{Width: 1280, Height: 500})
	w.setQueue(true, true)
	ready(p)
	p.Press("j")
	p.WaitText("arguments", "first")
	p.WaitFor("keys to work", armed)
	readAll(p)
	stopClock(p)
	p.Press("a")
	w.keepUndoOpen(first)
	p.WaitText("arguments", "second")
	p.WaitFor("the row to leave", fmt.Sprintf(`!document.querySelector("#rows > [data-call='%s']")`, first))
	p.WaitFor("keys to work", armed)
	readAll(p)
	p.Press("u")
	p.WaitFor("the row", fmt.Sprintf(`document.querySelector("#rows > [data-hp-selected]")?.dataset.call === %q && document.activeElement.closest("[data-hp-selected]") !== null`, first))
	p.WaitFor("keys to work", armed)
	if top := browsertest.Eval[float64](p, `document.querySelector("#pane").scrollTop`); top != 0 {
		t.Errorf("the call is scrolled to %v", top)
	}
	readAll(p)
	p.Press("a")
	p.WaitText("arguments", "second")
	noComplaints(t, p)
}

// An undo that the server could not do is offered again while the time runs.
func TestUndoIsOfferedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.approveFirst(first)
	browsertest.Eval[bool](p, `(() => {
		const send = window.fetch;
		window.fetch = (url, options) => {
			if (!String(url).endsWith("/undo")) return send(url, options);
			window.fetch = send;
			return Promise.resolve(new Response("", {status: 503, headers: {"Retry-After": "1"}}));
		};
		return true;
	})()`)
	p.Press("u")
	p.WaitFor("the warning, and another offer", `!document.querySelector("#unsent").hidden && !document.querySelector("#undo").hidden`)
	p.Press("u")
	p.WaitFor("the first call to wait again", fmt.Sprintf(`document.querySelector("#call").dataset.call === %q && document.querySelector("#call").dataset.phase === "parked"`, first))
	p.WaitFor("no warning", `document.querySelector("#unsent").hidden && document.querySelector("#undo").hidden`)
	if a := w.getApproval(first); a.Status != approval.Pending {
		t.Errorf("the approval is %s", a.Status)
	}
	noComplaints(t, p)
}

// A late response to an undo does not replace the call that the reviewer reads by then.
func TestLateUndoKeepsTheNextCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	third := w.submit(uuid.Nil, "files__save_csv", `{"filename":"third"}`)
	p := w.approveFirst(first)
	held, err := w.db.Pool().Begin(t.Context())
	check(t, err)
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = held.Exec(t.Context(), `SELECT FROM approvals WHERE call_id = $1 FOR UPDATE`, first)
	check(t, err)
	p.Press("uj")
	p.WaitText("arguments", "third")
	check(t, held.Rollback(t.Context()))
	p.WaitAnnounced("The approval was taken back.")
	p.WaitText("hint", "The approval was taken back.")
	p.WaitFor("the first call in the list", fmt.Sprintf(`document.querySelector("#rows > [data-call='%s']:not(.gone)")`, first))
	p.WaitFor("the third call to stay", fmt.Sprintf(`document.querySelector("#call").dataset.call === %[1]q &&
		document.querySelector("#rows > [data-hp-selected]").dataset.call === %[1]q`, third))
	noComplaints(t, p)
}

// Without the script, the page of the call has the button. Only the reviewer who approved may undo.
func TestUndoWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, other := w.signedIn("ana", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	v.post("/settings/queue", url.Values{"undo": {"1"}})
	w.approve(v, id)
	w.keepUndoOpen(id)
	if a := other.get(callPath(id)); a.find("undo").Length() != 0 {
		t.Error("another reviewer is offered to undo")
	}
	if a := other.post(callPath(id)+"/undo", nil); a.status != http.StatusForbidden || w.getApproval(id).Status != approval.Approved {
		t.Errorf("another reviewer: %d, %s", a.status, w.getApproval(id).Status)
	}
	if a := v.get(callPath(id)); a.find("undo").Length() != 1 || !strings.Contains(a.find("undo").Text(), "The call is sent when the time is up.") {
		t.Fatalf("no button: %s", a.text())
	}
	if a := v.post(callPath(id)+"/undo", nil); a.status != http.StatusSeeOther || w.getApproval(id).Status != approval.Pending {
		t.Errorf("undone: %d, %s", a.status, w.getApproval(id).Status)
	}
	if a := v.post(callPath(id)+"/undo", nil); a.status != http.StatusConflict {
		t.Errorf("undone twice: %d", a.status)
	}
}
