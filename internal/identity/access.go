package identity

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Role is a role of a person.
type Role string

// The roles of people. A person may have both.
const (
	Reviewer Role = "reviewer" // decides approvals
	Operator Role = "operator" // manages skills, agents and assignments
)

// Errors of this package.
var (
	ErrUnauthenticated = errors.New("unauthenticated")
	ErrNotFound        = fault.NotFound("not found")
)

// Access is the result of validating a person's credential: the person and their rights. Callers share it and do not
// change it.
type Access struct {
	Person Person
	Roles  []Role
	// Agents are the names of the agents that the person may act as; see [AnyAgent].
	Agents []string
	// Credential identifies the credential, for [Service.Recheck]. It is not a secret. Empty: a sign-in link, which is used up.
	Credential string
	// Session is the browser session, and Method how it began; uuid.Nil: no session.
	Session uuid.UUID
	Method  Method
	// Ends is when the personal token behind the access expires; zero: there is none.
	Ends time.Time

	token uuid.UUID // the personal token behind the access
}

// AnyAgent stands for every agent, also for future ones.
const AnyAgent = "*"

// Has reports whether the access includes a role.
func (a Access) Has(role Role) bool { return slices.Contains(a.Roles, role) }

// MayActAs reports whether the person may make calls as an agent.
func (a Access) MayActAs(agent string) bool {
	return slices.Contains(a.Agents, agent) || slices.Contains(a.Agents, AnyAgent)
}

// TokenID returns the personal token behind the access, used directly or to begin the session; uuid.Nil: none.
func (a Access) TokenID() uuid.UUID { return a.token }

// isBootstrap reports whether the access comes from the bootstrap token, directly or through a session.
func (a Access) isBootstrap() bool {
	return a.Person.Issuer == LocalIssuer && a.Person.Subject == Bootstrap
}

// AuditCredential returns the credential for audit events.
func (a Access) AuditCredential() audit.Credential {
	switch {
	case a.Session != uuid.Nil:
		return audit.Credential{Kind: audit.BrowserSession, ID: a.Session.String()}
	case a.token != uuid.Nil:
		return audit.Credential{Kind: audit.PersonalToken, ID: a.token.String()}
	case a.Credential == Bootstrap:
		return audit.Credential{Kind: audit.BootstrapToken}
	}
	return audit.Credential{Kind: audit.SignInLink}
}

// Authenticate validates a person's bearer token: a personal token or the bootstrap token. Error: [ErrUnauthenticated].
func (s *Service) Authenticate(ctx context.Context, token string) (Access, error) {
	hash := secret.HashOf(token)
	load := s.loadToken
	switch {
	case s.bootstrap != nil && subtle.ConstantTimeCompare(hash[:], s.bootstrap[:]) == 1:
		load = s.loadBootstrap
	case !secret.PersonalToken.Is(token):
		return Access{}, ErrUnauthenticated
	case s.tokensOff:
		return Access{}, fmt.Errorf("%w: %w", ErrUnauthenticated, ErrTokensOff)
	}
	return s.accessByToken.Get(ctx, hash, func(ctx context.Context) (Access, error) { return load(ctx, hash) })
}

// Recheck validates a credential again by [Access.Credential]. It returns [ErrUnauthenticated] once the credential is revoked,
// expired or no longer configured.
func (s *Service) Recheck(ctx context.Context, credential string) (Access, error) {
	if credential == Bootstrap {
		if s.bootstrap == nil {
			return Access{}, ErrUnauthenticated
		}
		return s.accessByToken.Get(ctx, *s.bootstrap, func(ctx context.Context) (Access, error) { return s.loadBootstrap(ctx, *s.bootstrap) })
	}
	var hash secret.Hash
	if n, err := hex.Decode(hash[:], []byte(credential)); err != nil || n != len(hash) || len(credential) != 2*len(hash) {
		return Access{}, ErrUnauthenticated
	}
	if s.tokensOff {
		return Access{}, ErrUnauthenticated
	}
	return s.accessByToken.Get(ctx, hash, func(ctx context.Context) (Access, error) { return s.loadToken(ctx, hash) })
}

func (s *Service) loadToken(ctx context.Context, hash secret.Hash) (Access, error) {
	found, err := s.queryTokens(ctx, `t.secret_hash = $1 AND `+tokenValidSQL+` AND p.blocked_at IS NULL`, hash[:])
	if err == nil && len(found) == 0 {
		return Access{}, ErrUnauthenticated
	}
	if err != nil {
		return Access{}, fmt.Errorf("authenticate person: %w", err)
	}
	t := found[0]
	roles, err := s.separateRoles(ctx, s.pool, t.Person.ID, t.Roles)
	if err == nil && len(roles) == 0 {
		err = ErrUnauthenticated
	}
	if err != nil {
		return Access{}, err
	}
	return Access{Person: t.Person, Roles: roles, Agents: t.Agents, Credential: hex.EncodeToString(hash[:]), token: t.ID, Ends: t.ExpiresAt}, nil
}

// defaultAgents returns the agents of a credential that names none: all for an operator, who manages them, and none for a
// reviewer, who makes no calls.
func defaultAgents(roles []Role) []string {
	if slices.Contains(roles, Operator) {
		return []string{AnyAgent}
	}
	return []string{}
}

// actorFor returns the actor of audit events; uuid.Nil is the system.
func actorFor(by uuid.UUID) audit.Actor {
	if by == uuid.Nil {
		return audit.System()
	}
	return audit.Person(by)
}
