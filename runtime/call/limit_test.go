package call_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// limit sets the limit of the reviewer.
func (w *world) limit(limit *identity.Limit) {
	w.t.Helper()
	w.db.Exec(`UPDATE people SET review_limit = $2 WHERE id = $1`, w.reviewer, limit)
}

func TestLimitOfReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	w.standingPeople()
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), files.ID, agent.SkillPatch{Team: new("finance")})
	check(t, err)
	n := 0
	for name, c := range map[string]struct {
		limit identity.Limit
		may   bool
	}{
		"its skill and team": {identity.Limit{Skills: []string{"fi*"}, Teams: []string{"finance"}, Agents: []string{"billing"}}, true},
		"another skill":      {identity.Limit{Skills: []string{"ledger"}}, false},
		"another team":       {identity.Limit{Teams: []string{"payments"}}, false},
		"another agent":      {identity.Limit{Agents: []string{"support"}}, false},
	} {
		n++
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n))
		waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
		check(t, err)
		w.limit(&c.limit)
		may := func(what string, err error) {
			t.Helper()
			outside, refused := errors.AsType[*identity.LimitError](err)
			if c.may != (err == nil) || !c.may && (!refused || outside.Limit.String() != c.limit.String()) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		may("check", w.calls.CheckDecider(t.Context(), &waiting.Call, w.reviewer))
		_, err = w.calls.Extend(t.Context(), ticket.ID, w.reviewer)
		may("extend", err)
		_, err = w.calls.Claim(t.Context(), ticket.ID, w.reviewer)
		may("claim", err)
		may("reject", w.decide(ticket.ID, false))
		if !c.may {
			w.limit(nil)
			check(t, w.decide(ticket.ID, false))
		}
		w.waitForEnd(ticket.ID)
	}
}

// TestLimitIsRecheckedBeforeSending: an approval does not count if the reviewer's limit was changed before the call is sent.
func TestLimitIsRecheckedBeforeSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	p := w.standingPeople()
	ticket := w.submit("files__write", `{"n":1}`)
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	ctx := audit.WithCredential(t.Context(), audit.Person(w.reviewer), audit.Credential{Kind: audit.BrowserSession, ID: p.session.String()})
	_, err = w.calls.Decide(ctx, call.Decision{CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer, Undo: true})
	check(t, err)
	w.limit(&identity.Limit{Skills: []string{"ledger"}})
	w.db.MoveClock("10 seconds")
	if c := w.waitForEnd(ticket.ID); c.Status != call.Denied || c.Code != call.CodeReviewerRemoved {
		t.Errorf("the call is %s, %s", c.Status, c.Code)
	}
	if n := len(w.source.Arguments()); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
}
