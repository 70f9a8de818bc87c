package call_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// escalation records the notices of steps.
type escalation struct {
	mu      sync.Mutex
	notices []string
}

func (e *escalation) attend(_ context.Context, _ pgx.Tx, list []call.Attention) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range list {
		if a := &list[i]; a.Kind == call.Escalated {
			e.notices = append(e.notices, fmt.Sprintf("%d %s %d", a.Step, strings.Join(a.Asked.Teams, "+"), len(a.Asked.People)))
		}
	}
	return nil
}

func (e *escalation) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.notices, ", ")
}

// escalateIn gives the gated skill an hour to decide, and steps.
func (w *world) escalateIn(steps ...agent.EscalationStep) {
	w.t.Helper()
	found, err := w.agents.SkillByName(w.t.Context(), "files")
	check(w.t, err)
	hour := agent.Duration(time.Hour)
	_, err = w.agents.UpdateSkill(w.t.Context(), audit.System(), found.ID, agent.SkillPatch{ApprovalTimeout: &hour, Escalation: &steps})
	check(w.t, err)
}

// runEscalations makes the jobs of escalations available now, several times each.
func (w *world) runEscalations() {
	w.t.Helper()
	w.db.Exec(`INSERT INTO river_job (args, kind, max_attempts, queue, state, scheduled_at)
		SELECT args, kind, max_attempts, queue, 'available', now() FROM river_job, generate_series(1, 4) WHERE kind = 'call_escalation' AND finalized_at IS NULL`)
	w.db.Exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'call_escalation' AND state = 'scheduled'`)
}

// waitForSteps waits until a number of steps is taken, and the jobs rest.
func (w *world) waitForSteps(id uuid.UUID, n int) approval.Approval {
	w.t.Helper()
	eventually.Holds(w.t, fmt.Sprint(n, " steps are taken"), func() bool {
		return len(w.getApproval(id).Approval.EscalatedTimes) == n &&
			w.db.Count(`river_job WHERE kind = 'call_escalation' AND (state IN ('available', 'running', 'retryable') OR state = 'scheduled' AND scheduled_at < now())`) == 0
	})
	return w.getApproval(id).Approval
}

// TestStepsOfAnEscalation: each step is taken once, also if several jobs of two processes come at the same time.
func TestStepsOfAnEscalation(t *testing.T) {
	t.Parallel()
	var told escalation
	w := newWorld(t, func(_ *world, c *call.Config) { c.Attend = told.attend })
	w.start()
	ann, blocked := uuid.New(), uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name, email, blocked_at) VALUES ($1, 'i', 'ann', 'Ann', 'Ann@example.com', NULL), ($2, 'i', 'x', 'ann@example.com', NULL, now())`, ann, blocked)
	w.escalateIn(agent.EscalationStep{After: "10m", Teams: []string{"duty"}}, agent.EscalationStep{After: "50%", Teams: []string{"leads", "duty"}, People: []string{"ann@example.com", "nobody"}})
	id := w.submit("files__write", `{"n":1}`).ID
	planned := w.getApproval(id).Approval
	if plan := planned.Plan(); len(plan) != 2 || plan[1].At.Sub(plan[0].At).Round(time.Second) != 20*time.Minute {
		t.Fatalf("plan %+v", plan)
	}
	w.runEscalations() // too early
	w.waitForSteps(id, 0)
	if queue, _, err := w.calls.ListQueue(t.Context(), approval.QueueFilter{Team: "duty", Limit: 10}); err != nil || len(queue) != 0 {
		t.Errorf("asked immediately: %v, %v", queue, err)
	}
	w.db.MoveClock("11 minutes")
	w.runEscalations()
	if a := w.waitForSteps(id, 1); !a.Asks([]string{"duty"}) || a.Asks([]string{"leads"}, ann) || a.EscalatedAt == nil {
		t.Errorf("after the first step: %+v", a)
	}
	w.db.MoveClock("31 minutes")
	w.runEscalations()
	a := w.waitForSteps(id, 2)
	if !a.Asks([]string{"leads"}) || !slices.Equal(a.AskedTeams, []string{"duty", "leads"}) || !slices.Equal(a.AskedPeople, []uuid.UUID{ann}) {
		t.Errorf("after the second step: %+v", a)
	}
	if got := told.String(); got != "1 duty 0, 2 leads+duty 1" {
		t.Errorf("told %s", got)
	}
	if got := w.db.Actions(id); got != "call.parked approval.escalated approval.escalated" {
		t.Errorf("audit log: %s", got)
	}
	for _, f := range []approval.QueueFilter{{Team: "leads"}, {Teams: []string{"leads"}}, {People: []uuid.UUID{ann}}} {
		f.Limit = 10
		queue, _, err := w.calls.ListQueue(t.Context(), f)
		check(t, err)
		counts, err := w.calls.CountQueue(t.Context(), f)
		check(t, err)
		if len(queue) != 1 || f.Team == "" && (counts.Own != 1 || f.PositionOf(&queue[0].Approval).Others) {
			t.Errorf("%+v: %d calls, %+v", f, len(queue), counts)
		}
	}
	if asked, err := w.calls.AsksPeople(t.Context()); err != nil || !asked {
		t.Errorf("a person is asked: %t, %v", asked, err)
	}
}

