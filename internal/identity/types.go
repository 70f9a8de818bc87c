package identity

import (
	"errors"
	"slices"

	"github.com/google/uuid"
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
	ErrNotFound        = errors.New("person not found")
)

// Person is (issuer, subject); name and e-mail are only shown.
type Person struct {
	ID      uuid.UUID
	Issuer  string
	Subject string
	Name    string
	Email   string
}

// LocalIssuer is the issuer of people that Holdpoint itself knows: those of
// personal tokens, of one-time sign-in links, and bootstrap.
const LocalIssuer = "holdpoint"

// Access is a validated credential of a person: who, and what it allows.
type Access struct {
	Person Person
	Roles  []Role
	// Agents the person may act as, by name; "*" is every one.
	Agents []string
}

// Has reports whether the access includes a role.
func (a Access) Has(role Role) bool { return slices.Contains(a.Roles, role) }

// MayActAs reports whether the person may make calls as an agent.
func (a Access) MayActAs(agent string) bool {
	return slices.Contains(a.Agents, agent) || slices.Contains(a.Agents, "*")
}
