package review

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

type planHandlers struct {
	*rest.Directory

	calls   *call.Service
	catalog *catalog.Service
}

// Plan is a list of calls to come, which a reviewer approves at once.
type Plan struct {
	ID        uuid.UUID        `json:"id" format:"uuid"`
	Status    agent.PlanStatus `json:"status" enum:"pending,approved,rejected,expired,cancelled,revoked,ended"`
	Agent     string           `json:"agent"`
	Principal *rest.PersonName `json:"principal" doc:"Its calls are on behalf of this person; null: they name no person."`
	Title     string           `json:"title"`
	Calls     []PlanCall       `json:"calls" nullable:"false" doc:"In the order in which they pass."`
	Digest    string           `json:"digest" doc:"A decision has to carry it."`
	CreatedAt time.Time        `json:"created_at"`
	Deadline  time.Time        `json:"deadline" doc:"Until when a reviewer may decide."`
	DecidedAt *time.Time       `json:"decided_at"`
	DecidedBy *rest.PersonName `json:"decided_by"`
	Note      *string          `json:"note" doc:"Of the decision, for the agent."`
	EndsAt    *time.Time       `json:"ends_at" doc:"When the approved plan ends."`
	ClosedAt  *time.Time       `json:"closed_at" doc:"When it was cancelled or revoked."`
	ClosedBy  *rest.PersonName `json:"closed_by"`
}

// PlanCall is a call of a plan.
type PlanCall struct {
	Tool      string           `json:"tool" doc:"As the agent sees it."`
	Skill     string           `json:"skill"`
	SkillTool string           `json:"skill_tool" doc:"The skill's own name for the tool."`
	Arguments json.RawMessage  `json:"arguments"`
	Note      *string          `json:"note"`
	Effect    agent.PlanEffect `json:"effect" enum:"covered,allowed,waits" doc:"covered: it passes once after the plan is approved. allowed: it needs no approval. waits: it waits for a reviewer when it is made."`
	Reason    *string          `json:"reason" doc:"Why it waits; null: it does not."`
	Struck    bool             `json:"struck" doc:"Whether the reviewer left it out: it waits for a reviewer when it is made."`
	GrantID   *uuid.UUID       `json:"grant_id" format:"uuid" doc:"The grant of an approved plan's call."`
	CallID    *uuid.UUID       `json:"call_id" format:"uuid" doc:"The call that passed by the plan; null: none so far."`
	Evidence  []Evidence       `json:"evidence" nullable:"false" doc:"For reviewers and operators, one entry for each argument of a call of a pending plan, compared with approved calls of the tool. Empty in lists."`
}

func (h *planHandlers) planViews(ctx context.Context, plans ...agent.Plan) (func(agent.Plan) Plan, error) {
	var people []uuid.UUID
	for i := range plans {
		people = append(people, plans[i].PrincipalID, plans[i].DecidedBy, plans[i].ClosedBy)
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	return func(p agent.Plan) Plan {
		view := Plan{
			ID: p.ID, Status: p.Status, Agent: p.Agent, Principal: names.RefOf(p.PrincipalID), Title: p.Title, Calls: make([]PlanCall, len(p.Calls)), Digest: p.Digest(),
			CreatedAt: p.CreatedAt.UTC(), Deadline: p.Deadline.UTC(), DecidedAt: rest.UTCOrNull(p.DecidedAt), DecidedBy: names.RefOf(p.DecidedBy), Note: rest.OrNull(p.Note),
			EndsAt: rest.UTCOrNull(p.EndsAt), ClosedAt: rest.UTCOrNull(p.ClosedAt), ClosedBy: names.RefOf(p.ClosedBy),
		}
		for i := range p.Calls {
			c, use := &p.Calls[i], p.Uses[i]
			view.Calls[i] = PlanCall{
				Tool: c.Name, Skill: c.Skill, SkillTool: c.Tool, Arguments: c.Arguments, Note: rest.OrNull(c.Note), Effect: c.Effect, Reason: rest.OrNull(c.Reason),
				Struck: p.IsStruck(i), GrantID: postgres.OrNull(use.GrantID), CallID: postgres.OrNull(use.CallID), Evidence: []Evidence{},
			}
		}
		return view
	}, nil
}

func (h *planHandlers) onePlan(ctx context.Context, p agent.Plan, err error) (*rest.Output[Plan], error) {
	switch {
	case errors.Is(err, agent.ErrPlanOver):
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeAlreadyDecided, "the plan was decided, or is over")
	case errors.Is(err, agent.ErrPlanDigest):
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeDigestMismatch, "the digest is not the plan's: fetch it again")
	case err != nil:
		return nil, err
	}
	view, err := h.planViews(ctx, p)
	if err != nil {
		return nil, err
	}
	answer := rest.NewOutput(view(p))
	if p.Status != agent.PlanPending || !rest.CallerOf(ctx).SeesAll() {
		return answer, nil
	}
	for i, c := range call.ListPlanCalls(&p) {
		entries, err := h.calls.ReadEvidence(ctx, &c)
		if err != nil {
			return nil, err
		}
		answer.Body.Calls[i].Evidence = listEvidence(entries)
	}
	return answer, nil
}

type submitPlanInput struct {
	Body struct {
		Agent string        `json:"agent,omitempty" doc:"The agent that you act as. Agents omit it."`
		Title string        `json:"title" doc:"What the plan is for, in a few words."`
		Calls []PlannedCall `json:"calls" nullable:"false" doc:"1 to 50 calls, in the order in which they will be made."`
	} `nameHint:"PlanRequest"`
}

// PlannedCall is a call to come.
type PlannedCall struct {
	Tool      string          `json:"tool" doc:"The tool's name as the agent sees it."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"An object: exactly the arguments that the call will have."`
	Note      string          `json:"note,omitempty" doc:"For the reviewer."`
}

