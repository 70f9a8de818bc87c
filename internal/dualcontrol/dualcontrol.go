// Package dualcontrol owns changes that wait for a second operator (tables changes and controls): who may decide them, when they expire,
// and that each is applied once, exactly as it was proposed. The packages that own what a change is about say which changes loosen, and
// apply them.
package dualcontrol

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Kind is the kind of thing that a change is about.
type Kind string

// The kinds.
const (
	Skill      Kind = "skill"
	Tool       Kind = "tool" // the definition of a tool
	Rule       Kind = "rule"
	Policy     Kind = "policy"
	Grant      Kind = "grant"
	Person     Kind = "person"
	Invitation Kind = "invitation"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Skill, Tool, Rule, Policy, Grant, Person, Invitation} }

// Status is the state of a change.
type Status string

// The states.
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Rejected Status = "rejected"
	Expired  Status = "expired"
	Replaced Status = "replaced" // by a later proposal about the same thing
	Stale    Status = "stale"    // the thing has changed since
)

// Statuses returns all states.
func Statuses() []Status { return []Status{Pending, Approved, Rejected, Expired, Replaced, Stale} }

// Field is one difference, as text. Secrets are not shown.
type Field struct {
	Field string `json:"field"`
	Old   string `json:"old,omitempty"` // empty: not set before
	New   string `json:"new,omitempty"` // empty: removed
}

// Proposal is a change that loosens.
type Proposal struct {
	Kind    Kind
	Subject uuid.UUID // the thing
	Name    string    // of a person: the id; of an invitation: its hint. An erasure does not find names here
	Action  string    // create, update or delete
	Fields  []Field
	// Payload is stored as JSON, encrypted, and given to [Applier.Apply]. It says what the change was made against.
	Payload any
}

// Change is a proposed change.
type Change struct {
	ID         uuid.UUID
	Kind       Kind
	Subject    uuid.UUID
	Name       string
	Action     string
	Fields     []Field
	ProposedBy uuid.UUID
	ProposedAt time.Time
	ExpiresAt  time.Time
	Status     Status
	DecidedBy  uuid.UUID // uuid.Nil: nobody
	DecidedAt  *time.Time
	Note       string
}

// CallField is the field of a grant that names the call from which it is made.
const CallField = "call"

// FromCall returns the call from which a grant is made; uuid.Nil: the change is about another thing.
func (c *Change) FromCall() uuid.UUID {
	for _, f := range c.Fields {
		if id, err := uuid.Parse(f.New); c.Kind == Grant && f.Field == CallField && err == nil {
			return id
		}
	}
	return uuid.Nil
}

// DefaultTTL is how long a change waits by default.
const DefaultTTL = 72 * time.Hour

// Config configures a [Service]. Pool, Box, Operators and MayBeOne are required.
type Config struct {
	Pool *pgxpool.Pool
	Box  *secret.Box
	On   bool          // changes that loosen wait; else none does
	TTL  time.Duration // zero: [DefaultTTL]
	// Operators returns the people who are operators, now or after signing in.
	Operators func(ctx context.Context, db postgres.Querier) ([]uuid.UUID, error)
	// MayBeOne reports whether two records may be one person.
	MayBeOne func(ctx context.Context, db postgres.Querier, a, b uuid.UUID) (bool, error)
}

// Applier applies the changes of one kind.
type Applier struct {
	// Lock is the SQL of the lock that whoever proposes such changes holds. It is taken before the change is locked.
	Lock string
	// Apply makes a change in the transaction, on behalf of the person who approves it. It returns [ErrStale] if the thing is not as it
	// was when the change was proposed.
	Apply func(ctx context.Context, tx pgx.Tx, c Change, payload []byte, by uuid.UUID) error
	// Applied runs after the commit.
	Applied func()
}

// Service keeps changes that wait. A nil service has dual control off.
type Service struct {
	Config
	appliers map[Kind]Applier
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Box == nil || cfg.Operators == nil || cfg.MayBeOne == nil {
		return nil, errors.New("dualcontrol: Pool, Box, Operators and MayBeOne are required")
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	return &Service{Config: cfg, appliers: map[Kind]Applier{}}, nil
}

// Register says how changes of a kind are applied. Call it before using the service.
func (s *Service) Register(kind Kind, a Applier) { s.appliers[kind] = a }

// IsOn reports whether changes that loosen wait.
func (s *Service) IsOn() bool { return s != nil && s.On }

// Errors of this package.
var (
	ErrNotFound = fault.NotFound("change not found")
	// ErrStale: the thing is not as it was when the change was proposed.
	ErrStale = errors.New("it was changed after this change was proposed: propose the change again")
	// ErrOwn: the operator proposed the change, or may be the person who did.
	ErrOwn = errors.New("another operator has to approve a change that you proposed, or that was proposed by a person who vouches for you or for whom you vouch")
	// ErrAlone: there is no second operator.
	ErrAlone = errors.New("dual control: a second operator has to approve this change, and there is none who could: no change was made")
)

// EndedError says that a change does not wait any more.
type EndedError struct{ Change Change }

func (e *EndedError) Error() string {
	return fmt.Sprintf("change %s is %s", e.Change.ID, e.Change.Status)
}

// WaitsError says that a change was not made, because it waits for a second operator.
type WaitsError struct{ Change Change }

func (e *WaitsError) Error() string {
	return fmt.Sprintf("dual control: the change of %s %s waits for a second operator, as change %s", e.Change.Kind, e.Change.Name, e.Change.ID)
}

// AsError returns the change as an error, or nil if there is none.
func (c *Change) AsError() error {
	if c == nil {
		return nil
	}
	return &WaitsError{Change: *c}
}
