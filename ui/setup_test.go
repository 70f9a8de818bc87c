package ui_test

import (
	"net/http"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// The empty queue shows operators the steps of setting up, until all are done.
func TestSetupOnTheEmptyQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	rita := w.signedIn("rita", identity.Reviewer)
	w.db.Exec(`UPDATE agent_keys SET revoked_at = holdpoint_now()`)
	w.db.Exec(`DELETE FROM assignments`)
	setup := olga.get("/").find("setup")
	if got := cells(setup.Find("li")); got != "Register a skill done | Assign the skill to an agent | Create an agent key | Add a second reviewer" {
		t.Errorf("steps: %s", got)
	}
	setup.Find("li a").Each(func(_ int, link *goquery.Selection) {
		if page := olga.get(link.AttrOr("href", "")); page.status != http.StatusOK {
			t.Errorf("%s: %d", link.Text(), page.status)
		}
	})
	if rita.get("/").find("setup").Length() != 0 || olga.get("/?agent="+w.agent.ID.String()).find("setup").Length() != 0 {
		t.Error("only operators see the steps, without a filter")
	}

	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.Assign(t.Context(), audit.System(), w.agent.ID, agent.AssignmentSpec{Skill: skill.Name}, nil)
	check(t, err)
	_, _, err = w.agents.CreateKey(t.Context(), audit.System(), w.agent.ID)
	check(t, err)
	w.signedIn("ana", identity.Reviewer)
	if got := olga.get("/").find("setup"); got.Length() != 0 {
		t.Errorf("left: %s", got.Text())
	}
}
