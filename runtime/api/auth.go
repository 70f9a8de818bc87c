package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

const agentKeyHeader = "X-Agent-API-Key"

// caller is who sent a request: a person, an agent, or the holder of an invitation; only one of them.
type caller struct {
	person     *identity.Access
	agent      *agent.Agent
	invitation string // its secret
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
			if presented(r) {
				a.failures.Refuse(r.Context(), authfail.API)
			}
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
	inside := context.WithValue(r.Context(), callerKey{}, who)
	switch {
	case who.person != nil:
		inside = audit.WithCredential(inside, who.actor(), who.person.AuditCredential())
		a.announceEnd(w.Header(), who.person)
	case who.agent != nil:
		inside = audit.WithCredential(inside, who.actor(), audit.Credential{Kind: audit.AgentKey, ID: who.agent.KeyID.String()})
	}
	next(huma.WithContext(ctx, inside))
}

// TokenEndsHeader tells the holder of a personal token when it ends, from [identity.EndingSoon] before.
const TokenEndsHeader = "Holdpoint-Token-Expires"

func (a *API) announceEnd(h http.Header, access *identity.Access) {
	if !access.Ends.IsZero() && a.identity.EndsSoon(access.Ends) {
		h.Set(TokenEndsHeader, access.Ends.UTC().Format(time.RFC3339))
	}
}

// presented reports whether a request has any credential: without one, a client only asks what is wanted.
func presented(r *http.Request) bool {
	return len(r.Header.Values("Authorization"))+len(r.Header.Values(agentKeyHeader)) > 0
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
	if secret.Invitation.Is(token) { // which is good for one operation, that checks it
		return caller{invitation: token}, nil
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
