package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// secondReviewers sets how edits of skill files are approved.
func (w *world) secondReviewers(edits string, tools map[string]agent.ToolSettings) {
	w.t.Helper()
	found, err := w.agents.SkillByName(w.t.Context(), "files")
	check(w.t, err)
	_, err = w.agents.UpdateSkill(w.t.Context(), audit.System(), found.ID, agent.SkillPatch{Edits: &edits, Tools: &tools})
	check(w.t, err)
}

// decideAs approves the current version of a call, with other arguments unless they are empty.
func (w *world) decideAs(by, id uuid.UUID, arguments string) (call.Waiting, error) {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	d := call.Decision{CallID: id, Approve: true, Digest: waiting.Approval.Digest.String(), By: by}
	if arguments != "" {
		d.Arguments = json.RawMessage(arguments)
	}
	return w.calls.Decide(w.t.Context(), d)
}

func TestEditOfHighRiskTakesASecondReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers("", map[string]agent.ToolSettings{"write": {Risk: agent.RiskHigh}})
	editor, other := w.reviewer, uuid.New()
	ticket := w.submit("files__write", `{"n":1}`)
	made, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)

	proposed, err := w.decideAs(editor, ticket.ID, `{"n":2}`)
	check(t, err)
	a := proposed.Approval
	if a.Status != approval.Pending || a.EditedBy != editor || a.EditedAt == nil || a.Original != made.Approval.Digest || !a.Deadline.Equal(made.Approval.Deadline) {
		t.Fatalf("approval %+v, want it pending with the edit, its editor and the old deadline", a)
	}
	if string(proposed.Call.Arguments) != `{"n":2}` || string(proposed.Call.Submitted) != `{"n":1}` || proposed.Call.Status != call.Parked || proposed.Call.WasEdited() {
		t.Errorf("call %s with %s, submitted %s", proposed.Call.Status, proposed.Call.Arguments, proposed.Call.Submitted)
	}
	// The editor may not approve the edit in any form.
	for _, arguments := range []string{"", `{"n":2}`, `{ "n": 2 }`} {
		if _, err := w.decideAs(editor, ticket.ID, arguments); !errors.Is(err, approval.ErrOwnEdit) {
			t.Errorf("the editor approves with %q: %v, want ErrOwnEdit", arguments, err)
		}
	}
	// The digest of the original call no longer counts.
	for _, approve := range []bool{true, false} {
		_, err = w.calls.Decide(t.Context(), call.Decision{CallID: ticket.ID, Approve: approve, Digest: made.Approval.Digest.String(), By: other})
		if !errors.Is(err, approval.ErrDigestMismatch) {
			t.Errorf("the original digest, approve %v: %v", approve, err)
		}
	}
	if got := w.source.Arguments(); len(got) != 0 {
		t.Fatalf("the server got %q before a second reviewer approved", got)
	}

	approved, err := w.decideAs(other, ticket.ID, "")
	check(t, err)
	if approved.Approval.EditedBy != editor || approved.Approval.DecidedBy != other || !approved.Approval.EditedAt.Equal(*a.EditedAt) {
		t.Errorf("approval %+v", approved.Approval)
	}
	done := w.waitForEnd(ticket.ID)
	if done.Status != call.Succeeded || string(done.Arguments) != `{"n":2}` || string(done.Submitted) != `{"n":1}` || !done.WasEdited() {
		t.Errorf("call %s %s with %s, submitted %s", done.Status, done.Message, done.Arguments, done.Submitted)
	}
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"n":2}`}) {
		t.Errorf("the server got %q", got)
	}
	w.wantEvent(ticket.ID, "approval.edit_proposed", editor, map[string]any{
		"digest": a.Digest.String(), "original_digest": made.Approval.Digest.String(), "edited": []any{"n"}, "note": "",
	})
	w.wantEvent(ticket.ID, "approval.approved", other, map[string]any{
		"digest": approved.Approval.Digest.String(), "edit_digest": a.Digest.String(), "edited_by": editor.String(),
		"original_digest": made.Approval.Digest.String(), "note": "",
	})
}

// Two unverified people with the same inviter may be one person, who must not edit with one account and approve with
// the other.
func TestEditAndApprovalByUnverifiedNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers(agent.EditsSecond, nil)
	inviter, puppet, other, verified := w.reviewer, uuid.New(), uuid.New(), uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name, invited_by) VALUES ($1, 'holdpoint', 'i', 'I', NULL), ($2, 'holdpoint', 'p', 'P', $1),
		($3, 'holdpoint', 'o', 'O', $1), ($4, 'holdpoint', 'v', 'V', NULL)`, inviter, puppet, other, verified)
	for n, pair := range [][2]uuid.UUID{{inviter, puppet}, {puppet, inviter}} {
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n))
		_, err := w.decideAs(pair[0], ticket.ID, fmt.Sprintf(`{"n":%d}`, n+10))
		check(t, err)
		if _, err := w.decideAs(pair[1], ticket.ID, ""); !errors.Is(err, approval.ErrOwnEdit) {
			t.Errorf("an edit of %s approved by %s: %v, want ErrOwnEdit", pair[0], pair[1], err)
		}
		if _, err := w.decideAs(verified, ticket.ID, ""); err != nil {
			t.Errorf("a verified reviewer: %v", err)
		}
		w.waitForEnd(ticket.ID)
	}
	ticket := w.submit("files__write", `{"n":5}`)
	_, err := w.decideAs(puppet, ticket.ID, `{"n":15}`)
	check(t, err)
	if _, err := w.decideAs(other, ticket.ID, ""); err != nil {
		t.Errorf("two people with the same inviter: %v", err)
	}
	w.waitForEnd(ticket.ID)
}

