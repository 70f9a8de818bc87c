package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// secondReviewers makes edits of a skill's calls need a second reviewer.
func (w *world) secondReviewers(skill string) {
	w.t.Helper()
	found, err := w.agents.SkillByName(w.t.Context(), skill)
	check(w.t, err)
	edits := agent.EditsSecond
	_, err = w.agents.UpdateSkill(w.t.Context(), audit.System(), found.ID, agent.SkillPatch{Edits: &edits})
	check(w.t, err)
}

func TestSecondReviewerApprovesAnEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers("files")
	ana, ben := w.signedIn("ana", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"prod.csv"}`)
	before, stale := w.getApproval(id), ben.get(callPath(id)).form("decide")

	preview := ana.preview(id, `{"filename":"test.csv"}`)
	if !strings.Contains(preview.find("approve").Text(), "Propose edit") || !strings.Contains(preview.find("edited").Text(), "Another reviewer has to approve") {
		t.Errorf("the preview does not say that a second reviewer decides: %s", preview.text())
	}
	if a := ana.post(callPath(id)+"/approve", preview.form("decide")); a.status != http.StatusSeeOther {
		t.Fatalf("propose: %d: %s", a.status, a.text())
	}
	if now := w.getApproval(id); now.Status != approval.Pending || !now.Deadline.Equal(before.Deadline) || now.Digest == before.Digest {
		t.Fatalf("the proposed edit left %+v", now)
	}
	own := ana.get(callPath(id))
	if own.find("approve").Length() != 0 || own.find("own-edit").Length() != 1 || !strings.Contains(own.find("proposed-edit").Text(), "Your edit waits") {
		t.Errorf("the editor's page: %s", own.text())
	}
	if a := ana.post(callPath(id)+"/approve", own.form("decide")); a.status != http.StatusForbidden || !strings.Contains(a.text(), "Another reviewer has to approve it") {
		t.Errorf("the editor approves: %d: %s", a.status, a.text())
	}
	if a := ben.post(callPath(id)+"/approve", stale); a.status != http.StatusConflict || !strings.Contains(a.text(), "the call changed") {
		t.Errorf("a page of before: %d: %s", a.status, a.text())
	}
	if list := ben.get("/"); !strings.Contains(list.find("row").Text(), "edit waits") {
		t.Errorf("the queue does not say that an edit waits: %s", list.find("row").Text())
	}

	page := ben.get(callPath(id))
	changed := strings.Join(strings.Fields(page.find("proposed-edit").Text()), " ")
	if !strings.Contains(changed, "Changes by ana") || !strings.Contains(changed, `+ "filename": "test.csv"`) ||
		!strings.Contains(page.find("approve").Text(), "Approve as edited") {
		t.Fatalf("the second reviewer's page: %s", page.text())
	}
	if a := ben.post(callPath(id)+"/approve", page.form("decide")); a.status != http.StatusSeeOther {
		t.Fatalf("approve the edit: %d: %s", a.status, a.text())
	}
	done := w.waitForEnd(id)
	if got := w.source.Arguments(); done.Status != call.Succeeded || !slices.Equal(got, []string{`{"filename":"test.csv"}`}) {
		t.Errorf("call %s, sent %q", done.Status, got)
	}
	if after := ben.get(callPath(id)); !strings.Contains(after.find("sent-edited").Text(), "ana") || !strings.Contains(after.find("decision").Text(), "ben") {
		t.Errorf("the page does not say who edited and who approved: %s", after.text())
	}
}

// The agent's original arguments can be approved instead of the edit, once they are shown.
func TestEditIsDiscardedForTheAgentsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers("files")
	ana := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"prod.csv"}`)
	ana.post(callPath(id)+"/approve", ana.preview(id, `{"filename":"test.csv"}`).form("decide"))
	form := ana.get(callPath(id)).form("decide")
	form.Set("as", "original")
	page := ana.post(callPath(id)+"/edit", form)
	if page.status != http.StatusOK || !strings.Contains(page.find("edited").Text(), "Original arguments") || w.getApproval(id).Status != approval.Pending {
		t.Fatalf("the agent's version: %d: %s", page.status, page.text())
	}
	if a := ana.post(callPath(id)+"/approve", page.form("decide")); a.status != http.StatusSeeOther {
		t.Fatalf("approve: %d: %s", a.status, a.text())
	}
	w.waitForEnd(id)
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"filename":"prod.csv"}`}) || w.getApproval(id).Original != (approval.Digest{}) {
		t.Errorf("sent %q", got)
	}
}

// An edit cannot be approved side by side with other calls.
func TestEditIsApprovedOnItsOwnPageOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers("files")
	ana, ben := w.signedIn("ana", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one.csv"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"two.csv"}`)
	ana.post(callPath(id)+"/approve", ana.preview(id, `{"filename":"test.csv"}`).form("decide"))
	form := ben.get(callPath(id) + "/like").form("like-form")
	form.Set("verdict."+id.String(), "approve")
	if a := ben.post(callPath(id)+"/like", form); !strings.Contains(a.text(), "on its own page only") && !strings.Contains(a.text(), "edited") || w.getApproval(id).Status != approval.Pending {
		t.Errorf("side by side: %d: %s", a.status, a.text())
	}
}

// The operator's choice in the form takes effect.
func TestSkillFormSaysWhoApprovesEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	found, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	path := "/skills/" + found.ID.String()
	page := v.get(path + "/edit")
	if got := page.fillForm("skill-form", nil).Get("edits"); got != agent.EditsByRisk {
		t.Fatalf("the form has %q", got)
	}
	if a := v.post(path+"/edit", page.fillForm("skill-form", url.Values{"edits": {agent.EditsSecond}})); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if changed, _, err := w.agents.Skill(t.Context(), found.ID); err != nil || changed.Edits != agent.EditsSecond {
		t.Errorf("the skill has %v: %v", changed, err)
	}
	if page := v.get(path); !strings.Contains(page.text(), "a second reviewer approves edited calls") {
		t.Errorf("the skill's page does not say it: %s", page.text())
	}
}
