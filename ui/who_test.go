package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// A call's page names people by ID, issuer and subject, flags look-alike names, and names the credential of the
// decision.
func TestPageOfACallSaysWhoPeopleAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita, ritaID := w.signedInAs("rita", identity.Reviewer)
	olga := w.signedIn("olga", identity.Operator)
	vera := uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'https://login.example.com', 's-4711', 'rıta')`, vera)
	id := w.submit(vera, "files__save_csv", `{"filename":"x"}`)
	principal := rita.get(callPath(id)).find("identities").Text()
	for _, want := range []string{vera.String(), "s-4711", "https://login.example.com", "Name looks like another’s"} {
		if !strings.Contains(principal, want) {
			t.Errorf("the principal's line lacks %q: %s", want, principal)
		}
	}
	if a := rita.post(callPath(id)+"/approve", rita.get(callPath(id)).form("decide")); a.status != http.StatusSeeOther {
		t.Fatalf("approve: %d", a.status)
	}
	w.waitForEnd(id)
	w.db.Exec(`UPDATE approvals SET decided_address = '192.0.2.7' WHERE call_id = $1`, id)
	w.db.Exec(`UPDATE audit_events SET address = '192.0.2.7' WHERE subject_id = $1`, id)
	decision := olga.get(callPath(id)).find("decision").Text()
	for _, want := range []string{"Approved", ritaID.String(), "rita at holdpoint", "with browser session ", "from 192.0.2.7", "Name looks like another’s"} {
		if !strings.Contains(strings.Join(strings.Fields(decision), " "), want) {
			t.Errorf("the decision's line lacks %q: %s", want, decision)
		}
	}
	row := olga.get("/audit?action=approval.approved").find("via").Text()
	if !strings.Contains(row, "with browser session ") || !strings.Contains(row, "from 192.0.2.7") {
		t.Errorf("the audit: %q", row)
	}
}

// A person who is known only through the call's principal learns why they cannot decide, and gets no buttons.
func TestInvitedPeopleAreToldWhyTheyDoNotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, olgaID := w.signedInAs("olga", identity.Operator)
	alice, aliceID := w.signedInAs("alice", identity.Reviewer)
	id := w.submit(olgaID, "files__save_csv", `{"filename":"x"}`)
	form := alice.get(callPath(id)).form("decide")
	w.db.Exec(`UPDATE people SET invited_by = $2 WHERE id = $1`, aliceID, olgaID)
	page := alice.get(callPath(id))
	if page.find("decide").Length() != 0 || !strings.Contains(page.find("no-actions").Text(), "Your identity is not verified") {
		t.Errorf("offered: %s", page.find("no-actions").Text())
	}
	if a := alice.post(callPath(id)+"/approve", form); a.status != http.StatusForbidden {
		t.Errorf("approve: %d", a.status)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: id, Action: "approval"})
	check(t, err)
	if len(events) != 0 {
		t.Errorf("decided: %+v", events)
	}
	// The same holds for an edit by their inviter.
	w.db.Exec(`UPDATE approvals SET principal_id = NULL WHERE call_id = $1`, id)
	w.db.Exec(`UPDATE calls SET principal_id = NULL WHERE id = $1`, id)
	w.db.Exec(`UPDATE approvals SET edited_by = $2, edited_at = holdpoint_now() WHERE call_id = $1`, id, olgaID)
	w.db.Exec(`UPDATE calls SET submitted = arguments WHERE id = $1`, id)
	page = alice.get(callPath(id))
	if !strings.Contains(page.find("own-edit").Text(), "It is not verified that you and the editor are two people") || page.find("approve").Length() != 0 {
		t.Errorf("the edit: %q", page.find("own-edit").Text())
	}
	if who := page.find("proposed-edit").Find("[data-testid=identity]").Text(); !strings.Contains(who, olgaID.String()) {
		t.Errorf("the editor: %q", who)
	}
	if a := alice.post(callPath(id)+"/approve", url.Values{"digest": {page.find("decide").Find("[name=digest]").AttrOr("value", "")}}); a.status == http.StatusSeeOther {
		t.Error("the edit was approved")
	}
}
