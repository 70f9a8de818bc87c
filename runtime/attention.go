package runtime

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// listWaiting returns, for package notify, the calls that wait for a decision about them or about a question of their server, with the plans that
// wait and the alerts about guards that last, and the calls that one person approved alone and nobody has reviewed.
func (rt *Runtime) listWaiting(ctx context.Context, calls []uuid.UUID) (waiting, unreviewed []uuid.UUID, err error) {
	approvals, err := approval.ListByCall(ctx, rt.DB.Pool(), calls...)
	if err != nil {
		return nil, nil, err
	}
	for i := range approvals {
		switch a := &approvals[i]; {
		case a.Status == approval.Pending:
			waiting = append(waiting, a.CallID)
		case a.BrokeGlass && a.GlassReview == nil:
			unreviewed = append(unreviewed, a.CallID)
		}
	}
	questions, err := rt.Calls.ListPendingQuestionsOf(ctx, calls)
	if err != nil {
		return nil, nil, err
	}
	for i := range questions {
		if !slices.Contains(waiting, questions[i].CallID) {
			waiting = append(waiting, questions[i].CallID)
		}
	}
	plans, err := rt.Agents.ListPendingPlans(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range plans {
		if slices.Contains(calls, id) {
			waiting = append(waiting, id)
		}
	}
	alerting, err := rt.Guards.ListAlerting(ctx, calls)
	return append(waiting, alerting...), unreviewed, err
}

// queueAlert notifies people of a guard: those of the agent's team, or all if it has none.
func (rt *Runtime) queueAlert(ctx context.Context, tx pgx.Tx, a guarded.Alert) error {
	by, err := rt.Agents.AgentByID(ctx, a.Guard.AgentID)
	if errors.Is(err, agent.ErrNotFound) {
		return nil // it is being deleted, with its guards
	}
	if err != nil {
		return err
	}
	event := notify.Event{Kind: notify.GuardLost, CallID: a.ID, Agent: by.Name, Skill: a.Guard.Host, Tool: a.Guard.Machine}
	if a.Bypassed {
		event.Kind, event.Tool = notify.Bypassed, a.Guard.BypassTool
	}
	if a.Ended {
		event.Kind = notify.Decided
	}
	if by.Team != "" {
		event.Teams, event.Asked, event.Whole = []string{by.Team}, []string{by.Team}, true
	}
	return rt.Notify.Queue(ctx, tx, []notify.Event{event})
}

// queueNotices notifies people of approvals that need their attention.
func (rt *Runtime) queueNotices(ctx context.Context, tx pgx.Tx, list []call.Attention) error {
	events := make([]notify.Event, len(list))
	for i := range list {
		a := &list[i]
		events[i] = notify.Event{
			Kind: noticeKind(a.Kind), CallID: a.Approval.CallID, Agent: a.Agent, Skill: a.Skill, Tool: a.Approval.Tool, Deadline: a.Deadline,
			PrincipalID: a.Approval.PrincipalID, Teams: a.Approval.ListTeams(), By: a.By, Step: a.Step,
			Asked: a.Asked.Teams, People: a.Asked.People, Names: a.Asked.Names, Whole: a.Asked.Whole, Everyone: a.Asked.Everyone, GateOnly: a.GateOnly,
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
	case call.Unmeetable:
		return notify.Unmeetable
	case call.Asked:
		return notify.Asked
	case call.Planned:
		return notify.Planned
	case call.BrokeGlass:
		return notify.BrokeGlass
	case call.Settled:
		return notify.Decided
	case call.Waits:
	}
	return notify.Parked
}

// listDeciders returns the people who may decide a call, by its principal, agent, skill and teams. Without policies, it returns one of them.
func (rt *Runtime) listDeciders(ctx context.Context, a *approval.Approval) ([]uuid.UUID, error) {
	reviewers, err := rt.listCoveringReviewers(ctx, a)
	if err != nil {
		return nil, err
	}
	principal, enough := a.PrincipalID, len(a.Policies) == 0
	self, err := rt.Identity.SameAs(ctx, principal)
	if err != nil {
		return nil, err
	}
	var able []uuid.UUID
	var unverified []identity.Eligible
	for _, one := range reviewers {
		other, err := rt.Identity.SameAs(ctx, one.Person)
		switch {
		case err != nil:
			return nil, err
		case rt.AllowSelfApproval: // anybody may
		case principal != uuid.Nil && other == self:
			continue
		case len(one.Inviters) > 0:
			unverified = append(unverified, one)
			continue
		}
		if able = append(able, one.Person); enough {
			return able, nil
		}
	}
	if len(unverified) == 0 {
		return able, nil
	}
	makers, err := agent.KeyMakers(ctx, rt.DB.Pool(), a.AgentID, rt.Now())
	if err != nil {
		return nil, err
	}
	if principal != uuid.Nil {
		makers = append(makers, principal)
	}
	for _, one := range unverified {
		switch invited, err := identity.SameAsAny(ctx, rt.DB.Pool(), one.Inviters, makers); {
		case err != nil:
			return nil, err
		case !invited:
			if able = append(able, one.Person); enough {
				return able, nil
			}
		}
	}
	return able, nil
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
	scope := identity.Scope{Agent: names[a.AgentID], Skill: names[a.SkillID], Teams: append(a.ListTeams(), a.EscalateTo)}
	return slices.DeleteFunc(slices.Clone(reviewers), func(one identity.Eligible) bool { return !one.Limit.Covers(scope) }), nil
}
