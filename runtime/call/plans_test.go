package call_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// newPlan returns a plan of calls of the tool write.
func (w *world) newPlan(arguments ...string) *call.PlanSubmission {
	w.t.Helper()
	sub := &call.PlanSubmission{Agent: w.agent, Title: "Close the month", Lookup: func(name string) (*catalog.Entry, bool) {
		if name != "files__write" && name != "open__echo" {
			return nil, false
		}
		return w.newSubmission(name, `{}`).Entry, true
	}}
	for _, one := range arguments {
		sub.Calls = append(sub.Calls, call.PlannedCall{Tool: "files__write", Arguments: []byte(one)})
	}
	return sub
}

// approvePlan submits a plan and approves it without some calls.
func (w *world) approvePlan(sub *call.PlanSubmission, strike ...int) agent.Plan {
	w.t.Helper()
	p, err := w.calls.SubmitPlan(w.t.Context(), sub)
	check(w.t, err)
	p, err = w.calls.DecidePlan(w.t.Context(), w.reviewer, &agent.PlanDecision{ID: p.ID, Approve: true, Digest: p.Digest(), Strike: strike})
	check(w.t, err)
	return p
}

// passes makes a call in a process and checks whether it passes. It waits for the end of one that does.
func (w *world) passes(process *call.Service, arguments string, want bool) call.Call {
	w.t.Helper()
	ticket, err := process.Submit(w.t.Context(), w.newSubmission("files__write", arguments))
	check(w.t, err)
	if got := ticket.Status == call.Executing; got != want {
		w.t.Fatalf("%s: the call is %s, want it to pass: %t", arguments, ticket.Status, want)
	}
	if !want {
		return call.Call{ID: ticket.ID}
	}
	return w.waitForEnd(ticket.ID)
}

// TestPlan: the calls of an approved plan pass once, in order, in any process. Others wait.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.start()
	sub := w.newPlan(`{"n":1}`, `{"n":2}`, `{"n":2}`, `{"n":3}`)
	sub.Calls = append(sub.Calls, call.PlannedCall{Tool: "open__echo", Arguments: []byte(`{}`)})
	pending, err := w.calls.SubmitPlan(t.Context(), sub)
	check(t, err)
	if pending.Status != agent.PlanPending || pending.Calls[0].Effect != agent.PlanCovers || pending.Calls[4].Effect != agent.PlanAllows ||
		pending.Deadline.Sub(pending.CreatedAt).Round(time.Second) != time.Minute {
		t.Errorf("submitted: %+v", pending)
	}
	w.passes(w.calls, `{"n":1}`, false)
	if _, err := w.calls.DecidePlan(t.Context(), w.reviewer, &agent.PlanDecision{ID: pending.ID, Approve: true, Digest: pending.ID.String()}); !errors.Is(err, agent.ErrPlanDigest) {
		t.Errorf("approved with another digest: %v", err)
	}
	p, err := w.calls.DecidePlan(t.Context(), w.reviewer, &agent.PlanDecision{ID: pending.ID, Approve: true, Digest: pending.Digest()})
	check(t, err)
	if p.Status != agent.PlanApproved || len(p.Uses) != 4 || p.EndsAt.Sub(*p.DecidedAt).Round(time.Second) != grant.DefaultTime {
		t.Errorf("approved: %+v", p)
	}
	if _, err := w.calls.DecidePlan(t.Context(), w.reviewer, &agent.PlanDecision{ID: p.ID, Digest: p.Digest()}); !errors.Is(err, agent.ErrPlanOver) {
		t.Errorf("decided twice: %v", err)
	}
	w.passes(other, `{"n":2}`, false) // not the first
	first := w.passes(w.calls, `{"n":1}`, true)
	w.passes(w.calls, `{"n":1}`, false) // it was used
	w.passes(w.calls, `{"n":3}`, false) // not the second
	w.passes(other, `{"n":2.0}`, false) // other bytes
	second := w.passes(other, `{"n":2}`, true)
	w.passes(w.calls, `{"n":2}`, true) // the plan has it twice
	w.passes(other, `{"n":2}`, false)
	w.passes(other, `{"n":3}`, true)
	if p, err = w.agents.GetPlan(t.Context(), p.ID); err != nil || p.Uses[0].CallID != first.ID || p.Uses[1].CallID != second.ID {
		t.Errorf("the calls of the plan: %+v, %v", p.Uses, err)
	}
	if got := w.db.Actions(p.ID); got != "plan.submitted plan.approved" {
		t.Errorf("audit: %s", got)
	}
}

