package call

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// checkLimit returns an error if a call is outside the limit of a reviewer. Error: *identity.LimitError.
func checkLimit(ctx context.Context, db postgres.Querier, a *approval.Approval, limit *identity.Limit) error {
	if limit == nil {
		return nil
	}
	if len(limit.Teams) > 0 && a.Status == "" { // of newSubject
		switch read, err := approval.Get(ctx, db, a.CallID); {
		case err == nil:
			a = &read
		case !errors.Is(err, approval.ErrNotFound): // a call that needed none was given to no team
			return err
		}
	}
	names, err := agent.Names(ctx, db, []uuid.UUID{a.AgentID, a.SkillID})
	if err != nil {
		return err
	}
	if !limit.Covers(scopeOf(a, names[a.AgentID], names[a.SkillID])) {
		return &identity.LimitError{Limit: *limit}
	}
	return nil
}

// scopeOf returns what a call is about, for the limits of reviewers: it is in its team, and in the one that it was escalated to.
func scopeOf(a *approval.Approval, agentName, skillName string) identity.Scope {
	return identity.Scope{Agent: agentName, Skill: skillName, Teams: a.ListTeams()}
}

// newSubject returns what an approval says about who may decide a call. It was not read from the database.
func newSubject(c *Call) *approval.Approval {
	return &approval.Approval{CallID: c.ID, AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, CreatedAt: c.CreatedAt}
}
