package ui_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// Both roles see which guards hold. Operators forget a guard, and the audit log names it.
func TestGuards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	if olga.get("/agents").find("guards").Length() != 1 || olga.get("/guards").find("empty").Length() != 1 {
		t.Error("no way to the guards, or there are some")
	}
	id := uuid.New()
	report := guarded.Report{
		WatchKey: strings.Repeat("k", 32), Host: "claude-code", Machine: "<b>laptop", Scope: "machine", Version: "1", Every: 15 * time.Second,
		Problems: []string{"the hook is <gone>"},
	}
	check(t, w.guards.Report(t.Context(), w.agent.ID, id, report))
	check(t, w.guards.NoteBypass(t.Context(), w.agent.ID, id, "Bash"))
	page := rita.get("/guards")
	for _, want := range []string{"claude-code on <b>laptop", "Does not hold", "the hook is <gone>", "1 call ran without a release: Bash", "billing"} {
		if !strings.Contains(page.find("guard").Text(), want) {
			t.Errorf("the page does not say %q: %s", want, page.find("guard").Text())
		}
	}
	if page.find("forget-guard-now").Length() != 0 {
		t.Error("a reviewer may forget a guard")
	}
	forget := olga.get("/guards").find("guard").Find("form").AttrOr("action", "")
	if a := olga.post(forget, nil); a.status != http.StatusSeeOther || a.header.Get("Location") != "/guards?done=guard-forgotten" {
		t.Errorf("%d %s", a.status, a.header.Get("Location"))
	}
	if a := olga.post(forget, nil); a.status != http.StatusNotFound {
		t.Errorf("forgotten twice: %d", a.status)
	}
	log := olga.get("/audit?action=guard").doc.Text()
	for _, want := range []string{"registered claude-code (<b>laptop)", "no longer holds", "A call ran without a release", "had claude-code (<b>laptop) forgotten"} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log does not say %q: %s", want, log)
		}
	}
}