// TestPlanStops: after a call that failed, and after its end, the rest of a plan waits.
func TestPlanStops(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(w *world, p *agent.Plan){
		"a call fails": func(w *world, _ *agent.Plan) {
			w.answerWith(`[{"type":"text","text":"no"}]`, true)
			if c := w.passes(w.calls, `{"n":2}`, true); c.Status != call.Failed {
				w.t.Fatalf("the call is %s", c.Status)
			}
		},
		"revoked": func(w *world, p *agent.Plan) {
			revoked, err := w.agents.RevokePlan(w.t.Context(), audit.Person(w.reviewer), p.ID)
			check(w.t, err)
			if revoked.Status != agent.PlanRevoked {
				w.t.Errorf("the plan is %s", revoked.Status)
			}
		},
		"cancelled": func(w *world, p *agent.Plan) {
			if _, err := w.calls.CancelPlan(w.t.Context(), call.Viewer{AgentID: uuid.New()}, uuid.Nil, p.ID); !errors.Is(err, agent.ErrNotFound) {
				w.t.Errorf("another agent cancelled it: %v", err)
			}
			_, err := w.calls.CancelPlan(w.t.Context(), call.Viewer{AgentID: w.agent.ID}, uuid.Nil, p.ID)
			check(w.t, err)
		},
		"ended": func(w *world, p *agent.Plan) {
			w.db.Exec(`UPDATE plans SET ends_at = holdpoint_now() WHERE id = $1`, p.ID)
			w.db.Exec(`UPDATE grants SET ends_at = holdpoint_now() WHERE plan_id = $1`, p.ID)
			if ended, err := w.agents.GetPlan(w.t.Context(), p.ID); err != nil || ended.Status != agent.PlanEnded {
				w.t.Errorf("the plan is %s, %v", ended.Status, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.approvePlan(w.newPlan(`{"n":1}`, `{"n":2}`, `{"n":3}`))
			w.passes(w.calls, `{"n":1}`, true)
			stop(w, &p)
			w.passes(w.calls, `{"n":3}`, false)
		})
	}
}

// TestPlanWithoutACall: a call that the reviewer left out waits, and those after it do not need it.
func TestPlanWithoutACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.approvePlan(w.newPlan(`{"n":1}`, `{"n":2}`, `{"n":3}`), 1)
	w.passes(w.calls, `{"n":1}`, true)
	w.passes(w.calls, `{"n":2}`, false)
	w.passes(w.calls, `{"n":3}`, true)
}

// TestPlanExpires: nobody can approve a plan after its deadline.
func TestPlanExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.calls.SubmitPlan(t.Context(), w.newPlan(`{"n":1}`))
	check(t, err)
	w.db.Exec(`UPDATE plans SET deadline = holdpoint_now() WHERE id = $1`, p.ID)
	if _, err := w.calls.DecidePlan(t.Context(), w.reviewer, &agent.PlanDecision{ID: p.ID, Approve: true, Digest: p.Digest()}); !errors.Is(err, agent.ErrPlanOver) {
		t.Errorf("approved: %v", err)
	}
	if p, err = w.agents.GetPlan(t.Context(), p.ID); err != nil || p.Status != agent.PlanExpired {
		t.Errorf("the plan is %s, %v", p.Status, err)
	}
}

// TestOwnPlan: the person whom an agent acts for does not approve its plan.
func TestOwnPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.newPlan(`{"n":1}`)
	sub.PrincipalID = w.reviewer
	p, err := w.calls.SubmitPlan(t.Context(), sub)
	check(t, err)
	if _, err := w.calls.DecidePlan(t.Context(), w.reviewer, &agent.PlanDecision{ID: p.ID, Approve: true, Digest: p.Digest()}); !errors.Is(err, approval.ErrSelfApproval) {
		t.Errorf("approved: %v", err)
	}
}

// TestInvalidPlan: the error names each part that is invalid. Nothing is stored.
func TestInvalidPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "never", When: `args.n > 100.0`, Effect: rule.Deny})
	for _, tc := range []struct {
		change func(*call.PlanSubmission)
		fields string
	}{
		{func(p *call.PlanSubmission) { p.Title = " " }, "[title]"},
		{func(p *call.PlanSubmission) { p.Calls = nil }, "[calls]"},
		{func(p *call.PlanSubmission) { p.Calls[1].Tool = "files__none" }, "[calls[1].tool]"},
		{func(p *call.PlanSubmission) {
			p.Calls[0].Arguments, p.Calls[1].Arguments = []byte(`{"n":"x"}`), []byte(`{"n":500}`)
		}, "[calls[0].arguments calls[1].tool]"},
		{func(p *call.PlanSubmission) { p.Calls[1].Arguments = []byte(`{"n":1,"n":2}`) }, "[calls[1].arguments/n]"},
		{func(p *call.PlanSubmission) {
			p.Calls = []call.PlannedCall{{Tool: "open__echo", Arguments: []byte(`{}`)}}
		}, "[calls]"},
	} {
		sub := w.newPlan(`{"n":1}`, `{"n":2}`)
		tc.change(sub)
		_, err := w.calls.SubmitPlan(t.Context(), sub)
		invalid, ok := errors.AsType[*fault.InvalidError](err)
		if !ok {
			t.Errorf("want %s: %v", tc.fields, err)
			continue
		}
		var fields []string
		for _, f := range invalid.Fields {
			fields = append(fields, f.Name)
		}
		if fmt.Sprint(fields) != tc.fields {
			t.Errorf("the error names %s, want %s: %v", fields, tc.fields, err)
		}
	}
	if n := w.db.Count(`plans`); n != 0 {
		t.Errorf("%d plans are stored", n)
	}
}

