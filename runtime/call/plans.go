package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// planGoesOn is an SQL condition: all earlier calls of the plan of grant g succeeded. After one that did not, the rest waits for people.
const planGoesOn = `NOT EXISTS (SELECT FROM (` + agent.EarlierInPlan + `) AS earlier LEFT JOIN calls c ON c.id = earlier.used_call
	WHERE c.status IS DISTINCT FROM '` + string(Succeeded) + `')`

// PlanSubmission is a plan as an agent, or a person with it, submits it.
type PlanSubmission struct {
	Agent       *agent.Agent
	PrincipalID uuid.UUID // uuid.Nil: none
	Title       string
	Calls       []PlannedCall
	Lookup      func(name string) (*catalog.Entry, bool) // of a tool, by the name that the agent sees
}

// PlannedCall is a call to come.
type PlannedCall struct {
	Tool      string // as the agent sees it
	Arguments json.RawMessage
	Note      string
}

// SubmitPlan validates and judges the calls of a plan as if they were made, records the plan, and notifies reviewers. Nothing is sent. A call that
// would be denied makes the plan invalid. Error: *fault.InvalidError.
func (s *Service) SubmitPlan(ctx context.Context, sub *PlanSubmission) (agent.Plan, error) {
	p := agent.NewPlan{AgentID: sub.Agent.ID, PrincipalID: sub.PrincipalID, Title: strings.TrimSpace(sub.Title)}
	invalid := checkPlanTexts(sub, p.Title)
	var timeouts []time.Duration // of the skills of p.Calls
	if len(invalid) == 0 {
		for i := range sub.Calls {
			planned, timeout, problem, err := s.planCall(ctx, sub, &sub.Calls[i])
			if err != nil {
				return agent.Plan{}, fmt.Errorf("submit plan: %w", err)
			}
			if problem != nil {
				invalid = append(invalid, fault.Field{Name: fmt.Sprintf("calls[%d].%s", i, problem.Name), Expected: problem.Expected})
				continue
			}
			p.Calls, timeouts = append(p.Calls, planned), append(timeouts, timeout)
		}
	}
	rejected, err := s.findRejected(ctx, p.AgentID, p.PrincipalID, p.Calls)
	if err != nil {
		return agent.Plan{}, fmt.Errorf("submit plan: %w", err)
	}
	for i := range p.Calls {
		if c := &p.Calls[i]; rejected[i] {
			c.Effect, c.Reason = agent.PlanExcepts, "a reviewer rejected the same call before"
		} else if c.Effect == agent.PlanCovers {
			p.Timeout = max(p.Timeout, timeouts[i])
		}
	}
	if len(invalid) == 0 && !slices.ContainsFunc(p.Calls, func(c agent.PlanCall) bool { return c.Effect == agent.PlanCovers }) {
		invalid = append(invalid, fault.Field{Name: "calls", Expected: "must have a call that a plan can cover: the others need no approval, or wait for people on their own"})
	}
	if len(invalid) > 0 {
		return agent.Plan{}, fmt.Errorf("submit plan: %w", &fault.InvalidError{Fields: invalid})
	}
	notices, err := s.listPlanNotices(ctx, &agent.Plan{AgentID: p.AgentID, PrincipalID: p.PrincipalID, Calls: p.Calls})
	if err != nil {
		return agent.Plan{}, fmt.Errorf("submit plan: %w", err)
	}
	return s.Agents.CreatePlan(ctx, Viewer{sub.Agent.ID, sub.PrincipalID}.auditActor(), &p, func(ctx context.Context, tx pgx.Tx, made *agent.Plan) error {
		for i := range notices {
			notices[i].Approval.CallID, notices[i].Deadline = made.ID, made.Deadline
		}
		return s.notifyPeople(ctx, tx, notices...)
	})
}

