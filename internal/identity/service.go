// Package identity owns people: who they are, their roles and teams, the invitations by which they come, their personal
// tokens, their one-time ways into the dashboard, and which browsers they are signed in with (the tables people,
// invitations, person_tokens, sign_in_links, person_links, person_sessions). It does not own agents and their keys, nor
// what a browser's cookie stands for.
package identity

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Config is what a Service needs.
type Config struct {
	Pool *pgxpool.Pool
	// BootstrapToken, of at least [MinBootstrapToken] characters, authenticates the local person
	// bootstrap as operator and reviewer. Empty: there is none.
	BootstrapToken string
	// Issuers of the identity providers that are configured: their people can sign in.
	Issuers []string
	// TokenTTL is how long a new personal token is valid. Zero: 90 days.
	TokenTTL time.Duration
	// SessionsEnded is told of sessions, in the transaction that ends them. Nil: nobody wants to know.
	SessionsEnded func(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error
	Logger        *slog.Logger
	Now           func() time.Time // times what is remembered, nothing else
}

// Service knows people and their credentials. It is safe for concurrent use.
type Service struct {
	pool      *pgxpool.Pool
	log       *slog.Logger
	bootstrap *secret.Hash // nil: no bootstrap token
	issuers   []string
	tokenTTL  time.Duration
	now       func() time.Time
	ended     func(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error
	access    *registry.Memory[secret.Hash, Access]
	sessions  *registry.Memory[uuid.UUID, Access]
	eligible  *registry.Memory[Role, []Eligible]
	links     *registry.Memory[struct{}, map[uuid.UUID]uuid.UUID]
	vouched   *registry.Memory[vouchedKey, uuid.UUID]
	alike     *registry.Memory[struct{}, lookalikes]
	announced *registry.Memory[struct{}, Announcements]

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.TokenTTL < 0 {
		return nil, errors.New("identity: TokenTTL must not be negative")
	}
	if cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("identity: Pool, Logger and Now are required")
	}
	s := &Service{pool: cfg.Pool, log: cfg.Logger, issuers: append([]string{}, cfg.Issuers...), ended: cfg.SessionsEnded, changed: make(chan struct{})}
	s.access = registry.NewMemory[secret.Hash](registry.Config[Access]{TTL: registry.SafetyNet, Now: cfg.Now})
	s.sessions = registry.NewMemory[uuid.UUID](registry.Config[Access]{TTL: registry.SafetyNet, Now: cfg.Now})
	s.eligible = registry.NewMemory[Role](registry.Config[[]Eligible]{TTL: registry.SafetyNet, Now: cfg.Now})
	s.links = registry.NewMemory[struct{}](registry.Config[map[uuid.UUID]uuid.UUID]{TTL: registry.SafetyNet, Now: cfg.Now})
	s.announced = registry.NewMemory[struct{}](registry.Config[Announcements]{TTL: registry.SafetyNet, Now: cfg.Now})
	s.alike = registry.NewMemory[struct{}](registry.Config[lookalikes]{TTL: registry.SafetyNet, Now: cfg.Now})
	s.now = cfg.Now
	s.tokenTTL = cmp.Or(cfg.TokenTTL, DefaultTokenTTL)
	s.vouched = registry.NewMemory[vouchedKey](registry.Config[uuid.UUID]{TTL: registry.SafetyNet, Now: cfg.Now})
	if cfg.BootstrapToken != "" {
		if err := CheckBootstrapToken(cfg.BootstrapToken); err != nil {
			return nil, err
		}
		hash := secret.HashOf(cfg.BootstrapToken)
		s.bootstrap = &hash
		s.log.Warn("bootstrap token is configured: whoever has it is operator and reviewer", "person", Bootstrap)
	}
	return s, nil
}

// MinBootstrapToken is how many characters a bootstrap token has at least: people make it up, so nothing else bounds
// how easily it is guessed.
const MinBootstrapToken = 32

// CheckBootstrapToken refuses tokens that are too short.
func CheckBootstrapToken(token string) error {
	if n := utf8.RuneCountInString(token); n < MinBootstrapToken {
		return fmt.Errorf("bootstrap token: it has %d characters: want at least %d, like the output of: openssl rand -hex 32", n, MinBootstrapToken)
	}
	return nil
}

// Invalidate drops what is remembered of credentials. It is called on every
// notice of [registry.Channel].
func (s *Service) Invalidate() {
	s.access.Drop()
	s.sessions.Drop()
	s.eligible.Drop()
	s.links.Drop()
	s.vouched.Drop()
	s.alike.Drop()
	s.announced.Drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed at the next change of what anybody's credentials allow, or what may be one.
func (s *Service) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Close ends what runs in the background.
func (s *Service) Close() {
	s.access.Close()
	s.sessions.Close()
	s.eligible.Close()
	s.links.Close()
	s.vouched.Close()
	s.alike.Close()
	s.announced.Close()
}

// Authenticate validates a person's bearer token: a personal token, or the configured
// bootstrap token. ErrUnauthenticated when it is none.
func (s *Service) Authenticate(ctx context.Context, token string) (Access, error) {
	hash := secret.HashOf(token)
	load := s.loadToken
	switch {
	case s.bootstrap != nil && subtle.ConstantTimeCompare(hash[:], s.bootstrap[:]) == 1:
		load = s.loadBootstrap
	case !secret.PersonalToken.Is(token):
		return Access{}, ErrUnauthenticated
	}
	return s.access.Get(ctx, hash, func(ctx context.Context) (Access, error) { return load(ctx, hash) })
}

// Recheck validates again what a person authenticated with before, by
// [Access.Credential]: ErrUnauthenticated once it was revoked or is no longer configured.
func (s *Service) Recheck(ctx context.Context, credential string) (Access, error) {
	if credential == Bootstrap {
		if s.bootstrap == nil {
			return Access{}, ErrUnauthenticated
		}
		return s.access.Get(ctx, *s.bootstrap, func(ctx context.Context) (Access, error) { return s.loadBootstrap(ctx, *s.bootstrap) })
	}
	var hash secret.Hash
	if n, err := hex.Decode(hash[:], []byte(credential)); err != nil || n != len(hash) || len(credential) != 2*len(hash) {
		return Access{}, ErrUnauthenticated
	}
	return s.access.Get(ctx, hash, func(ctx context.Context) (Access, error) { return s.loadToken(ctx, hash) })
}

func (s *Service) loadToken(ctx context.Context, hash secret.Hash) (Access, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+`
		FROM person_tokens t JOIN people p ON p.id = t.person_id
		WHERE t.secret_hash = $1 AND `+tokenValid+` AND p.blocked_at IS NULL`, hash[:])
	if err != nil {
		return Access{}, fmt.Errorf("authenticate person: %w", err)
	}
	token, err := pgx.CollectExactlyOneRow(rows, scanToken)
	if errors.Is(err, pgx.ErrNoRows) {
		return Access{}, ErrUnauthenticated
	}
	if err != nil {
		return Access{}, fmt.Errorf("authenticate person: %w", err)
	}
	return Access{Person: token.Person, Roles: token.Roles, Agents: token.Agents, Credential: hex.EncodeToString(hash[:]), token: token.ID, Ends: token.ExpiresAt}, nil
}

func (s *Service) loadBootstrap(ctx context.Context, _ secret.Hash) (Access, error) {
	person, err := s.localPerson(ctx, audit.System(), Bootstrap)
	if err != nil {
		return Access{}, fmt.Errorf("authenticate bootstrap: %w", err)
	}
	if blocked, err := s.Blocked(ctx, person.ID); err != nil || blocked {
		return Access{}, errors.Join(err, ErrUnauthenticated)
	}
	return Access{Person: person, Roles: bootstrapRoles(), Agents: []string{AnyAgent}, Credential: Bootstrap}, nil
}

// bootstrapRoles are those of the bootstrap token.
func bootstrapRoles() []Role { return []Role{Operator, Reviewer} }

// actor is who an operator's act is recorded of.
func actor(by uuid.UUID) audit.Actor {
	if by == uuid.Nil {
		return audit.System()
	}
	return audit.Person(by)
}
