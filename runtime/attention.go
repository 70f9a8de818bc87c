package runtime

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// listWaiting returns, for package notify, the calls that wait for a decision about them or about a question of their server, and the plans that
// wait.
func (rt *Runtime) listWaiting(ctx context.Context, calls []uuid.UUID) ([]uuid.UUID, error) {
	approvals, err := approval.ListByCall(ctx, rt.DB.Pool(), calls...)
	if err != nil {
		return nil, err
	}
	waiting := make([]uuid.UUID, 0, len(approvals))
	for i := range approvals {
		if approvals[i].Status == approval.Pending {
			waiting = append(waiting, approvals[i].CallID)
		}
	}
	questions, err := rt.Calls.ListPendingQuestionsOf(ctx, calls)
	if err != nil {
		return nil, err
	}
	for i := range questions {
		if !slices.Contains(waiting, questions[i].CallID) {
			waiting = append(waiting, questions[i].CallID)
		}
	}
	plans, err := rt.Agents.ListPendingPlans(ctx)
	for _, id := range plans {
		if slices.Contains(calls, id) {
			waiting = append(waiting, id)
		}
	}
	return waiting, err
}

// queueNotices notifies people of approvals that need their attention.
func (rt *Runtime) queueNotices(ctx context.Context, tx pgx.Tx, list []call.Attention) error {
	events := make([]notify.Event, 0, len(list))
	for i := range list {
		a := &list[i]
		e := notify.Event{
			Kind: noticeKind(a.Kind), CallID: a.Approval.CallID, Agent: a.Agent, Skill: a.Skill, Tool: a.Approval.Tool,
			Team: a.Approval.Team, Deadline: a.Deadline, PrincipalID: a.Approval.PrincipalID, Teams: a.Approval.ListTeams(),
		}
		if a.Kind != call.Escalated {
			events = append(events, e)
			continue
		}
		e.Step = a.Step
		for _, team := range a.Teams {
			e.Team, e.Whole = team, true
			events = append(events, e)
		}
		if len(a.People) > 0 {
			e.Team, e.People = "", a.People
			events = append(events, e)
		}
	}
	return rt.Notify.Queue(ctx, tx, events)
}

func noticeKind(kind call.AttentionKind) notify.Kind {
	switch kind {
	case call.Escalated:
		return notify.Escalated
	case call.Alone:
		return notify.NoReviewer
	case call.Asked:
		return notify.Asked
	case call.Planned:
		return notify.Planned
	case call.Settled:
		return notify.Decided
	case call.Waits:
	}
	return notify.Parked
}

// hasReviewer reports whether any person may decide a call, by its principal, agent, skill and teams.
func (rt *Runtime) hasReviewer(ctx context.Context, a *approval.Approval) (bool, error) {
	reviewers, err := rt.listCoveringReviewers(ctx, a)
	if err != nil {
		return false, err
	}
	if rt.AllowSelfApproval {
		return len(reviewers) > 0, nil
	}
	principal := a.PrincipalID
	self, err := rt.Identity.SameAs(ctx, principal)
	if err != nil {
		return false, err
	}
	var unverified [][]uuid.UUID
	for _, one := range reviewers {
		other, err := rt.Identity.SameAs(ctx, one.Person)
		if err != nil {
			return false, err
		}
		if principal != uuid.Nil && other == self {
			continue
		}
		if len(one.Inviters) == 0 {
			return true, nil
		}
		unverified = append(unverified, one.Inviters)
	}
	if len(unverified) == 0 {
		return false, nil
	}
	makers, err := agent.KeyMakers(ctx, rt.DB.Pool(), a.AgentID, rt.Now())
	if err != nil {
		return false, err
	}
	if principal != uuid.Nil {
		makers = append(makers, principal)
	}
	for _, inviters := range unverified {
		invited, err := identity.SameAsAny(ctx, rt.DB.Pool(), inviters, makers)
		if err != nil || !invited {
			return err == nil, err
		}
	}
	return false, nil
}

// listCoveringReviewers returns the reviewers whose limit, if any, includes a call. The team that a call may be escalated to counts.
func (rt *Runtime) listCoveringReviewers(ctx context.Context, a *approval.Approval) ([]identity.Eligible, error) {
	reviewers, err := rt.Identity.Reviewers(ctx)
	if err != nil || !slices.ContainsFunc(reviewers, func(one identity.Eligible) bool { return one.Limit != nil }) {
		return reviewers, err
	}
	names, err := rt.Agents.Names(ctx, []uuid.UUID{a.AgentID, a.SkillID})
	if err != nil {
		return nil, err
	}
	scope := identity.Scope{Agent: names[a.AgentID], Skill: names[a.SkillID], Teams: []string{a.Team, a.EscalateTo}}
	return slices.DeleteFunc(slices.Clone(reviewers), func(one identity.Eligible) bool { return !one.Limit.Covers(scope) }), nil
}