func checkPlanTexts(sub *PlanSubmission, title string) (invalid []fault.Field) {
	check := func(ok bool, field, expected string) {
		if !ok {
			invalid = append(invalid, fault.Field{Name: field, Expected: expected})
		}
	}
	isText := func(s string, limit int) bool {
		return utf8.ValidString(s) && len([]rune(s)) <= limit && !strings.ContainsRune(s, 0)
	}
	check(title != "" && isText(title, agent.MaxPlanTitle), "title", fmt.Sprintf("must be 1 to %d characters", agent.MaxPlanTitle))
	check(len(sub.Calls) > 0 && len(sub.Calls) <= agent.MaxPlanCalls, "calls", fmt.Sprintf("must be 1 to %d calls", agent.MaxPlanCalls))
	size := 0
	for i := range sub.Calls {
		size += len(sub.Calls[i].Arguments)
		check(isText(sub.Calls[i].Note, agent.MaxPlanNote), fmt.Sprintf("calls[%d].note", i), fmt.Sprintf("must be at most %d characters", agent.MaxPlanNote))
	}
	check(size <= agent.MaxPlanSize, "calls", fmt.Sprintf("must have at most %d bytes of arguments in all", agent.MaxPlanSize))
	return invalid
}

// planCall judges a call to come. It returns the approval timeout of its skill, or what is invalid.
func (s *Service) planCall(ctx context.Context, sub *PlanSubmission, in *PlannedCall) (agent.PlanCall, time.Duration, *fault.Field, error) {
	entry, known := sub.Lookup(in.Tool)
	if !known || entry.IsBuiltin() {
		return agent.PlanCall{}, 0, &fault.Field{Name: "tool", Expected: "must be the name of one of the agent's tools"}, nil
	}
	raw := in.Arguments
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	arguments, err := CleanArguments(raw)
	if refused := (*DoorError)(nil); errors.As(err, &refused) {
		return agent.PlanCall{}, 0, &fault.Field{Name: "arguments" + refused.Pointer, Expected: refused.Reason}, nil
	} else if err != nil {
		return agent.PlanCall{}, 0, &fault.Field{Name: "arguments", Expected: err.Error()}, nil //nolint:nilerr // the plan is invalid
	}
	skill, server, err := s.Agents.Skill(ctx, entry.SkillID)
	if err != nil {
		return agent.PlanCall{}, 0, nil, err
	}
	c, err := newCall(&Submission{Agent: sub.Agent, PrincipalID: sub.PrincipalID, Entry: entry, Arguments: arguments}, skill)
	if err != nil {
		return agent.PlanCall{}, 0, nil, err
	}
	a, err := s.admitCall(ctx, c, skill, server, entry.Tool)
	if err != nil {
		return agent.PlanCall{}, 0, nil, err
	}
	if a.refusal != nil {
		return agent.PlanCall{}, 0, explainRefused(a.refusal), nil
	}
	planned := agent.PlanCall{
		Name: entry.Name, SkillID: c.SkillID, Skill: c.Skill, Tool: c.Tool, Pin: c.Pin, Arguments: c.AgentArguments(), Note: in.Note, Effect: agent.PlanAllows,
	}
	if a.open != nil || a.verdict.Action == approval.Park {
		planned.Effect = agent.PlanCovers
		if planned.Reason, err = s.explainUncovered(ctx, c, a); planned.Reason != "" {
			planned.Effect = agent.PlanExcepts
		}
	}
	return planned, skill.ApprovalTimeout, nil, err
}

// explainRefused returns the part of a planned call that is wrong.
func explainRefused(r *refusal) *fault.Field {
	if r.status == Invalid {
		return &fault.Field{Name: "arguments", Expected: "must be valid: " + r.message}
	}
	return &fault.Field{Name: "tool", Expected: "must be one whose call is not denied: " + r.message}
}

// explainUncovered returns why a plan cannot cover a call that would be parked. Empty: it can.
func (s *Service) explainUncovered(ctx context.Context, c *Call, a *admission) (string, error) {
	if why := explainNoGrants(c, a); why != "" {
		return why, nil
	}
	secrets, err := s.ReadSecrets(ctx, *c)
	if err != nil {
		return "", err
	}
	if secrets[c.ID].Count(c.Arguments) > 0 {
		return "its arguments have a secret", nil
	}
	if _, err := grant.ProposeExact(c.Arguments); err != nil {
		return "its arguments are too large or too many to be compared", nil //nolint:nilerr // that is the reason
	}
	return "", nil
}

