// Package plans owns the pages about plans: lists of calls to come, which a reviewer approves at once.
package plans

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
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Config is required in full.
type Config struct {
	Shell  *shell.Shell
	Agents *agent.Service
	Calls  *call.Service
}

// Handler shows plans and takes decisions about them.
type Handler struct {
	*shell.Shell

	agents *agent.Service
	calls  *call.Service
}

// New makes the handler.
func New(cfg Config) *Handler { return &Handler{cfg.Shell, cfg.Agents, cfg.Calls} }

// ExplainError explains why a plan cannot be decided or revoked.
func ExplainError(_ *http.Request, err error) (status int, n view.Notice, ok bool) {
	switch {
	case errors.Is(err, agent.ErrPlanOver):
		return http.StatusConflict, view.Notice{Level: view.Warn, Title: text.PlansOver(), Text: text.PlansOverHelp()}, true
	case errors.Is(err, agent.ErrPlanDigest):
		return http.StatusConflict, view.Notice{Level: view.Warn, Title: text.PlansStale(), Text: text.PlansOverHelp()}, true
	}
	return 0, n, false
}

// ShowPlans lists the plans that wait, or all.
func (h *Handler) ShowPlans(w http.ResponseWriter, r *http.Request) {
	l := List{All: r.URL.Query().Get("all") != ""}
	found, err := h.agents.ListPlans(r.Context(), !l.All)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	names, err := h.readNames(r.Context(), found...)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for i := range found {
		l.Rows = append(l.Rows, presentRow(&found[i], names))
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, ListPage(h.Page(r, view.SectionQueue, text.PlansTitle(), pulse), l))
}

func (h *Handler) readNames(ctx context.Context, plans ...agent.Plan) (map[uuid.UUID]string, error) {
	var people []uuid.UUID
	for i := range plans {
		people = append(people, plans[i].PrincipalID, plans[i].DecidedBy, plans[i].ClosedBy)
	}
	return h.Names(ctx, people...)
}

func presentRow(p *agent.Plan, names map[uuid.UUID]string) Row {
	return Row{
		URL: present.PlanURL(p.ID), Title: p.Title, Agent: p.Agent, Person: present.PersonName(p.PrincipalID, names), Count: text.PlansCount(len(p.Calls)),
		Badge: statusBadge(p.Status), Deadline: p.Deadline,
	}
}

func statusBadge(status agent.PlanStatus) view.Badge {
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

func planID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return id, agent.ErrNotFound
	}
	return id, nil
}

// ShowPlan shows a plan with all its calls.
func (h *Handler) ShowPlan(w http.ResponseWriter, r *http.Request) {
	id, err := planID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	p, err := h.agents.GetPlan(r.Context(), id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v, err := h.presentPlan(r, &p)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, PlanPage(h.Page(r, view.SectionQueue, text.PlansOne(), pulse), v))
}

func (h *Handler) presentPlan(r *http.Request, p *agent.Plan) (Plan, error) {
	names, err := h.readNames(r.Context(), *p)
	if err != nil {
		return Plan{}, err
	}
	access, _ := login.Access(r.Context())
	v := Plan{Row: presentRow(p, names), Digest: p.Digest(), Revoke: p.Status == agent.PlanApproved}
	if p.Status == agent.PlanPending && access.Has(identity.Reviewer) {
		switch err := h.calls.CheckPlanDecider(r.Context(), p, access.Person.ID); {
		case err == nil:
			v.Decide = true
		case errors.Is(err, approval.ErrSelfApproval):
			v.Barred = &view.Notice{Level: view.Warn, Title: text.PlansCannotDecide(), Text: text.ReviewProblemOwnCall()}
		case errors.Is(err, approval.ErrInvitedApproval):
			v.Barred = &view.Notice{Level: view.Warn, Title: text.PlansCannotDecide(), Text: text.ReviewProblemInvited()}
		default:
			return v, err
		}
	}
	for _, hours := range []int{1, 8, 24} {
		if longest := h.agents.MaxGrantTime(); time.Duration(hours)*time.Hour <= longest {
			v.Choices = append(v.Choices, view.Option{Value: strconv.Itoa(hours), Text: text.PlansHours(hours), Chosen: hours == 8 || longest < 8*time.Hour && hours == 1})
		}
	}
	if v.Calls, err = h.presentCalls(r.Context(), p, v.Decide); err != nil {
		return v, err
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

func (h *Handler) presentCalls(ctx context.Context, p *agent.Plan, decide bool) ([]Call, error) {
	asked := make([]call.Call, len(p.Calls))
	for i := range p.Calls {
		c := &p.Calls[i]
		asked[i] = call.Call{ID: indexID(i), SkillID: c.SkillID, Tool: c.Tool, Pin: c.Pin}
	}
	secrets, err := h.calls.ReadSecrets(ctx, asked...)
	if err != nil {
		return nil, err
	}
	views := make([]Call, len(p.Calls))
	for i := range p.Calls {
		c, limits := &p.Calls[i], hostile.Folded()
		limits.Secrets = secrets[indexID(i)]
		one := Call{
			Index: i, Tool: c.Skill + ": " + c.Tool, Note: c.Note, Arguments: hostile.ShowDocument(c.Arguments, limits), Reason: c.Reason, Struck: p.IsStruck(i),
			Strike: decide && c.Effect == agent.PlanCovers,
		}
		switch used := p.Uses[i].CallID; {
		case used != uuid.Nil:
			one.Badge, one.URL = view.Badge{Word: text.PlansMade(), Icon: "good", Level: view.Good}, present.CallURL(used)
		case one.Struck:
			one.Badge = view.Badge{Word: text.PlansStruck(), Icon: "queue", Level: view.Warn}
		case c.Effect == agent.PlanAllows:
			one.Badge = view.Badge{Word: text.PlansAllowed(), Icon: "good", Level: view.Quiet}
		case c.Effect == agent.PlanExcepts:
			one.Badge = view.Badge{Word: text.PlansWaits(), Icon: "queue", Level: view.Warn}
		default:
			one.Badge = view.Badge{Word: text.PlansCovered(), Icon: "good", Level: view.Info}
		}
		views[i] = one
	}
	return views, nil
}

// indexID tells the calls of a plan apart, which have no ids yet.
func indexID(i int) uuid.UUID { return uuid.UUID{0: 1, 15: byte(i & 0xff)} }

// ApprovePlan approves a plan, without the calls that the reviewer left out.
func (h *Handler) ApprovePlan(w http.ResponseWriter, r *http.Request) {
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
func (h *Handler) RejectPlan(w http.ResponseWriter, r *http.Request) {
	h.decidePlan(w, r, &agent.PlanDecision{}, shell.PlanRejected)
}

func (h *Handler) decidePlan(w http.ResponseWriter, r *http.Request, d *agent.PlanDecision, done shell.Done) {
	var err error
	if d.ID, err = planID(r); err == nil {
		d.Digest, d.Note = r.FormValue("digest"), r.FormValue("note")
		_, err = h.calls.DecidePlan(r.Context(), shell.Actor(r).ID, d)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, present.PlanURL(d.ID), done)
}

// RevokePlan ends an approved plan.
func (h *Handler) RevokePlan(w http.ResponseWriter, r *http.Request) {
	id, err := planID(r)
	if err == nil {
		_, err = h.agents.RevokePlan(r.Context(), shell.Actor(r), id)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, present.PlanURL(id), shell.PlanRevoked)
}
