package identity

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
)

// Role is what a person may do.
type Role string

// The roles of people. A person may have both.
const (
	Reviewer Role = "reviewer" // decides approvals
	Operator Role = "operator" // registers skills, agents and assignments
)

// Errors of this package.
var (
	ErrUnauthenticated = errors.New("unauthenticated")
	ErrNotFound        = errors.New("not found")
)

// InvalidError says what is wrong with something that was asked for.
type InvalidError struct {
	Field    string // name, roles, agents, ttl
	Expected string // in plain words
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Expected) }

// Person is (issuer, subject); name and e-mail are only shown.
type Person struct {
	ID        uuid.UUID
	Issuer    string
	Subject   string
	Name      string
	Email     string
	CreatedAt time.Time
	// Teams whose calls they look at first: those that their last sign-in named and those that an operator gave them.
	Teams []string
	// InvitedBy is the person whose invitation made a local person known, and whom nobody else verified. uuid.Nil: none.
	InvitedBy uuid.UUID
	// First: the bootstrap token made them, which stands for the same person.
	First bool
}

// Verified reports whether more than one operator's word says who the person is.
func (p *Person) Verified() bool { return p.Issuer != LocalIssuer || p.InvitedBy == uuid.Nil }

// LocalIssuer is the issuer of people that Holdpoint itself knows: those of
// personal tokens, of one-time sign-in links, and bootstrap.
const LocalIssuer = "holdpoint"

// Bootstrap is the subject of the local person that the bootstrap token stands for.
// No personal token can be made for it.
const Bootstrap = "bootstrap"

// Access is a validated credential of a person: who, and what it allows. It
// is shared between callers, which do not change it.
type Access struct {
	Person Person
	Roles  []Role
	// Agents the person may act as, by name; AnyAgent is every one.
	Agents []string
	// Credential names what was authenticated with, for [Service.Recheck]. It is no
	// secret. Empty for a sign-in link, which is used up.
	Credential string
	// Session is the browser's session that it comes from, and Method how that began; uuid.Nil: from none.
	Session uuid.UUID
	Method  Method
	// Ends is when the personal token ends that it comes from; zero: it comes from none.
	Ends time.Time

	token uuid.UUID // the personal token that it comes from
}

// TokenID is the personal token that the access comes from, directly or by a session; uuid.Nil: none.
func (a Access) TokenID() uuid.UUID { return a.token }

// isBootstrap reports whether the access comes from the bootstrap token, directly or by a session.
func (a Access) isBootstrap() bool {
	return a.Person.Issuer == LocalIssuer && a.Person.Subject == Bootstrap
}

// AuditCredential names the credential that the access comes from.
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

// AnyAgent stands for every agent, those to come included.
const AnyAgent = "*"

// Has reports whether the access includes a role.
func (a Access) Has(role Role) bool { return slices.Contains(a.Roles, role) }

// MayActAs reports whether the person may make calls as an agent.
func (a Access) MayActAs(agent string) bool {
	return slices.Contains(a.Agents, agent) || slices.Contains(a.Agents, AnyAgent)
}

// Token is a personal token, without its secret.
type Token struct {
	ID        uuid.UUID
	Person    Person
	Hint      string // the first characters, to tell tokens apart
	Roles     []Role
	Agents    []string
	CreatedAt time.Time
	ExpiresAt time.Time
	RevokedAt *time.Time
}

// defaultAgents are those of a credential that names none: every one for an
// operator, who registers them, and none for a reviewer, who does not act.
func defaultAgents(roles []Role) []string {
	if slices.Contains(roles, Operator) {
		return []string{AnyAgent}
	}
	return []string{}
}
