package review

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ExplainPlanError explains why a plan cannot be decided or revoked.
func ExplainPlanError(_ *http.Request, err error) (status int, n view.Notice, ok bool) {
	switch {
	case errors.Is(err, agent.ErrPlanOver):
		return http.StatusConflict, view.Notice{Level: view.Warn, Title: text.PlansOver(), Text: text.PlansOverHelp()}, true
	case errors.Is(err, agent.ErrPlanDigest):
		return http.StatusConflict, view.Notice{Level: view.Warn, Title: text.PlansStale(), Text: text.PlansOverHelp()}, true
	}
	return 0, n, false
}

// ShowPlans lists the pending plans, or all.
func (h *PlanHandler) ShowPlans(w http.ResponseWriter, r *http.Request) {
	l := PlanList{All: r.URL.Query().Get("all") != ""}
	plans, err := h.agents.ListPlans(r.Context(), !l.All, agent.MaxListedPlans)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	names, err := h.namePeople(r.Context(), plans...)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for i := range plans {
		l.Rows = append(l.Rows, presentPlanRow(&plans[i], names))
	}
	page, err := h.newPage(r, text.PlansTitle())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, PlanListPage(page, l))
}

func (h *PlanHandler) newPage(r *http.Request, title text.Message) (view.Page, error) {
	pulse, err := h.calls.ReadPulse(r.Context())
	return h.Page(r, view.SectionPlans, title, pulse), err
}

func (h *PlanHandler) namePeople(ctx context.Context, plans ...agent.Plan) (map[uuid.UUID]string, error) {
	var people []uuid.UUID
	for i := range plans {
		people = append(people, plans[i].PrincipalID, plans[i].DecidedBy, plans[i].ClosedBy)
	}
	return h.Names(ctx, people...)
}

func presentPlanRow(p *agent.Plan, names map[uuid.UUID]string) PlanRow {
	return PlanRow{
		URL: present.PlanURL(p.ID), Title: p.Title, Agent: p.Agent, Person: present.PersonName(p.PrincipalID, names), Count: text.PlansCount(len(p.Calls)),
		Badge: planBadge(p.Status), Deadline: p.Deadline,
	}
}

func planBadge(status agent.PlanStatus) view.Badge {
	switch status {
	case agent.PlanPending:
		return view.Badge{Word: text.PlansPending(), Icon: "queue", Level: view.Info}
	case agent.PlanApproved:
		return view.Badge{Word: text.PlansApproved(), Icon: "good", Level: view.Good}
	case agent.PlanRejected:
		return view.Badge{Word: text.PlansRejected(), Icon: "rejected", Level: view.Danger}
	case agent.PlanExpired:
		return view.Badge{Word: text.PlansExpired(), Icon: "expired", Level: view.Quiet}
	case agent.PlanCancelled:
		return view.Badge{Word: text.PlansCancelled(), Icon: "expired", Level: view.Quiet}
	case agent.PlanRevoked:
		return view.Badge{Word: text.PlansRevoked(), Icon: "rejected", Level: view.Danger}
	case agent.PlanEnded:
	}
	return view.Badge{Word: text.PlansEnded(), Icon: "expired", Level: view.Quiet}
}

// readPlan returns the plan of a request's path.
func (h *PlanHandler) readPlan(r *http.Request) (agent.Plan, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return agent.Plan{}, agent.ErrNotFound
	}
	return h.agents.GetPlan(r.Context(), id)
}

// ShowPlan shows a plan with all its calls.
func (h *PlanHandler) ShowPlan(w http.ResponseWriter, r *http.Request) {
	p, err := h.readPlan(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v, err := h.presentPlan(r.Context(), &p)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	page, err := h.newPage(r, text.PlansOne())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, PlanPage(page, v))
}

func (h *PlanHandler) presentPlan(ctx context.Context, p *agent.Plan) (Plan, error) {
	names, err := h.namePeople(ctx, *p)
	if err != nil {
		return Plan{}, err
	}
	access, _ := login.Access(ctx)
	v := Plan{PlanRow: presentPlanRow(p, names), Digest: p.Digest(), MayRevoke: p.Status == agent.PlanApproved}
	if p.Status == agent.PlanPending && access.Has(identity.Reviewer) {
		err := h.calls.CheckPlanDecider(ctx, p, access.Person.ID)
		if v.Barred = explainBarred(err); err != nil && v.Barred.IsZero() {
			return v, err
		}
		v.MayDecide = err == nil
	}
	for _, hours := range []int{1, 8, 24} {
		if longest := h.agents.MaxGrantTime(); time.Duration(hours)*time.Hour <= longest {
			v.Choices = append(v.Choices, view.Option{Value: strconv.Itoa(hours), Text: text.PlansHours(hours), Chosen: hours == 8 || longest < 8*time.Hour && hours == 1})
		}
	}
	if v.Calls, err = h.presentPlanCalls(ctx, p); err != nil {
		return v, err
	}
	for i := range v.Calls {
		c := &v.Calls[i]
		c.MayStrike, c.OwnPage = c.MayStrike && v.MayDecide, c.OwnPage && v.MayDecide
		v.MayApprove = v.MayApprove || c.MayStrike
	}
	v.Facts = []view.Fact{{Name: text.PlansSubmitted(), Time: &p.CreatedAt}, {Name: text.PlansDeadline(), Time: &p.Deadline}}
	if p.DecidedAt != nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.PlansDecidedBy(), Text: text.Literal(present.PersonName(p.DecidedBy, names))}, view.Fact{Name: text.PlansDecidedAt(), Time: p.DecidedAt})
	}
	if p.Note != "" {
		v.Facts = append(v.Facts, view.Fact{Name: text.PlansNote(), Text: text.Literal(p.Note)})
	}
	if p.EndsAt != nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.PlansEnds(), Time: p.EndsAt})
	}
	if p.ClosedAt != nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.PlansClosedAt(), Time: p.ClosedAt})
	}
	return v, nil
}

