package call_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// addReviewer adds a person of an identity provider, in these teams, with a verified email address.
func (w *world) addReviewer(name string, teams ...string) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name, email, verified_email, claimed_roles, claimed_teams)
		VALUES ($1, 'https://id.example.com', $2, $2, $3, $3, '{reviewer}', $4)`, id, name, name+"@example.com", append([]string{}, teams...))
	return id
}

// setPolicy stores a policy of two of finance and one of compliance, or the CFO alone, after change.
func (w *world) setPolicy(change func(*policy.Spec)) {
	w.t.Helper()
	spec := policy.Spec{Name: "bank", Any: []policy.Alternative{
		{All: []policy.Line{{Count: 2, Teams: []string{"finance"}}, {Count: 1, Teams: []string{"compliance"}}}},
		{All: []policy.Line{{Count: 1, People: []string{"cfo@example.com"}}}},
	}}
	if change != nil {
		change(&spec)
	}
	_, err := w.agents.SetPolicy(w.t.Context(), audit.System(), spec, nil)
	check(w.t, err)
}

// newBank is a world in which calls of the tool write need the policy of [world.setPolicy].
func newBank(t *testing.T, configure ...configuration) (w *world, fin1, fin2, comp uuid.UUID) {
	t.Helper()
	w = newWorld(t, configure...)
	w.setPolicy(nil)
	w.setRule(rule.Spec{Name: "big", When: `args.n > 100.0`, Effect: rule.Park, Policy: "bank"})
	return w, w.addReviewer("fin1", "finance"), w.addReviewer("fin2", "finance"), w.addReviewer("comp", "compliance")
}

// vote approves a call, and checks the status of the approval, or the error.
func (w *world) vote(by, id uuid.UUID, want any) {
	w.t.Helper()
	voted, err := w.decideAs(by, id, "")
	switch want := want.(type) {
	case approval.Status:
		if err != nil || voted.Approval.Status != want {
			w.t.Fatalf("after the vote the approval is %s (%v), want %s", voted.Approval.Status, err, want)
		}
	case error:
		if !errors.Is(err, want) {
			w.t.Fatalf("the vote: %v, want %v", err, want)
		}
	}
}

func TestVotesMeetThePolicy(t *testing.T) {
	t.Parallel()
	w, fin1, fin2, comp := newBank(t)
	ticket := w.submit("files__write", `{"n":500}`)
	w.vote(w.addReviewer("sales", "sales"), ticket.ID, approval.ErrNotAsked)
	w.vote(fin1, ticket.ID, approval.Pending)
	w.vote(fin1, ticket.ID, approval.ErrVoted)
	twin := w.addReviewer("twin", "finance")
	w.db.Exec(`INSERT INTO person_links (person_id, same_as) VALUES ($1, $2)`, twin, fin1)
	w.vote(twin, ticket.ID, approval.ErrVoted)
	w.vote(comp, ticket.ID, approval.Pending)
	if got := w.source.Arguments(); len(got) != 0 {
		t.Fatalf("the server got %q before the last vote", got)
	}
	w.vote(fin2, ticket.ID, approval.Approved)
	w.waitForStatus(ticket.ID, call.Succeeded)

	alone := w.submit("files__write", `{"n":501}`)
	w.vote(w.addReviewer("cfo"), alone.ID, approval.Approved)
	w.waitForStatus(alone.ID, call.Succeeded)

	small := w.submit("files__write", `{"n":5}`) // no policy
	w.vote(w.addReviewer("anyone"), small.ID, approval.Approved)
	w.waitForStatus(small.ID, call.Succeeded)
}

// TestSkillPolicy: the policy of a tool takes the place of its skill's, and that of a rule is asked for too.
func TestSkillPolicy(t *testing.T) {
	t.Parallel()
	w, fin1, fin2, comp := newBank(t)
	for name, team := range map[string]string{"legal": "legal", "ops": "ops"} {
		_, err := w.agents.SetPolicy(t.Context(), audit.System(), policy.Spec{Name: name, Any: []policy.Alternative{{All: []policy.Line{{Count: 1, Teams: []string{team}}}}}}, nil)
		check(t, err)
	}
	found, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{Policy: new("ops"), Tools: &map[string]agent.ToolSettings{"write": {Policy: "legal"}}})
	check(t, err)
	legal, ops := w.addReviewer("legal", "legal"), w.addReviewer("ops", "ops")

	ticket := w.submit("files__write", `{"n":500}`)
	w.vote(ops, ticket.ID, approval.ErrNotAsked)
	w.vote(legal, ticket.ID, approval.Pending)
	w.vote(fin1, ticket.ID, approval.Pending)
	w.vote(fin2, ticket.ID, approval.Pending)
	w.vote(comp, ticket.ID, approval.Approved)
	w.waitForStatus(ticket.ID, call.Succeeded)

	other := w.submit("files__echo", `{}`)
	w.vote(ops, other.ID, approval.Approved)
	w.waitForStatus(other.ID, call.Succeeded)

	var used *agent.InUseError
	if err := w.agents.DeletePolicy(t.Context(), audit.System(), "legal"); !errors.As(err, &used) || used.Error() != "it is used by tool write of skill files" {
		t.Errorf("delete a policy that a tool has: %v", err)
	}
	var wrong *fault.InvalidError
	if _, err := w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{Policy: new("none")}); !errors.As(err, &wrong) || wrong.Fields[0].Name != "policy" {
		t.Errorf("set a policy that does not exist: %v", err)
	}
}

// TestVoteOfARemovedMember: a vote counts only while its reviewer is in the team, also when the call is sent.
func TestVoteOfARemovedMember(t *testing.T) {
	t.Parallel()
	w, fin1, fin2, comp := newBank(t)
	leave := func(person uuid.UUID) { w.db.Exec(`UPDATE people SET claimed_teams = '{}' WHERE id = $1`, person) }
	ticket := w.submit("files__write", `{"n":500}`)
	w.vote(fin1, ticket.ID, approval.Pending)
	w.vote(comp, ticket.ID, approval.Pending)
	leave(fin1)
	w.vote(fin2, ticket.ID, approval.Pending)
	fin3 := w.addReviewer("fin3", "finance")
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	// The last vote, with time to take it back: meanwhile another member leaves.
	_, err = w.calls.Decide(t.Context(), call.Decision{CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: fin3, Undo: true})
	check(t, err)
	leave(fin2)
	w.db.MoveClock("6 seconds")
	if c := w.waitForStatus(ticket.ID, call.Denied); c.Code != call.CodeReviewerRemoved || len(w.source.Arguments()) != 0 {
		t.Errorf("the call ended with %s; the server got %q", c.Code, w.source.Arguments())
	}
}

// TestEditVoidsVotes: edited arguments need all votes again, and the editor's does not count.
func TestEditVoidsVotes(t *testing.T) {
	t.Parallel()
	w, fin1, fin2, comp := newBank(t)
	ticket := w.submit("files__write", `{"n":500}`)
	w.vote(fin1, ticket.ID, approval.Pending)
	w.vote(comp, ticket.ID, approval.Pending)
	edited, err := w.decideAs(fin2, ticket.ID, `{"n":400}`)
	check(t, err)
	if edited.Approval.Status != approval.Pending || edited.Approval.EditedBy != fin2 {
		t.Fatalf("after the edit: %+v", edited.Approval)
	}
	w.vote(fin2, ticket.ID, approval.ErrOwnEdit)
	w.vote(fin1, ticket.ID, approval.Pending)
	w.vote(comp, ticket.ID, approval.Pending)
	w.vote(w.addReviewer("fin3", "finance"), ticket.ID, approval.Approved)
	w.waitForStatus(ticket.ID, call.Succeeded)
	if got := fmt.Sprintf("%s", w.source.Arguments()); got != `[{"n":400}]` {
		t.Errorf("the server got %s", got)
	}
}

// TestPolicyChanges: calls keep the policy that they were parked with, until somebody votes or they are sent. Then they are asked about again.
func TestPolicyChanges(t *testing.T) {
	t.Parallel()
	w, fin1, fin2, comp := newBank(t)
	ticket := w.submit("files__write", `{"n":500}`)
	w.vote(fin1, ticket.ID, approval.Pending)
	w.setPolicy(func(s *policy.Spec) { s.Any[0].All = s.Any[0].All[:1] }) // two of finance
	w.vote(fin2, ticket.ID, approval.ErrPolicyChanged)
	w.vote(comp, ticket.ID, approval.ErrNotAsked)
	w.vote(fin2, ticket.ID, approval.Pending)

	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	_, err = w.calls.Decide(t.Context(), call.Decision{CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: fin1, Undo: true})
	check(t, err)
	w.setPolicy(func(s *policy.Spec) { s.Any[0].All = s.Any[0].All[1:] }) // one of compliance
	w.db.MoveClock("6 seconds")
	w.waitForStatus(ticket.ID, call.Parked)
	w.vote(fin1, ticket.ID, approval.ErrNotAsked)
	w.vote(comp, ticket.ID, approval.Approved)
	w.waitForStatus(ticket.ID, call.Succeeded)
}

func TestRejectionsOfAPolicy(t *testing.T) {
	t.Parallel()
	w, fin1, fin2, _ := newBank(t)
	reject := func(by, id uuid.UUID) (call.Waiting, error) {
		waiting, err := w.calls.GetApproval(t.Context(), id)
		check(t, err)
		return w.calls.Decide(t.Context(), call.Decision{CallID: id, Digest: waiting.Approval.Digest.String(), By: by, Note: "no"})
	}
	ticket := w.submit("files__write", `{"n":500}`)
	if ended, err := reject(fin1, ticket.ID); err != nil || ended.Approval.Status != approval.Rejected {
		t.Errorf("one rejection: %s, %v", ended.Approval.Status, err)
	}
	w.setPolicy(func(s *policy.Spec) { s.Rejections = 2 })
	ticket = w.submit("files__write", `{"n":501}`)
	if waits, err := reject(fin1, ticket.ID); err != nil || waits.Approval.Status != approval.Pending {
		t.Errorf("the first of two rejections: %s, %v", waits.Approval.Status, err)
	}
	if _, err := reject(fin1, ticket.ID); !errors.Is(err, approval.ErrVoted) {
		t.Errorf("the same person rejects twice: %v", err)
	}
	if _, err := w.calls.Undo(t.Context(), ticket.ID, fin1); err != nil {
		t.Errorf("take a rejection back: %v", err)
	}
	if _, err := w.calls.Undo(t.Context(), ticket.ID, fin1); !errors.Is(err, approval.ErrNoVote) {
		t.Errorf("take it back twice: %v", err)
	}
	w.vote(fin1, ticket.ID, approval.Pending)
	if waits, err := reject(w.addReviewer("sales", "sales"), ticket.ID); err != nil || waits.Approval.Status != approval.Pending {
		t.Errorf("anyone may reject: %s, %v", waits.Approval.Status, err)
	}
	if ended, err := reject(fin2, ticket.ID); err != nil || ended.Approval.Status != approval.Rejected {
		t.Errorf("the second rejection: %s, %v", ended.Approval.Status, err)
	}
}

// TestBreakGlass: one person approves alone where the policy allows it, with a reason, and another one reviews that.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	w, fin1, fin2, _ := newBank(t)
	alone := func(by, id uuid.UUID, note string) (call.Waiting, error) {
		waiting, err := w.calls.GetApproval(t.Context(), id)
		check(t, err)
		return w.calls.Decide(t.Context(), call.Decision{CallID: id, Approve: true, Digest: waiting.Approval.Digest.String(), By: by, Note: note, BreakGlass: true})
	}
	ticket := w.submit("files__write", `{"n":500}`)
	if _, err := alone(fin1, ticket.ID, "fire"); !errors.Is(err, approval.ErrNoBreakGlass) {
		t.Errorf("the policy does not allow it: %v", err)
	}
	w.setPolicy(func(s *policy.Spec) { s.BreakGlass = true })
	ticket = w.submit("files__write", `{"n":501}`)
	var wrong *fault.InvalidError
	if _, err := alone(fin1, ticket.ID, ""); !errors.As(err, &wrong) || wrong.Fields[0].Name != "note" {
		t.Errorf("without a reason: %v", err)
	}
	approved, err := alone(fin1, ticket.ID, "fire")
	if err != nil || approved.Approval.Status != approval.Approved || !approved.Approval.BrokeGlass {
		t.Fatalf("%+v, %v", approved.Approval, err)
	}
	w.waitForStatus(ticket.ID, call.Succeeded)
	open, err := approval.ListUnreviewed(t.Context(), w.db.Pool(), 10)
	if err != nil || len(open) != 1 || open[0].CallID != ticket.ID {
		t.Errorf("unreviewed: %v, %v", open, err)
	}
	if _, err := w.calls.ReviewGlass(t.Context(), ticket.ID, fin1, ""); !errors.Is(err, approval.ErrOwnGlass) {
		t.Errorf("a person reviews their own approval: %v", err)
	}
	reviewed, err := w.calls.ReviewGlass(t.Context(), ticket.ID, fin2, "was right")
	if err != nil || reviewed.Approval.GlassReview == nil || reviewed.Approval.GlassReview.By != fin2 {
		t.Errorf("review: %+v, %v", reviewed.Approval.GlassReview, err)
	}
	if _, err := w.calls.ReviewGlass(t.Context(), ticket.ID, fin2, ""); !errors.Is(err, approval.ErrGlassReviewed) {
		t.Errorf("review twice: %v", err)
	}
	if open, err = approval.ListUnreviewed(t.Context(), w.db.Pool(), 10); err != nil || len(open) != 0 {
		t.Errorf("unreviewed: %v, %v", open, err)
	}
	plain := w.submit("files__write", `{"n":5}`)
	if _, err := alone(fin1, plain.ID, "fire"); !errors.Is(err, approval.ErrNoBreakGlass) {
		t.Errorf("a call without a policy: %v", err)
	}
}

// TestVotesAtOnce: votes of eight people in eight processes, of which three suffice.
func TestVotesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.agents.SetPolicy(t.Context(), audit.System(), policy.Spec{Name: "three", Any: []policy.Alternative{{All: []policy.Line{{Count: 3}}}}}, nil)
	check(t, err)
	w.setRule(rule.Spec{Name: "all", Effect: rule.Park, Policy: "three"})
	services := []*call.Service{w.calls}
	for range 7 {
		services = append(services, w.start())
	}
	ticket := w.submit("files__write", `{"n":500}`)
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	var mu sync.Mutex
	counts := map[approval.Status]int{}
	var late int
	var group sync.WaitGroup
	for i, service := range services {
		by := w.addReviewer(fmt.Sprintf("r%d", i))
		group.Go(func() {
			voted, err := service.Decide(t.Context(), call.Decision{CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: by})
			var conflict *approval.ConflictError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.As(err, &conflict):
				late++
			case err != nil:
				t.Error(err)
			default:
				counts[voted.Approval.Status]++
			}
		})
	}
	group.Wait()
	if counts[approval.Pending] != 2 || counts[approval.Approved] != 1 || late != 5 {
		t.Errorf("votes: %v, and %d came late", counts, late)
	}
	w.waitForStatus(ticket.ID, call.Succeeded)
	if got := w.source.Arguments(); len(got) != 1 {
		t.Errorf("the server got %q", got)
	}
}

// TestDatabaseRefusesApprovalsWithoutVotes: a process of an earlier version, which knows no policies, cannot approve.
func TestDatabaseRefusesApprovalsWithoutVotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	w.setRule(rule.Spec{Name: "big", When: `args.n > 100.0`, Effect: rule.Park, Policy: "bank"})
	ticket := w.submit("files__write", `{"n":500}`)
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, ticket.ID)
	if err == nil || !strings.Contains(err.Error(), "approvals_policies_met") {
		t.Errorf("approve without votes: %v", err)
	}
}

// notices records the notices about approvals.
type notices struct {
	mu   sync.Mutex
	list []string
}

func (n *notices) attend(_ context.Context, _ pgx.Tx, list []call.Attention) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range list {
		a := &list[i]
		text := fmt.Sprintf("%s %s %s", a.Kind, strings.Join(a.Asked.Teams, "+"), strings.Join(a.Asked.Names, "+"))
		if a.Asked.Whole {
			text += " all"
		}
		if a.Asked.Everyone {
			text += " everyone"
		}
		n.list = append(n.list, text)
	}
	return nil
}

// take returns the notices since it was called last.
func (n *notices) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := strings.Join(n.list, ", ")
	n.list = nil
	return text
}

// TestPoliciesAskTheirPeople: all teams and people of a policy are notified of a parked call, and so are those whom one person skips who
// approves alone, until somebody has reviewed that.
func TestPoliciesAskTheirPeople(t *testing.T) {
	t.Parallel()
	var told notices
	w, fin1, fin2, comp := newBank(t, func(_ *world, c *call.Config) { c.Attend = told.attend })
	want := func(what, text string) {
		t.Helper()
		if got := told.take(); got != text {
			t.Errorf("%s: told %q, want %q", what, got, text)
		}
	}
	ticket := w.submit("files__write", `{"n":500}`)
	want("parked", "waits finance+compliance cfo@example.com all")
	w.setPolicy(func(s *policy.Spec) { s.Any[1].All[0].Teams, s.BreakGlass = []string{"board"}, true })
	w.vote(fin1, ticket.ID, approval.ErrPolicyChanged)
	want("asked again", "waits finance+compliance+board cfo@example.com all")
	w.vote(fin1, ticket.ID, approval.Pending)
	w.vote(fin2, ticket.ID, approval.Pending)
	want("votes", "")
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	alone := w.addReviewer("alone", "sales")
	_, err = w.calls.Decide(t.Context(), call.Decision{CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: alone, Note: "fire", BreakGlass: true})
	check(t, err)
	want("approved alone, after two of finance", "settled  , broke_glass compliance+board cfo@example.com all")
	w.waitForStatus(ticket.ID, call.Succeeded)
	_, err = w.calls.ReviewGlass(t.Context(), ticket.ID, comp, "was right")
	check(t, err)
	want("reviewed", "settled  ")

	w.setPolicy(func(s *policy.Spec) { s.Any = []policy.Alternative{{All: []policy.Line{{Count: 1}}}} })
	w.submit("files__write", `{"n":501}`)
	want("any reviewer", "waits   everyone")
	w.db.Exec(`UPDATE skills SET team = 'payments' WHERE name = 'files'`)
	w.agents.Invalidate()
	w.submit("files__write", `{"n":502}`)
	want("any reviewer, and a team", "waits payments ")
}

// TestPoliciesThatNobodyCanMeet: a call whose policy the present reviewers cannot meet is announced with the line that lacks people.
func TestPoliciesThatNobodyCanMeet(t *testing.T) {
	t.Parallel()
	var told notices
	var able atomic.Pointer[[]uuid.UUID]
	able.Store(&[]uuid.UUID{})
	w, fin1, fin2, comp := newBank(t, func(_ *world, c *call.Config) {
		c.Attend = told.attend
		c.ListDeciders = func(context.Context, *approval.Approval) ([]uuid.UUID, error) { return *able.Load(), nil }
	})
	cfo := w.addReviewer("cfo")
	able.Store(&[]uuid.UUID{fin1, fin2})
	lacks := func(id uuid.UUID) string {
		t.Helper()
		waiting, err := w.calls.GetApproval(t.Context(), id)
		check(t, err)
		lack, err := w.calls.FindLack(t.Context(), &waiting.Approval)
		check(t, err)
		n, err := w.calls.CountUnmeetable(t.Context())
		check(t, err)
		words := []string{strconv.Itoa(n), strconv.FormatBool(lack.Nobody)}
		for i := range lack.Shortages {
			one := &lack.Shortages[i]
			words = append(words, fmt.Sprintf("%s: %s, %d", one.Policy, one.Line.String(), one.Able))
		}
		return strings.Join(words, " ")
	}
	ticket := w.submit("files__write", `{"n":500}`)
	if got := told.take(); got != "unmeetable finance+compliance cfo@example.com all everyone, waits finance+compliance cfo@example.com all" {
		t.Errorf("told %q", got)
	}
	if ticket.Alone {
		t.Error("reviewers may decide it, though they cannot approve it")
	}
	if got := lacks(ticket.ID); got != "1 false bank: 1 of compliance, 0" {
		t.Errorf("lacks %q", got)
	}
	if got := w.db.Actions(ticket.ID); got != "call.parked approval.no_reviewer" {
		t.Errorf("audit: %s", got)
	}
	for what, tc := range map[string]struct {
		able []uuid.UUID
		want string
	}{
		"all of the first alternative": {[]uuid.UUID{fin1, fin2, comp}, "0 false"},
		"the second alternative":       {[]uuid.UUID{cfo}, "0 false"},
		"one of finance":               {[]uuid.UUID{fin1, comp}, "1 false bank: 2 of finance, 1"},
		"nobody":                       {nil, "1 true"},
	} {
		able.Store(&tc.able)
		if got := lacks(ticket.ID); got != tc.want {
			t.Errorf("%s: lacks %q, want %q", what, got, tc.want)
		}
	}
	able.Store(&[]uuid.UUID{fin1, fin2, comp})
	w.db.Exec(`INSERT INTO person_links (person_id, same_as) VALUES ($1, $2)`, comp, fin1)
	if got := lacks(ticket.ID); got != "1 false bank: 2 of finance, 1" && got != "1 false bank: 1 of compliance, 0" {
		t.Errorf("one person with two accounts: lacks %q", got)
	}
	w.db.MoveClock("1 hour")
	if done := w.waitForEnd(ticket.ID); done.Code != call.CodeNoReviewer {
		t.Errorf("ended with code %q", done.Code)
	}
}