// findRejected returns the indexes of the covered calls of a plan like which a reviewer rejected a call, or for which too many rejected calls would
// have to be compared. The rejected calls of each tool are read once.
func (s *Service) findRejected(ctx context.Context, agentID, principal uuid.UUID, calls []agent.PlanCall) (map[int]bool, error) {
	found, tools := map[int]bool{}, map[approval.Scope]map[string][]int{} // by tool, by the canonical form of the arguments
	for i := range calls {
		c := &calls[i]
		if c.Effect != agent.PlanCovers {
			continue
		}
		scope := approval.Scope{AgentID: agentID, PrincipalID: principal, SkillID: c.SkillID, Tool: c.Tool}
		if tools[scope] == nil {
			tools[scope] = map[string][]int{}
		}
		form := grant.CanonicalForm(c.Arguments)
		tools[scope][form] = append(tools[scope][form], i)
	}
	for scope, forms := range tools {
		rejected, err := approval.ListScope(ctx, s.Pool, scope, []approval.Status{approval.Rejected}, maxGrantRejected)
		if err != nil {
			return nil, err
		}
		mark := func(indexes []int) {
			for _, i := range indexes {
				found[i] = true
			}
		}
		if len(rejected) == maxGrantRejected {
			for _, indexes := range forms {
				mark(indexes)
			}
			continue
		}
		if err := s.eachDecided(ctx, rejected, func(_ GrantMatch, arguments json.RawMessage) { mark(forms[grant.CanonicalForm(arguments)]) }); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// listPlanNotices returns the notices about a plan, one for each skill of the calls that it covers. Their approvals say who may decide.
func (s *Service) listPlanNotices(ctx context.Context, p *agent.Plan) ([]Attention, error) {
	by, err := s.Agents.AgentByID(ctx, p.AgentID)
	if errors.Is(err, agent.ErrNotFound) {
		by, err = &agent.Agent{}, nil // it was deleted since
	}
	if err != nil {
		return nil, err
	}
	var notices []Attention
	for i := range p.Calls {
		c := &p.Calls[i]
		if c.Effect != agent.PlanCovers || slices.ContainsFunc(notices, func(a Attention) bool { return a.Approval.SkillID == c.SkillID }) {
			continue
		}
		skill, _, err := s.Agents.Skill(ctx, c.SkillID)
		if errors.Is(err, agent.ErrNotFound) {
			skill, err = &agent.Skill{}, nil
		}
		if err != nil {
			return nil, err
		}
		notices = append(notices, newAttention(Planned, &Call{Agent: by.Name, Skill: c.Skill}, &approval.Approval{
			CallID: p.ID, AgentID: p.AgentID, PrincipalID: p.PrincipalID, SkillID: c.SkillID, Team: cmp.Or(skill.Team, by.Team),
			Status: approval.Pending, CreatedAt: p.CreatedAt, Deadline: p.Deadline,
		}))
	}
	return notices, nil
}

// DecidePlan approves or rejects a plan for a reviewer. Errors: those of [agent.Service.DecidePlan] and of [Service.CheckPlanDecider],
// *fault.InvalidError.
func (s *Service) DecidePlan(ctx context.Context, by uuid.UUID, d *agent.PlanDecision) (agent.Plan, error) {
	p, err := s.Agents.GetPlan(ctx, d.ID)
	if err != nil {
		return p, err
	}
	if err := s.CheckPlanDecider(ctx, &p, by); err != nil {
		return p, fmt.Errorf("decide plan %s: %w", d.ID, err)
	}
	if err := s.checkPlanDecision(ctx, &p, d); err != nil {
		return p, fmt.Errorf("decide plan %s: %w", d.ID, err)
	}
	return s.Agents.DecidePlan(ctx, audit.Person(by), d, s.notifyOfEnd)
}

// notifyOfEnd notifies people that a plan does not wait any more.
func (s *Service) notifyOfEnd(ctx context.Context, tx pgx.Tx, p *agent.Plan) error {
	return s.notifyPeople(ctx, tx, newSettledAttention(approval.Approval{CallID: p.ID, PrincipalID: p.PrincipalID, Deadline: p.Deadline}))
}

func (s *Service) checkPlanDecision(ctx context.Context, p *agent.Plan, d *agent.PlanDecision) error {
	if len([]rune(d.Note)) > agent.MaxPlanNote || strings.ContainsRune(d.Note, 0) {
		return fault.Invalid("note", fmt.Sprintf("must be at most %d characters", agent.MaxPlanNote))
	}
	if !d.Approve {
		return nil
	}
	slices.Sort(d.Strike)
	d.Strike = slices.Compact(d.Strike)
	for _, i := range d.Strike {
		if i < 0 || i >= len(p.Calls) {
			return fault.Invalid("strike", fmt.Sprintf("must be numbers of calls, from 0 to %d", len(p.Calls)-1))
		}
	}
	rejected, err := s.findRejected(ctx, p.AgentID, p.PrincipalID, p.Calls)
	if err != nil {
		return err
	}
	covered := 0
	for i := range p.Calls {
		if p.Calls[i].Effect != agent.PlanCovers || slices.Contains(d.Strike, i) {
			continue
		}
		if covered++; rejected[i] {
			return fault.Invalid("strike", fmt.Sprintf("must have %d: a reviewer rejected the same call since the plan was submitted", i))
		}
	}
	if covered == 0 {
		return fault.Invalid("strike", "must leave a call that the plan covers; reject the plan instead")
	}
	return nil
}

// CheckPlanDecider returns an error if a reviewer may not decide a plan: one who may not decide each call that it covers.
// Errors: approval.ErrSelfApproval, approval.ErrInvitedApproval, *identity.LimitError.
func (s *Service) CheckPlanDecider(ctx context.Context, p *agent.Plan, by uuid.UUID) error {
	notices, err := s.listPlanNotices(ctx, p)
	if err != nil {
		return err
	}
	for i := range notices {
		if err := s.checkConflictOfInterest(ctx, s.Pool, &notices[i].Approval, by); err != nil {
			return err
		}
	}
	return nil
}

// ListPlanCalls returns the calls of a plan as if they were made, for their secrets and their evidence. The ids are of no stored calls.
func ListPlanCalls(p *agent.Plan) []Call {
	calls := make([]Call, len(p.Calls))
	for i := range p.Calls {
		c := &p.Calls[i]
		calls[i] = Call{
			ID: uuid.NewSHA1(p.ID, []byte{byte(i)}), AgentID: p.AgentID, Agent: p.Agent, PrincipalID: p.PrincipalID, SkillID: c.SkillID, Skill: c.Skill,
			Tool: c.Tool, Pin: c.Pin, Arguments: c.Arguments,
		}
	}
	return calls
}

// GetPlan returns a plan. ErrNotFound of package agent: an agent sees only its own plans for the same principal.
func (s *Service) GetPlan(ctx context.Context, viewer Viewer, id uuid.UUID) (agent.Plan, error) {
	p, err := s.Agents.GetPlan(ctx, id)
	if err == nil && viewer.AgentID != uuid.Nil && viewer != (Viewer{p.AgentID, p.PrincipalID}) {
		err = fmt.Errorf("read plan %s: %w", id, agent.ErrNotFound)
	}
	return p, err
}

// CancelPlan ends a plan, pending or approved. by is the person who cancels it; uuid.Nil: the agent. Errors: those of [Service.GetPlan],
// agent.ErrPlanOver.
func (s *Service) CancelPlan(ctx context.Context, viewer Viewer, by, id uuid.UUID) (agent.Plan, error) {
	p, err := s.GetPlan(ctx, viewer, id)
	if err != nil {
		return p, err
	}
	return s.Agents.CancelPlan(ctx, Viewer{p.AgentID, by}.auditActor(), id, s.notifyOfEnd)
}
