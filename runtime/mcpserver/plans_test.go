package mcpserver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// fakePlans has one plan.
type fakePlans struct {
	plan agent.Plan
	sub  *call.PlanSubmission
	err  error
}

func (f *fakePlans) SubmitPlan(_ context.Context, sub *call.PlanSubmission) (agent.Plan, error) {
	f.sub = sub
	return f.plan, f.err
}

func (f *fakePlans) GetPlan(_ context.Context, _ call.Viewer, id uuid.UUID) (agent.Plan, error) {
	if id != f.plan.ID {
		return agent.Plan{}, agent.ErrNotFound
	}
	return f.plan, nil
}

func (f *fakePlans) CancelPlan(_ context.Context, _ call.Viewer, _, id uuid.UUID) (agent.Plan, error) {
	if id != f.plan.ID {
		return agent.Plan{}, agent.ErrNotFound
	}
	if f.plan.Status != agent.PlanApproved {
		return agent.Plan{}, agent.ErrPlanOver
	}
	f.plan.Status = agent.PlanCancelled
	return f.plan, nil
}

// TestPlans: an agent with the setting submits a plan, reads its state in words, and cancels it.
func TestPlans(t *testing.T) {
	t.Parallel()
	plans := &fakePlans{plan: agent.Plan{
		ID: uuid.New(), Status: agent.PlanPending, Deadline: time.Date(2026, 3, 16, 9, 0, 0, 0, time.UTC),
		Calls: []agent.PlanCall{{Name: "files__echo", Effect: agent.PlanCovers}, {Name: "files__slow", Effect: agent.PlanExcepts, Reason: "of the policy"}},
	}}
	b := newBench(t, func(cfg *mcpserver.Config) { cfg.Plans = plans })
	own := newCatalog(t, echoTool, `{"name":"submit_plan","inputSchema":{"type":"object"}}`, `{"name":"check_plan","inputSchema":{"type":"object"}}`)
	for i := range own.Entries[1:] {
		e := &own.Entries[i+1]
		e.Name, e.SkillID = e.Tool.Name, agent.BuiltinSkill
	}
	b.agents.relist(catalog.NewCatalog(own.Entries))
	do := func(tool, arguments, want string) {
		t.Helper()
		got := b.post(`{"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `},"jsonrpc":"2.0","id":1}`)
		if !strings.Contains(got.body, want) {
			t.Errorf("%s %s: %s, want %s", tool, arguments, got.body, want)
		}
	}
	const plan = `{"title":"t","calls":[{"tool":"files__echo","arguments":{"n":9007199254740993},"note":"why"}]}`
	do(catalog.SubmitPlanTool, plan, `"code":"no_plans"`)
	b.agents.mu.Lock()
	b.agents.agents["billing"].Plans = true
	b.agents.mu.Unlock()
	id := plans.plan.ID.String()
	do(catalog.SubmitPlanTool, plan, `A person has to decide until 2026-03-16T09:00:00Z`)
	if plans.sub == nil || plans.sub.Title != "t" || string(plans.sub.Calls[0].Arguments) != `{"n":9007199254740993}` || plans.sub.Calls[0].Note != "why" {
		t.Fatalf("submitted: %+v", plans.sub)
	}
	if entry, ok := plans.sub.Lookup("files__echo"); !ok || entry.Tool.Name != "echo" {
		t.Error("the plan cannot look tools up")
	}
	do(catalog.CheckPlanTool, `{"plan_id":"`+id+`"}`, `2. files__slow: waits for a person when you make it: of the policy`)
	do(catalog.CheckPlanTool, `{"plan_id":"`+uuid.NewString()+`"}`, `"code":"plan_not_found"`)
	do(catalog.CheckPlanTool, `{"plan_id":7}`, `/plan_id: must be the id of a plan`)
	ends := plans.plan.Deadline
	plans.plan.Status, plans.plan.EndsAt, plans.plan.Uses = agent.PlanApproved, &ends, map[int]agent.PlanUse{0: {CallID: uuid.New()}}
	do(catalog.CheckPlanTool, `{"plan_id":"`+id+`"}`, `1. files__echo: made, as call `)
	do(catalog.CheckPlanTool, `{"plan_id":"`+id+`","cancel":true}`, `is cancelled`)
	do(catalog.CheckPlanTool, `{"plan_id":"`+id+`","cancel":true}`, `is cancelled`)
	plans.err = fault.Invalid("calls[0].tool", "must be known")
	do(catalog.SubmitPlanTool, plan, `calls[0].tool: must be known`)
	do(catalog.SubmitPlanTool, `{"title":7}`, `/title: must be a text`)
}
