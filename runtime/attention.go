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
	"github.com/holdpoint/holdpoint/runtime/callback"
)

func (rt *Runtime) makeNotify() error {
	var err error
	rt.Notify, err = notify.New(notify.Config{
		Pool: rt.DB.Pool(), Box: rt.Box, Identity: rt.Identity, Logger: rt.Logger, Now: rt.Now, PublicURL: rt.PublicURL,
		AllowSelfApproval: rt.AllowSelfApproval, Waiting: rt.waiting, TrustedHosts: rt.TrustedHosts,
	})
	return err
}

func (rt *Runtime) makeCallbacks() error {
	var err error
	rt.Callbacks, err = callback.New(callback.Config{
		Pool: rt.DB.Pool(), Box: rt.Box, Logger: rt.Logger, Now: rt.Now, TrustedHosts: rt.TrustedHosts,
	})
	return err
}

// waiting returns, for package notify, those of the calls that wait for a decision about them or about a question of their server.
func (rt *Runtime) waiting(ctx context.Context, calls []uuid.UUID) ([]uuid.UUID, error) {
	approvals, err := approval.Of(ctx, rt.DB.Pool(), calls...)
	if err != nil {
		return nil, err
	}
	waiting := make([]uuid.UUID, 0, len(approvals))
	for i := range approvals {
		if approvals[i].Status == approval.Pending {
			waiting = append(waiting, approvals[i].CallID)
		}
	}
	questions, err := rt.Calls.PendingQuestionsOf(ctx, calls)
	if err != nil {
		return nil, err
	}
	for i := range questions {
		if !slices.Contains(waiting, questions[i].CallID) {
			waiting = append(waiting, questions[i].CallID)
		}
	}
	return waiting, nil
}

// attend has people told of approvals that they are to look at.
func (rt *Runtime) attend(ctx context.Context, tx pgx.Tx, list []call.Attention) error {
	events := make([]notify.Event, len(list))
	for i := range list {
		a := &list[i]
		events[i] = notify.Event{
			Kind: noticeOf(a.Kind), CallID: a.Approval.CallID, Agent: a.Agent, Skill: a.Skill, Tool: a.Approval.Tool,
			Team: a.Approval.Team, Deadline: a.Deadline, PrincipalID: a.Approval.PrincipalID,
		}
		if a.Kind == call.Escalated {
			events[i].Team = a.Approval.EscalateTo
		}
	}
	return rt.Notify.Queue(ctx, tx, events)
}

func noticeOf(kind call.AttentionKind) notify.Kind {
	switch kind {
	case call.Escalated:
		return notify.Escalated
	case call.Alone:
		return notify.NoReviewer
	case call.Asked:
		return notify.Asked
	case call.Settled:
		return notify.Decided
	case call.Waits:
	}
	return notify.Parked
}

// reviewable reports whether there is anybody who may decide about calls made on behalf of principal by an agent.
// uuid.Nil: by nobody, by any.
func (rt *Runtime) reviewable(ctx context.Context, principal, agentID uuid.UUID) (bool, error) {
	reviewers, err := rt.Identity.Reviewers(ctx)
	if err != nil {
		return false, err
	}
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
	makers, err := agent.KeyMakers(ctx, rt.DB.Pool(), agentID, rt.Now())
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