// explainBarred says why a reviewer may not decide a plan. It returns a zero message for other errors.
func explainBarred(err error) text.Message {
	var limit *identity.LimitError
	switch {
	case errors.Is(err, approval.ErrSelfApproval):
		return text.ReviewProblemOwnCall()
	case errors.Is(err, approval.ErrInvitedApproval):
		return text.ReviewProblemInvited()
	case errors.As(err, &limit):
		return text.ReviewOutsideLimit(limit.Limit.String())
	}
	return text.Message{}
}

// presentPlanCalls presents the calls of a plan as the page of a call does. Those of a pending plan are compared with approved calls.
func (h *PlanHandler) presentPlanCalls(ctx context.Context, p *agent.Plan) ([]PlanCall, error) {
	calls := call.ListPlanCalls(p)
	secrets, err := h.calls.ReadSecrets(ctx, calls...)
	if err != nil {
		return nil, err
	}
	views := make([]PlanCall, len(calls))
	for i := range calls {
		s := &subject{call: calls[i], secrets: secrets[calls[i].ID], place: strconv.Itoa(i) + "-"}
		if p.Status == agent.PlanPending {
			s.approval = &approval.Approval{Status: approval.Pending}
			if err := h.reader.addTool(ctx, s); err != nil {
				return nil, err
			}
			if s.evidence, err = h.calls.ReadEvidence(ctx, &s.call); err != nil {
				return nil, err
			}
		}
		views[i] = presentPlanCall(p, i, s)
	}
	return views, nil
}

func presentPlanCall(p *agent.Plan, i int, s *subject) PlanCall {
	c := &p.Calls[i]
	v := PlanCall{
		Index: i, Tool: c.Skill + ": " + c.Tool, Note: c.Note, Risk: s.risk.Badge, Arguments: presentArguments(s, format{view: FormatFields}, false),
		Reason: c.Reason, Struck: p.IsStruck(i),
	}
	if s.isPending() {
		v.Warning = describeFindings(v.Arguments.Findings)
		v.MayStrike = c.Effect == agent.PlanCovers && s.isPlain(&v.Arguments)
		v.OwnPage = c.Effect == agent.PlanCovers && !v.MayStrike
	}
	switch used := p.Uses[i].CallID; {
	case used != uuid.Nil:
		v.Badge, v.URL = view.Badge{Word: text.PlansMade(), Icon: "good", Level: view.Good}, present.CallURL(used)
	case v.Struck:
		v.Badge = view.Badge{Word: text.PlansStruck(), Icon: "queue", Level: view.Warn}
	case c.Effect == agent.PlanAllows:
		v.Badge = view.Badge{Word: text.PlansAllowed(), Icon: "good", Level: view.Quiet}
	case c.Effect == agent.PlanExcepts, v.OwnPage, p.Status != agent.PlanPending && p.Status != agent.PlanApproved:
		v.Badge = view.Badge{Word: text.PlansWaits(), Icon: "queue", Level: view.Warn}
	default:
		v.Badge = view.Badge{Word: text.PlansCovered(), Icon: "good", Level: view.Info}
	}
	return v
}

// ApprovePlan approves a plan, without the calls that the reviewer left out, and without those that can be approved on their own page only.
func (h *PlanHandler) ApprovePlan(w http.ResponseWriter, r *http.Request) {
	d := agent.PlanDecision{Approve: true}
	hours, err := strconv.Atoi(r.FormValue("hours"))
	if err != nil {
		h.Fail(w, r, fault.Invalid("hours", "must be a number"))
		return
	}
	d.Time = time.Duration(hours) * time.Hour
	for _, struck := range r.Form["strike"] {
		i, err := strconv.Atoi(struck)
		if err != nil {
			h.Fail(w, r, fault.Invalid("strike", "must be numbers of calls"))
			return
		}
		d.Strike = append(d.Strike, i)
	}
	h.decidePlan(w, r, &d, shell.PlanApproved)
}

// RejectPlan rejects a plan.
func (h *PlanHandler) RejectPlan(w http.ResponseWriter, r *http.Request) {
	h.decidePlan(w, r, &agent.PlanDecision{}, shell.PlanRejected)
}

func (h *PlanHandler) decidePlan(w http.ResponseWriter, r *http.Request, d *agent.PlanDecision, done shell.Done) {
	p, err := h.readPlan(r)
	if err == nil && d.Approve && p.Status == agent.PlanPending {
		var calls []PlanCall
		calls, err = h.presentPlanCalls(r.Context(), &p)
		for i := range calls {
			if calls[i].OwnPage {
				d.Strike = append(d.Strike, i)
			}
		}
	}
	if err == nil {
		d.ID, d.Digest, d.Note = p.ID, r.FormValue("digest"), shell.Line(r, "note")
		_, err = h.calls.DecidePlan(r.Context(), shell.Actor(r).ID, d)
	}
	switch {
	case err == nil:
		shell.RedirectDone(w, r, present.PlanURL(p.ID), done)
	case !explainBarred(err).IsZero(): // the page says why
		shell.Redirect(w, r, present.PlanURL(p.ID))
	default:
		h.Fail(w, r, err)
	}
}

// RevokePlan ends an approved plan.
func (h *PlanHandler) RevokePlan(w http.ResponseWriter, r *http.Request) {
	p, err := h.readPlan(r)
	if err == nil {
		_, err = h.agents.RevokePlan(r.Context(), shell.Actor(r), p.ID)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, present.PlanURL(p.ID), shell.PlanRevoked)
}