var errNoPlans = rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "this agent may not submit plans: an operator has to set plans")

func (h *planHandlers) submitPlan(ctx context.Context, input *submitPlanInput) (*rest.Output[Plan], error) {
	viewer, err := h.OwnViewer(ctx, input.Body.Agent)
	if err != nil {
		return nil, err
	}
	a, err := h.Agents.AgentByID(ctx, viewer.AgentID)
	if err != nil {
		return nil, err
	}
	if !a.Plans {
		return nil, errNoPlans
	}
	offered, _, err := h.catalog.Preview(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	sub := call.PlanSubmission{Agent: a, PrincipalID: viewer.PrincipalID, Title: input.Body.Title, Lookup: offered.Lookup}
	for _, c := range input.Body.Calls {
		sub.Calls = append(sub.Calls, call.PlannedCall{Tool: c.Tool, Arguments: c.Arguments, Note: c.Note})
	}
	p, err := h.calls.SubmitPlan(ctx, &sub)
	return h.onePlan(ctx, p, rest.InPart("body", err))
}

type listPlansInput struct {
	All bool `query:"all" doc:"Also those that were decided or are over."`
}

// listPlans has no pages: it lists the newest [agent.MaxListedPlans].
func (h *planHandlers) listPlans(ctx context.Context, input *listPlansInput) (*rest.ListOutput[Plan], error) {
	plans, err := h.Agents.ListPlans(ctx, !input.All, agent.MaxListedPlans)
	if err != nil {
		return nil, err
	}
	view, err := h.planViews(ctx, plans...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(plans, "", view), nil
}

// visiblePlan returns a plan that the caller may see, and as whom. To other callers it does not exist.
func (h *planHandlers) visiblePlan(ctx context.Context, text string) (agent.Plan, call.Viewer, error) {
	id, err := rest.ParseID("plan", text)
	if err != nil {
		return agent.Plan{}, call.Viewer{}, err
	}
	p, err := h.Agents.GetPlan(ctx, id)
	if err != nil {
		return p, call.Viewer{}, rest.WithName(err, "plan", text)
	}
	who := rest.CallerOf(ctx)
	own := p.PrincipalID == who.PersonID() && (who.Agent != nil && who.Agent.ID == p.AgentID || who.Agent == nil && who.Person.MayActAs(p.Agent))
	switch {
	case own:
		return p, who.ViewerAs(p.AgentID), nil
	case who.SeesAll():
		return p, call.Viewer{}, nil
	}
	return p, call.Viewer{}, rest.NotFound("plan", text)
}

func (h *planHandlers) getPlan(ctx context.Context, input *rest.ByID) (*rest.Output[Plan], error) {
	p, _, err := h.visiblePlan(ctx, input.ID)
	return h.onePlan(ctx, p, err)
}

func (h *planHandlers) cancelPlan(ctx context.Context, input *rest.ByID) (*rest.Output[Plan], error) {
	p, viewer, err := h.visiblePlan(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	who := rest.CallerOf(ctx)
	if all := viewer == (call.Viewer{}); all && !who.HasRole(identity.Operator) {
		return nil, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "only the caller that submitted a plan, or an operator, can cancel it")
	}
	p, err = h.calls.CancelPlan(ctx, viewer, who.PersonID(), p.ID)
	return h.onePlan(ctx, p, err)
}

type approvePlanInput struct {
	rest.ByID
	Body struct {
		Digest string         `json:"digest" doc:"Of the plan that you saw."`
		Strike []int          `json:"strike,omitempty" doc:"The calls that you leave out, counted from 0: they wait for a reviewer when they are made."`
		Time   agent.Duration `json:"time,omitempty" doc:"How long the plan lasts: 8h, the default. At most the server's max_grant_time."`
		Note   string         `json:"note,omitempty" doc:"For the agent."`
	} `nameHint:"ApprovePlanRequest"`
}

func (h *planHandlers) approvePlan(ctx context.Context, input *approvePlanInput) (*rest.Output[Plan], error) {
	return h.decidePlan(ctx, input.ID, &agent.PlanDecision{
		Approve: true, Digest: input.Body.Digest, Note: input.Body.Note, Strike: input.Body.Strike, Time: time.Duration(input.Body.Time),
	})
}

type rejectPlanInput struct {
	rest.ByID
	Body struct {
		Digest string `json:"digest" doc:"Of the plan that you saw."`
		Reason string `json:"reason,omitempty" doc:"For the agent."`
	} `nameHint:"RejectPlanRequest"`
}

func (h *planHandlers) rejectPlan(ctx context.Context, input *rejectPlanInput) (*rest.Output[Plan], error) {
	return h.decidePlan(ctx, input.ID, &agent.PlanDecision{Digest: input.Body.Digest, Note: input.Body.Reason})
}

func (h *planHandlers) decidePlan(ctx context.Context, text string, d *agent.PlanDecision) (*rest.Output[Plan], error) {
	id, err := rest.ParseID("plan", text)
	if err != nil {
		return nil, err
	}
	d.ID = id
	p, err := h.calls.DecidePlan(ctx, rest.CallerOf(ctx).PersonID(), d)
	return h.onePlan(ctx, p, rest.InPart("body", rest.WithName(err, "plan", text)))
}

func (h *planHandlers) revokePlan(ctx context.Context, input *rest.ByID) (*rest.Output[Plan], error) {
	id, err := rest.ParseID("plan", input.ID)
	if err != nil {
		return nil, err
	}
	p, err := h.Agents.RevokePlan(ctx, rest.CallerOf(ctx).Actor(), id)
	return h.onePlan(ctx, p, rest.WithName(err, "plan", input.ID))
}
