package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

const agentKeyHeader = "X-Agent-API-Key"

// authorize passes a request to its operation if the operation's rule allows its caller. Operations without a rule allow none.
func (a *API) authorize(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	who, err := a.authenticate(r)
	if err != nil {
		p := a.toProblem(r.Context(), ctx.Operation().OperationID, err)
		if p.Status == http.StatusUnauthorized {
			if len(r.Header.Values("Authorization"))+len(r.Header.Values(agentKeyHeader)) > 0 { // else the client only requests the challenge
				a.failures.Refuse(r.Context(), authfail.API)
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="holdpoint"`)
		}
		writeProblem(w, p)
		return
	}
	rule := a.rules[ctx.Operation().OperationID]
	if !rule.Allows(who) {
		writeProblem(w, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "this credential does not allow the operation. %s", rule))
		return
	}
	inside := rest.WithCaller(r.Context(), who)
	switch {
	case who.Person != nil:
		inside = audit.WithCredential(inside, who.Actor(), who.Person.AuditCredential())
		if ends := who.Person.Ends; !ends.IsZero() && a.directory.Identity.EndsSoon(ends) {
			w.Header().Set(TokenEndsHeader, ends.UTC().Format(time.RFC3339))
		}
	case who.Agent != nil:
		inside = audit.WithCredential(inside, who.Actor(), audit.Credential{Kind: audit.AgentKey, ID: who.Agent.KeyID.String()})
	}
	next(huma.WithContext(ctx, inside))
}

// TokenEndsHeader is the expiry of a personal token, sent from [identity.EndingSoon] before.
const TokenEndsHeader = "Holdpoint-Token-Expires"

// joinTrace continues the client's trace (W3C Trace Context).
func joinTrace(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	if inside, handed := telemetry.FromHeader(r.Header).Remote(ctx.Context()); handed {
		ctx = huma.WithContext(ctx, inside)
	}
	next(ctx)
}

func (a *API) authenticate(r *http.Request) (rest.Caller, error) {
	authorizations, keys := r.Header.Values("Authorization"), r.Header.Values(agentKeyHeader)
	switch {
	case len(authorizations)+len(keys) == 0:
		return rest.Caller{}, rest.Unauthenticated("send a token or an agent's key: Authorization: Bearer …")
	case len(authorizations)+len(keys) > 1:
		return rest.Caller{}, rest.Unauthenticated("send one credential, not several")
	case len(keys) == 1:
		return a.authenticateAgent(r.Context(), keys[0])
	}
	scheme, token, _ := strings.Cut(authorizations[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return rest.Caller{}, rest.Unauthenticated("Authorization: must be Bearer …")
	}
	if secret.Invitation.Is(token) { // which is good for one operation, that checks it
		return rest.Caller{Invitation: token}, nil
	}
	access, err := a.directory.Identity.Authenticate(r.Context(), token)
	switch {
	case err == nil:
		return rest.Caller{Person: &access}, nil
	case errors.Is(err, identity.ErrUnauthenticated):
		return a.authenticateAgent(r.Context(), token)
	}
	return rest.Caller{}, err
}

func (a *API) authenticateAgent(ctx context.Context, key string) (rest.Caller, error) {
	found, err := a.directory.Agents.Authenticate(ctx, key)
	if errors.Is(err, agent.ErrUnauthenticated) {
		return rest.Caller{}, rest.Unauthenticated("the credential is unknown, or was revoked")
	}
	if err != nil {
		return rest.Caller{}, err
	}
	return rest.Caller{Agent: found}, nil
}
