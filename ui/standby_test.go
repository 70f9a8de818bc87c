package ui_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// TestDecidingReadsNoHistory: no page on the way to a decision, and no part of the decision and of the call, reads with the reader of
// history, which may be a standby. Here each of its reads fails.
func TestDecidingReadsNoHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer, identity.Operator)
	broken, err := pgxpool.New(t.Context(), w.db.URL())
	check(t, err)
	broken.Close()
	w.calls.Reader = postgres.NewReader(broken)

	yes := w.submit(uuid.Nil, "files__save_csv", `{"filename":"yes"}`)
	no := w.submit(uuid.Nil, "files__save_csv", `{"filename":"no"}`)
	waiting, err := w.calls.Get(t.Context(), call.Viewer{}, yes)
	check(t, err)
	show := func() {
		t.Helper()
		paths := []string{
			"/", "/conversations", "/conversations/" + waiting.ConversationID.String(), "/agents/" + w.agent.ID.String(), "/search?q=save",
			"/skills", "/settings", callPath(yes), callPath(no), callPath(no) + "/like",
		}
		for _, path := range paths {
			if a := v.get(path); a.status != http.StatusOK && a.status != http.StatusNotFound {
				t.Errorf("%s: %d: %s", path, a.status, a.text())
			}
		}
	}
	show()
	decide := func(id uuid.UUID, verdict, reason string) {
		t.Helper()
		form := v.get(callPath(id)).form("decide")
		form.Set("reason", reason)
		if a := v.post(callPath(id)+"/"+verdict, form); a.status != http.StatusSeeOther {
			t.Errorf("%s: %d: %s", verdict, a.status, a.text())
		}
	}
	decide(yes, "approve", "")
	if c := w.waitForEnd(yes); c.Status != call.Succeeded {
		t.Errorf("the approved call is %s", c.Status)
	}
	decide(no, "reject", "no")
	show()

	for _, path := range []string{"/calls", "/audit", "/calls/export?" + url.Values{"format": {"csv"}}.Encode(), "/audit/export"} {
		if a := v.get(path); a.status != http.StatusInternalServerError {
			t.Errorf("%s: %d: it is read elsewhere", path, a.status)
		}
	}
}