// TestPlanExcepts: a plan covers neither calls with a policy nor those of tools of high risk nor those like a rejected one.
func TestPlanExcepts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	w.setRule(rule.Spec{Name: "big", When: `args.n > 100.0`, Effect: rule.Park, Policy: "bank"})
	rejected := w.submit("files__write", `{"n":7}`)
	check(t, w.decide(rejected.ID, false))
	p := w.approvePlan(w.newPlan(`{"n":1}`, `{"n":500}`, `{"n":7}`, `{"n":2}`))
	if p.Calls[1].Reason != "an approval policy decides about it: bank" || p.Calls[2].Reason != "a reviewer rejected the same call before" {
		t.Errorf("the reasons: %q, %q", p.Calls[1].Reason, p.Calls[2].Reason)
	}
	w.passes(w.calls, `{"n":1}`, true)
	w.passes(w.calls, `{"n":500}`, false)
	w.passes(w.calls, `{"n":7}`, false)
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateTool(t.Context(), audit.Person(w.reviewer), files.ID, "write", agent.ToolPatch{Risk: new(agent.RiskHigh)})
	check(t, err)
	w.passes(w.calls, `{"n":2}`, false) // its grant does not lift the mark
	if _, err := w.calls.SubmitPlan(t.Context(), w.newPlan(`{"n":1}`)); err == nil {
		t.Error("a plan without a call that it covers was stored")
	}
}

// TestPlanOfALimitedReviewer: a reviewer approves only plans of calls that the reviewer may decide.
func TestPlanOfALimitedReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	w.standingPeople()
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), files.ID, agent.SkillPatch{Team: new("finance")})
	check(t, err)
	p, err := w.calls.SubmitPlan(t.Context(), w.newPlan(`{"n":1}`))
	check(t, err)
	for _, c := range []struct {
		limit identity.Limit
		may   bool
	}{
		{identity.Limit{Skills: []string{"ledger"}}, false},
		{identity.Limit{Teams: []string{"payments"}}, false},
		{identity.Limit{Skills: []string{"files"}, Teams: []string{"finance"}}, true},
	} {
		w.limit(&c.limit)
		_, err := w.calls.DecidePlan(t.Context(), w.reviewer, &agent.PlanDecision{ID: p.ID, Approve: true, Digest: p.Digest()})
		if _, outside := errors.AsType[*identity.LimitError](err); c.may != (err == nil) || c.may == outside {
			t.Errorf("%s: %v", c.limit, err)
		}
	}
}

// TestPlanNotices: reviewers are notified of a plan, with the team of its skill, and of its end.
func TestPlanNotices(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	w := newWorld(t, func(_ *world, c *call.Config) {
		c.Attend = func(_ context.Context, _ pgx.Tx, list []call.Attention) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range list {
				a := &list[i]
				told = append(told, fmt.Sprintf("%s %s %s %s %s", a.Kind, a.Approval.CallID, a.Agent, a.Skill, strings.Join(a.Asked.Teams, ",")))
			}
			return nil
		}
	})
	w.registerSkills(time.Hour)
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), files.ID, agent.SkillPatch{Team: new("finance")})
	check(t, err)
	rejected, err := w.calls.SubmitPlan(t.Context(), w.newPlan(`{"n":1}`, `{"n":2}`))
	check(t, err)
	_, err = w.calls.DecidePlan(t.Context(), w.reviewer, &agent.PlanDecision{ID: rejected.ID, Digest: rejected.Digest()})
	check(t, err)
	cancelled, err := w.calls.SubmitPlan(t.Context(), w.newPlan(`{"n":1}`))
	check(t, err)
	_, err = w.calls.CancelPlan(t.Context(), call.Viewer{}, w.reviewer, cancelled.ID)
	check(t, err)
	expired, err := w.calls.SubmitPlan(t.Context(), w.newPlan(`{"n":1}`))
	check(t, err)
	w.db.Exec(`UPDATE plans SET deadline = holdpoint_now() WHERE id = $1`, expired.ID)
	eventually.Holds(t, "the end of the plan", func() bool { return w.db.Actions(expired.ID) == "plan.submitted plan.expired" })
	want := []string{
		"planned " + rejected.ID.String() + " billing files finance", "settled " + rejected.ID.String() + "   ",
		"planned " + cancelled.ID.String() + " billing files finance", "settled " + cancelled.ID.String() + "   ",
		"planned " + expired.ID.String() + " billing files finance", "settled " + expired.ID.String() + "   ",
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestPlanOfCountedCalls: a call that a rule counts waits on its own, because the rule decides when it is made.
func TestPlanOfCountedCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "budget", Tools: []string{"write"}, When: `args.n > 10.0 && spent("n", "1h") > 100.0`, Effect: rule.Park})
	p := w.approvePlan(w.newPlan(`{"n":1}`, `{"n":50}`))
	if p.Calls[0].Effect != agent.PlanCovers || p.Calls[1].Reason != "a rule counts earlier calls when it is made" {
		t.Errorf("the calls: %+v", p.Calls)
	}
}
