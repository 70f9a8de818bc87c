package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

const agentKeyHeader = "X-Agent-API-Key"

// caller is who sent a request: a person or an agent, never both.
type caller struct {
	person *identity.Access
	agent  *agent.Agent
}

type callerKey struct{}

// callerOf returns who sent the request. Every registered operation has one.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

func (c caller) has(roles ...identity.Role) bool {
	return c.person != nil && slices.ContainsFunc(roles, c.person.Has)
}

// seesAll reports whether the caller sees the calls and conversations of everybody.
func (c caller) seesAll() bool { return c.has(identity.Reviewer, identity.Operator) }

func (c caller) personID() uuid.UUID {
	if c.person == nil {
		return uuid.Nil
	}
	return c.person.Person.ID
}

func (c caller) actor() audit.Actor {
	if c.agent != nil {
		return audit.Agent(c.agent.ID)
	}
	return audit.Person(c.personID())
}

// viewerAs is the caller as one who sees only what is their own with an agent.
func (c caller) viewerAs(agentID uuid.UUID) call.Viewer {
	return call.Viewer{AgentID: agentID, PrincipalID: c.personID()}
}

// authorize lets a request pass to its operation when the operation's rule
// lets its caller pass. An operation without a rule lets nobody pass.
func (a *API) authorize(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	who, err := a.authenticate(r)
	if err != nil {
		p := a.translate(r.Context(), ctx.Operation().OperationID, err)
		if p.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="holdpoint"`)
		}
		writeProblem(w, p)
		return
	}
	rule := a.byID[ctx.Operation().OperationID].Rule
	if !rule.allows(who) {
		writeProblem(w, problem(http.StatusForbidden, CodeForbidden, "this credential does not allow it. %s", rule))
		return
	}
	next(huma.WithValue(ctx, callerKey{}, who))
}

// traced puts a request into the trace that its client handed in (W3C Trace Context).
func traced(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	if inside, handed := telemetry.FromHeader(r.Header).Remote(ctx.Context()); handed {
		ctx = huma.WithContext(ctx, inside)
	}
	next(ctx)
}

func unauthenticated(why string) *Problem {
	return problem(http.StatusUnauthorized, CodeUnauthenticated, "%s", why)
}

func (a *API) authenticate(r *http.Request) (caller, error) {
	authorizations, keys := r.Header.Values("Authorization"), r.Header.Values(agentKeyHeader)
	switch {
	case len(authorizations)+len(keys) == 0:
		return caller{}, unauthenticated("send a token or an agent's key: Authorization: Bearer …")
	case len(authorizations)+len(keys) > 1:
		return caller{}, unauthenticated("send one credential, not several")
	case len(keys) == 1:
		return a.authenticateAgent(r.Context(), keys[0])
	}
	scheme, token, _ := strings.Cut(authorizations[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return caller{}, unauthenticated("expected Authorization: Bearer …")
	}
	access, err := a.identity.Authenticate(r.Context(), token)
	switch {
	case err == nil:
		return caller{person: &access}, nil
	case errors.Is(err, identity.ErrUnauthenticated):
		return a.authenticateAgent(r.Context(), token)
	}
	return caller{}, err
}

func (a *API) authenticateAgent(ctx context.Context, key string) (caller, error) {
	found, err := a.agents.Authenticate(ctx, key)
	if errors.Is(err, agent.ErrUnauthenticated) {
		return caller{}, unauthenticated("the credential is unknown, or was revoked")
	}
	if err != nil {
		return caller{}, err
	}
	return caller{agent: found}, nil
}
