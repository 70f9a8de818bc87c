package ui_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// A reviewer gets no hint about missing keys, which only operators can see.
func TestKeysAreForOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.agents.CreateKey(t.Context(), audit.System(), w.agent.ID)
	check(t, err)
	path := "/agents/" + w.agent.ID.String()
	if text := w.signedIn("rita", identity.Reviewer).get(path).find("keys-part").Text(); strings.Contains(text, "No keys") || !strings.Contains(text, "operators") {
		t.Errorf("a reviewer is told %q", text)
	}
	olga := w.signedIn("olga", identity.Operator)
	if rows := olga.get(path).find("keys-part").Find(`[data-testid="key"]`).Length(); rows != 1 {
		t.Errorf("an operator sees %d keys", rows)
	}
	if row := olga.get("/audit?action=agent_key.created").doc.Find(`a[href="` + path + `"]`); row.Length() != 1 {
		t.Errorf("the event of the key has %d links to its agent", row.Length())
	}
}

// No space precedes a colon, with or without a time. Badges have no empty notes, and screen readers read them.
func TestWordsOfFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.skillNamed("files")
	w.db.Exec(`UPDATE skills SET listed_at = now(), list_error_kind = 'transport', list_error = 'nobody answers' WHERE id = $1`, skill.ID)
	page := w.signedIn("olga", identity.Operator).get("/skills/" + skill.ID.String())
	text := strings.Join(strings.Fields(page.find("health-error").Text()), " ")
	if !strings.Contains(text, "failed just now: nobody answers") {
		t.Errorf("the failure: %q", text)
	}
	if page.doc.Find(`.badge[title=""]`).Length() != 0 {
		t.Error("a badge has an empty title")
	}
}

// A skill with an authorization header needs no connection.
func TestWordsOfConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.agents.UpdateSkill(t.Context(), audit.System(), w.skillNamed("files").ID, agent.SkillPatch{Headers: map[string]*string{"Authorization": new("Bearer x")}})
	check(t, err)
	page := w.signedIn("olga", identity.Operator).get("/skills/" + w.skillNamed("files").ID.String())
	if !strings.Contains(page.text(), "With its settings, this skill needs no connection.") {
		t.Errorf("the page: %s", page.text())
	}
}
