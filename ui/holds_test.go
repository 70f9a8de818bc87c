package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestLegalHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator)
	if v.get("/settings").find("to-holds").Length() != 1 || v.get("/settings/holds").find("empty").Length() != 1 {
		t.Error("no way to the holds, or there are some")
	}
	form := url.Values{"agent": {"nobody"}, "from": {"2026-01-01"}, "to": {"2026-03-31"}, "reason": {"case <4711>"}}
	bad := v.post("/settings/holds", form)
	if bad.status != http.StatusUnprocessableEntity || bad.find("wrong-agent").Length() != 1 || bad.find("hook-reason").AttrOr("value", "") != "case <4711>" {
		t.Errorf("%d: %s", bad.status, bad.find("new-hold").Text())
	}
	if bad := v.post("/settings/holds", url.Values{"reason": {"x"}, "from": {"2026-02-30"}}); bad.find("wrong-from").Length() != 1 {
		t.Errorf("%d: a day that does not exist", bad.status)
	}
	form.Set("agent", "billing")
	made := v.post("/settings/holds", form)
	if made.status != http.StatusSeeOther || made.header.Get("Location") != "/settings/holds?done=hold-set" {
		t.Fatalf("%d %s", made.status, made.header.Get("Location"))
	}
	page := v.get("/settings/holds")
	if text := page.find("hold").Text(); !strings.Contains(text, "billing") || !strings.Contains(text, "case <4711>") || !strings.Contains(text, "olga") || !strings.Contains(text, "In force") {
		t.Errorf("%s", text)
	}
	lift := page.find("hold").Find("form").AttrOr("action", "")
	if a := v.post(lift, nil); a.status != http.StatusUnprocessableEntity || a.find("lift-hold").Length() != 1 {
		t.Errorf("lifted without a reason: %d", a.status)
	}
	if a := v.post(lift, url.Values{"reason": {"settled"}}); a.status != http.StatusSeeOther {
		t.Errorf("%d", a.status)
	}
	for _, path := range []string{lift, "/settings/holds/" + uuid.NewString() + "/lift", "/settings/holds/x/lift"} {
		if a := v.post(path, url.Values{"reason": {"again"}}); a.status != http.StatusNotFound || a.find("notice").Length() != 1 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if text := v.get("/settings/holds").find("hold").Text(); !strings.Contains(text, "settled") || strings.Contains(text, "In force") {
		t.Errorf("%s", text)
	}
	log := v.get("/audit?action=legal_hold").doc.Text()
	if !strings.Contains(log, "set a legal hold") || !strings.Contains(log, "lifted a legal hold") {
		t.Error("the audit log does not say it")
	}
}

// The pages of a call whose content was deleted say so.
func TestCallWithoutContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`) // stores the definition
	id := uuid.Must(uuid.NewV7()).String()
	w.db.Exec(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, conversation_id, finished_at, gated, status, tool, exposed_name, pin, arguments, content_deleted_at)
		SELECT $1, (SELECT id FROM agents LIMIT 1), id, 1, gen_random_uuid(), holdpoint_now(), false, 'succeeded', 'write', 'files__write', (SELECT pin FROM tool_definitions LIMIT 1), '{}', holdpoint_now()
		FROM skills LIMIT 1`, id)
	v := w.signedIn("rita", identity.Reviewer)
	page := v.get("/calls/" + id)
	if text := page.doc.Text(); page.status != http.StatusOK || !strings.Contains(text, "Its arguments and its result were deleted.") ||
		!strings.Contains(text, "Arguments and result deleted") {
		t.Errorf("%d: %s", page.status, text)
	}
	if a := v.get("/calls"); a.status != http.StatusOK || !strings.Contains(a.doc.Text(), "write") {
		t.Errorf("history: %d", a.status)
	}
}
