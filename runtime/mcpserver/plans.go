package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// submitPlan records a plan and answers with its id and what it means for each of its calls.
func (x *toolCall) submitPlan(conversation *catalog.Conversation, arguments json.RawMessage) {
	var plan struct {
		Title string `json:"title"`
		Calls []struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
			Note      string          `json:"note"`
		} `json:"calls"`
	}
	if err := json.Unmarshal(arguments, &plan); err != nil {
		x.replyPlanProblem("/title: must be a text\n/calls: must be a list of objects with tool, arguments and note")
		return
	}
	if !x.agent.Plans { // an operator has taken the setting away since the tools were listed
		x.replyText("The plan was not submitted: an operator no longer lets this agent submit plans. Make the calls one by one.", planMeta(uuid.Nil, codeNoPlans))
		return
	}
	sub := call.PlanSubmission{Agent: x.agent, PrincipalID: x.principal, Title: plan.Title, Lookup: conversation.Catalog.Lookup}
	for _, c := range plan.Calls {
		sub.Calls = append(sub.Calls, call.PlannedCall{Tool: c.Tool, Arguments: c.Arguments, Note: c.Note})
	}
	p, err := x.Plans.SubmitPlan(x.r.Context(), &sub)
	if invalid := (*fault.InvalidError)(nil); errors.As(err, &invalid) {
		var lines []string
		for _, f := range invalid.Fields {
			lines = append(lines, f.Name+": "+f.Expected)
		}
		x.replyPlanProblem(strings.Join(lines, "\n"))
		return
	}
	if err != nil {
		x.failInternal("submit plan", err)
		return
	}
	x.replyPlan(&p)
}

func (x *toolCall) replyPlanProblem(lines string) {
	x.replyText("The plan was not submitted. Correct this and submit it again:\n"+lines, planMeta(uuid.Nil, call.CodeInvalidArguments))
}

// checkPlan answers with the status of a plan of the agent, or cancels it.
func (x *toolCall) checkPlan(arguments json.RawMessage) {
	var asked struct {
		ID     string `json:"plan_id"`
		Cancel bool   `json:"cancel"`
	}
	if err := json.Unmarshal(arguments, &asked); err != nil {
		x.replyText("The arguments are not valid:\n/plan_id: must be the id of a plan, as a string\n/cancel: must be true or false", planMeta(uuid.Nil, call.CodeInvalidArguments))
		return
	}
	p, err := x.findPlan(asked.ID, asked.Cancel)
	switch {
	case errors.Is(err, agent.ErrNotFound):
		x.replyText("There is no such plan.", planMeta(uuid.Nil, codePlanNotFound))
	case err != nil:
		x.failInternal("check plan", err)
	default:
		x.replyPlan(&p)
	}
}

// findPlan returns a plan of the agent, after cancelling it if it can be and that was asked.
func (x *toolCall) findPlan(text string, cancel bool) (agent.Plan, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return agent.Plan{}, agent.ErrNotFound
	}
	p, err := x.Plans.GetPlan(x.r.Context(), x.viewer(), id)
	if err != nil || !cancel {
		return p, err
	}
	cancelled, err := x.Plans.CancelPlan(x.r.Context(), x.viewer(), x.principal, id)
	if errors.Is(err, agent.ErrPlanOver) { // the answer says how it ended
		return p, nil
	}
	return cancelled, err
}

// Codes of answers about plans.
const (
	codeNoPlans      = "no_plans"
	codePlanNotFound = "plan_not_found"
)

// planMeta returns the member of an answer's _meta about a plan.
func planMeta(id uuid.UUID, code string) []byte {
	member := map[string]string{"code": code}
	if id != uuid.Nil {
		member["plan_id"] = id.String()
	}
	return append([]byte(`"`+metaPlan+`":`), marshal(member)...)
}

const metaPlan = wire.MetaPrefix + "plan"

// replyPlan answers with a plan in words, for a model.
func (x *toolCall) replyPlan(p *agent.Plan) {
	var text strings.Builder
	fmt.Fprintf(&text, "Plan %s is %s.", p.ID, p.Status)
	switch p.Status {
	case agent.PlanPending:
		fmt.Fprintf(&text, " A person has to decide until %s. Ask %s with {\"plan_id\": %q} for the decision before you make its calls; a call made earlier waits for a person on its own.",
			p.Deadline.UTC().Format(time.RFC3339), catalog.CheckPlanTool, p.ID)
	case agent.PlanApproved:
		fmt.Fprintf(&text, " Make its calls one after another in this order, with exactly these arguments, until %s. If one of them fails, those after it wait for a person.",
			p.EndsAt.UTC().Format(time.RFC3339))
	case agent.PlanRejected, agent.PlanExpired, agent.PlanCancelled, agent.PlanRevoked, agent.PlanEnded:
		text.WriteString(" Its calls do not pass by it. Each of them waits for a person when you make it.")
	}
	if p.Note != "" {
		fmt.Fprintf(&text, " The reviewer says: %s", p.Note)
	}
	for i := range p.Calls {
		text.WriteString("\n" + strconv.Itoa(i+1) + ". " + p.Calls[i].Name + ": " + explainPlanCall(p, i))
	}
	x.reply(toolText(text.String(), planMeta(p.ID, string(p.Status)), x.modern))
}

func explainPlanCall(p *agent.Plan, i int) string {
	c, use := &p.Calls[i], p.Uses[i]
	switch {
	case c.Effect == agent.PlanAllows:
		return "needs no approval"
	case c.Effect == agent.PlanExcepts:
		return "waits for a person when you make it: " + c.Reason
	case p.IsStruck(i):
		return "the reviewer left it out: it waits for a person when you make it"
	case use.CallID != uuid.Nil:
		return "made, as call " + use.CallID.String()
	case p.Status == agent.PlanApproved:
		return "approved, not made yet"
	case p.Status == agent.PlanPending:
		return "passes once the plan is approved"
	}
	return "waits for a person when you make it"
}