// wantEvent checks that a call has an audit event.
func (w *world) wantEvent(id uuid.UUID, action string, by uuid.UUID, data map[string]any) {
	w.t.Helper()
	events, err := audit.List(w.t.Context(), w.db.Pool(), audit.Filter{Subject: id, Action: audit.Action(action)})
	check(w.t, err)
	want, err := json.Marshal(data)
	check(w.t, err)
	for _, e := range events {
		got, err := json.Marshal(e.Data)
		check(w.t, err)
		if e.Actor.ID == by && string(got) == string(want) {
			return
		}
		w.t.Logf("%s by %s: %s", e.Action, e.Actor.ID, got)
	}
	w.t.Errorf("no event %s by %s: %s", action, by, want)
}

// Each of two reviewers may replace the other's edit. Only the one who did not write the waiting edit approves it.
func TestEditsOfTwoReviewers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers(agent.EditsSecond, nil)
	first, second := w.reviewer, uuid.New()
	ticket := w.submit("files__write", `{"n":1}`)
	one, err := w.decideAs(first, ticket.ID, `{"n":2}`)
	check(t, err)
	two, err := w.decideAs(second, ticket.ID, `{"n":3}`)
	check(t, err)
	if two.Approval.EditedBy != second || two.Approval.Original != one.Approval.Original || string(two.Call.Submitted) != `{"n":1}` {
		t.Errorf("approval %+v, submitted %s", two.Approval, two.Call.Submitted)
	}
	if _, err := w.decideAs(second, ticket.ID, ""); !errors.Is(err, approval.ErrOwnEdit) {
		t.Errorf("the second editor: %v", err)
	}
	_, err = w.calls.Decide(t.Context(), call.Decision{CallID: ticket.ID, Approve: true, Digest: one.Approval.Digest.String(), By: second})
	if !errors.Is(err, approval.ErrDigestMismatch) {
		t.Errorf("the replaced edit: %v", err)
	}
	if _, err = w.decideAs(first, ticket.ID, ""); err != nil {
		t.Fatal(err)
	}
	w.waitForEnd(ticket.ID)
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"n":3}`}) {
		t.Errorf("the server got %q", got)
	}
	// The same bytes from another editor have another digest.
	if approval.EditDigest(one.Approval.Original, first) == approval.EditDigest(one.Approval.Original, second) {
		t.Error("the digest of an edit does not cover its editor")
	}
}

// Any reviewer may approve the agent's original arguments, which discards the edit.
func TestEditIsDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers(agent.EditsSecond, nil)
	ticket := w.submit("files__write", `{"n":1}`)
	made, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	_, err = w.decideAs(w.reviewer, ticket.ID, `{"n":2}`)
	check(t, err)
	decided, err := w.decideAs(w.reviewer, ticket.ID, `{"n":1}`)
	check(t, err)
	if a := decided.Approval; a.Status != approval.Approved || a.Edited() || a.EditedBy != uuid.Nil || a.EditedAt != nil || a.Digest != made.Approval.Digest {
		t.Errorf("approval %+v, want the original call's approval", a)
	}
	done := w.waitForEnd(ticket.ID)
	if got := w.source.Arguments(); done.Submitted != nil || !slices.Equal(got, []string{`{"n":1}`}) {
		t.Errorf("the server got %q, submitted %s", got, done.Submitted)
	}
}

// A rejected edit is kept for the record. The call is not sent, and the agent does not see the edit.
func TestEditIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers(agent.EditsSecond, nil)
	ticket := w.submit("files__write", `{"n":1}`)
	proposed, err := w.decideAs(w.reviewer, ticket.ID, `{"n":2}`)
	check(t, err)
	_, err = w.calls.Decide(t.Context(), call.Decision{
		CallID: ticket.ID, Digest: proposed.Approval.Digest.String(), By: uuid.New(), Note: "neither of the two",
	})
	check(t, err)
	done := w.waitForEnd(ticket.ID)
	if done.Status != call.Rejected || done.WasEdited() || string(done.Arguments) != `{"n":2}` || string(done.Submitted) != `{"n":1}` || len(w.source.Arguments()) != 0 {
		t.Errorf("call %s with %s, submitted %s, sent %q", done.Status, done.Arguments, done.Submitted, w.source.Arguments())
	}
}

// The skill's setting takes precedence over the risk of its tools.
func TestEditAloneWhereASkillAllowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers(agent.EditsAlone, map[string]agent.ToolSettings{"write": {Risk: agent.RiskHigh}})
	ticket := w.submit("files__write", `{"n":1}`)
	decided, err := w.decideAs(w.reviewer, ticket.ID, `{"n":2}`)
	check(t, err)
	if decided.Approval.Status != approval.Approved || decided.Approval.EditedBy != uuid.Nil {
		t.Errorf("approval %+v", decided.Approval)
	}
	w.waitForEnd(ticket.ID)
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"n":2}`}) {
		t.Errorf("the server got %q", got)
	}
}