// TestEscalationFollowsTheDeadline: an extension moves later steps, and people who are asked again get all steps again.
func TestEscalationFollowsTheDeadline(t *testing.T) {
	t.Parallel()
	var told escalation
	w := newWorld(t, func(_ *world, c *call.Config) { c.Attend = told.attend })
	w.escalateIn(agent.EscalationStep{After: "50%", Teams: []string{"duty"}})
	id := w.submit("files__write", `{"n":2}`).ID
	w.db.MoveClock("20 minutes")
	_, err := w.calls.Extend(t.Context(), id, w.reviewer)
	check(t, err)
	w.db.MoveClock("40 minutes") // the former half of the time is over
	w.runEscalations()
	w.waitForSteps(id, 0)
	w.db.MoveClock("65 minutes")
	w.runEscalations()
	w.waitForSteps(id, 1)

	w.setRule(rule.Spec{Name: "ask-twos", When: `args.n == 2.0`, Effect: rule.Park})
	check(t, w.decide(id, true))
	w.waitForStatus(id, call.Parked)
	a := w.getApproval(id).Approval
	if a.EscalatedAt != nil || a.Asks([]string{"duty"}) || a.Plan()[0].Taken || a.Plan()[0].At.Sub(a.AskedAt).Round(time.Second) != 30*time.Minute {
		t.Errorf("asked again: %+v", a)
	}
	w.db.MoveClock("96 minutes")
	w.runEscalations()
	w.waitForSteps(id, 1)
	if got := told.String(); got != "1 duty 0, 1 duty 0" {
		t.Errorf("told %s", got)
	}
}

// TestUndoKeepsTheEscalation: the job of a step that finds the call approved does nothing. If the approval is taken back, the step comes.
func TestUndoKeepsTheEscalation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.escalateIn(agent.EscalationStep{After: "10m", Teams: []string{"duty"}})
	id := w.submit("files__write", `{"n":1}`).ID
	w.approveWithUndo(id)
	w.db.MoveClock("11 minutes")
	w.db.Exec(`UPDATE approvals SET approved_until = holdpoint_now() + interval '1 hour', undo_until = holdpoint_now() + interval '1 hour' WHERE call_id = $1`, id)
	w.runEscalations()
	w.waitForSteps(id, 0)
	_, err := w.calls.Undo(t.Context(), id, w.reviewer)
	check(t, err)
	w.runEscalations()
	w.waitForSteps(id, 1)
}

// TestEscalationOfTheSkillWins: the agent's steps count only if the skill has none and no second team.
func TestEscalationOfTheSkillWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := []agent.EscalationStep{{After: "1m", Teams: []string{"agents"}}}
	_, err := w.agents.UpdateAgent(t.Context(), audit.System(), w.agent.ID, agent.AgentPatch{Escalation: &steps})
	check(t, err)
	w.agent = w.registry.Agent("billing")
	planned := func(arguments string) string {
		t.Helper()
		a := w.getApproval(w.submit("files__write", arguments).ID).Approval
		return approval.FormatEscalation(a.Escalation) + a.EscalateTo
	}
	if got := planned(`{"n":1}`); got != "1m: agents" {
		t.Errorf("of the agent: %s", got)
	}
	w.escalateIn(agent.EscalationStep{After: "2m", Teams: []string{"skills"}})
	if got := planned(`{"n":2}`); got != "2m: skills" {
		t.Errorf("of the skill: %s", got)
	}
	found, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	if _, err := w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{EscalateTo: new("duty")}); err == nil || !strings.Contains(err.Error(), "escalate_to") {
		t.Errorf("both: %v", err)
	}
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{EscalateTo: new("duty"), Escalation: &[]agent.EscalationStep{}})
	check(t, err)
	if got := planned(`{"n":3}`); got != "duty" {
		t.Errorf("the short form: %s", got)
	}
}
