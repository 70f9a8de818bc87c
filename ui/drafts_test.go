package ui_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// drafts lists the drafts that the browser keeps.
const drafts = `Object.keys(sessionStorage).filter(key => /draft|edit/.test(key))`

// The editor's drafts may hold secrets. They are kept only while needed, and only for their author.
func TestDraftsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	approved := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	waiting := w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.signInWith(browsertest.Options{})
	w.setQueue(false, false)
	p.Go(w.server.URL + callPath(approved))
	p.WaitFor("keys work", armed)
	p.Type("reason", "why not")
	p.Press("\x1b") // leave the field
	p.Click("edit-open")
	p.Wait("edit-f0")
	p.Type("edit-f0", "-hunter2")
	p.WaitFor("keys work", armed)
	p.Click("edit-preview")
	p.WaitText("diff", "-hunter2")
	if kept := browsertest.Eval[[]string](p, drafts); len(kept) != 2 {
		t.Fatalf("before the decision %q are kept", kept)
	}
	p.WaitFor("keys work", armed)
	p.Click("approve")
	p.WaitText("sent-edited", "-hunter2")
	if kept := browsertest.Eval[[]string](p, drafts); len(kept) != 0 {
		t.Errorf("after the decision %q are kept", kept)
	}

	p.Go(w.server.URL + callPath(waiting))
	p.WaitFor("keys work", armed)
	p.Click("edit-open")
	p.Wait("edit-f0")
	p.Type("edit-f0", "-hunter2")
	browsertest.Eval[bool](p, `(sessionStorage.setItem("holdpoint-edit-somebody-else", "[]"), true)`)
	p.Go(w.server.URL + callPath(waiting))
	p.WaitFor("keys work", armed)
	if kept := browsertest.Eval[[]string](p, drafts); len(kept) != 1 {
		t.Errorf("of this person and another %q are kept", kept)
	}
	p.WaitFor("the first renewal, which signing out would cut off", `performance.getEntriesByType("resource").some((entry) => entry.name.includes("known="))`)
	p.Click("sign-out")
	p.Wait("sign-in")
	if kept := browsertest.Eval[[]string](p, drafts); len(kept) != 0 {
		t.Errorf("after signing out %q are kept", kept)
	}
	p.Go(w.server.URL + w.createLink("ben", identity.Reviewer))
	p.Click("sign-in-link")
	p.Wait("queue")
	p.Go(w.server.URL + callPath(waiting))
	p.WaitFor("keys work", armed)
	p.Click("edit-open")
	p.Wait("edit-f0")
	if value := browsertest.Eval[string](p, `document.querySelector("[data-testid=edit-f0]").value`); value != "second" {
		t.Errorf("the editor of the next person begins with %q", value)
	}
	noComplaints(t, p)
}