// When many reviewers edit and approve at once, no one approves their own edit and the call is sent at most once.
func TestEditsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers(agent.EditsSecond, nil)
	people := []uuid.UUID{w.reviewer, uuid.New(), uuid.New(), uuid.New()}
	ticket := w.submit("files__write", `{"n":0}`)
	var all sync.WaitGroup
	for i, person := range people {
		all.Go(func() {
			for range 4 {
				for _, arguments := range []string{`{"n":` + string(rune('1'+i)) + `}`, ""} {
					waiting, err := w.calls.GetApproval(context.WithoutCancel(t.Context()), ticket.ID)
					if err != nil {
						t.Error(err)
						return
					}
					d := call.Decision{CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: person}
					if arguments != "" {
						d.Arguments = json.RawMessage(arguments)
					} else if waiting.Approval.EditedBy == uuid.Nil {
						continue
					}
					_, err = w.calls.Decide(t.Context(), d)
					var conflict *approval.ConflictError
					if err != nil && !errors.As(err, &conflict) && !errors.Is(err, approval.ErrDigestMismatch) && !errors.Is(err, approval.ErrOwnEdit) && !errors.Is(err, call.ErrState) {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	settled, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	if settled.Approval.Status == approval.Pending {
		approver := people[0]
		if settled.Approval.EditedBy == approver {
			approver = people[1]
		}
		settled, err = w.decideAs(approver, ticket.ID, "")
		check(t, err)
	}
	done := w.waitForEnd(ticket.ID)
	if got := w.source.Arguments(); settled.Approval.EditedBy == settled.Approval.DecidedBy || !slices.Equal(got, []string{string(done.Arguments)}) {
		t.Errorf("edited by %s, approved by %s, the server got %q for %s", settled.Approval.EditedBy, settled.Approval.DecidedBy, got, done.Arguments)
	}
}
