package rest

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Caller is the sender of a request: exactly one of a person, an agent, and the holder of an invitation.
type Caller struct {
	Person     *identity.Access
	Agent      *agent.Agent
	Invitation string // its secret
}

type callerKey struct{}

// WithCaller returns a context of a request with its sender.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the sender of the request. Every registered operation has one.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// HasRole reports whether the caller is a person with one of the roles.
func (c Caller) HasRole(roles ...identity.Role) bool {
	return c.Person != nil && slices.ContainsFunc(roles, c.Person.Has)
}

// SeesAll reports whether the caller sees the calls and conversations of everybody.
func (c Caller) SeesAll() bool { return c.HasRole(identity.Reviewer, identity.Operator) }

// PersonID returns the id of the person, or uuid.Nil.
func (c Caller) PersonID() uuid.UUID {
	if c.Person == nil {
		return uuid.Nil
	}
	return c.Person.Person.ID
}

// Actor returns the caller for the audit log.
func (c Caller) Actor() audit.Actor {
	if c.Agent != nil {
		return audit.Agent(c.Agent.ID)
	}
	return audit.Person(c.PersonID())
}

// ViewerAs returns the caller as a viewer of only their own calls with an agent.
func (c Caller) ViewerAs(agentID uuid.UUID) call.Viewer {
	return call.Viewer{AgentID: agentID, PrincipalID: c.PersonID()}
}
