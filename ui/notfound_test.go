package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	for path, title := range map[string]string{
		"/nowhere": "Not found", "/skills/x/y/z/": "No such skill", "/insights/more": "Not found",
		"/skills/" + uuid.NewString(): "No such skill", "/agents/" + uuid.NewString(): "No such agent",
		"/conversations/" + uuid.NewString(): "No such conversation", "/connections/" + uuid.NewString(): "No such connection",
		"/skills/" + w.skillNamed("files").ID.String() + "/tools?tool=nothing": "No such tool",
	} {
		a := olga.get(path)
		if a.status == http.StatusSeeOther {
			a = olga.get(a.header.Get("Location"))
		}
		if a.status != http.StatusNotFound || a.doc.Find("h1").Text() != title || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d, %q", path, a.status, a.text())
		}
	}
	if a := w.visitor().get("/nowhere"); a.status != http.StatusNotFound || a.find("message").Length() != 1 {
		t.Errorf("signed out: %d: %s", a.status, a.text())
	}
	check(t, w.agents.DeleteAgent(t.Context(), audit.System(), w.agent.ID))
	gone := olga.get("/agents/" + w.agent.ID.String())
	if gone.status != http.StatusNotFound || !strings.Contains(gone.text(), "The agent billing was deleted.") {
		t.Errorf("deleted: %d: %s", gone.status, gone.text())
	}
	if story := olga.get(gone.find("read-on").AttrOr("href", "")); story.status != http.StatusOK || !strings.Contains(story.text(), "agent.deleted") {
		t.Errorf("what happened to it: %d: %s", story.status, story.text())
	}
	if rita.get("/agents/"+w.agent.ID.String()).find("read-on").Length() != 0 {
		t.Error("a reviewer is led to the audit")
	}
}

// An agent's page shows how to connect a client, with a placeholder for the key.
func TestHowToConnectIsOnTheAgentsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/agents/" + w.agent.ID.String()
	if text := w.signedIn("olga", identity.Operator).get(path).find("command").Text(); !strings.Contains(text, "/agents/billing/mcp") || !strings.Contains(text, "Bearer $KEY") {
		t.Errorf("the command: %q", text)
	}
}
