// Package identity owns people: their roles and teams, the invitations that let them in, their personal tokens, sign-in links
// and browser sessions, and which people are the same (tables people, invitations, person_tokens, sign_in_links, person_links,
// person_sessions). It does not own agents and their keys, or the cookies of browsers.
//
// Package provider verifies the tokens of identity providers; their claims come here as [Claims].
package identity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Config configures a [Service].
type Config struct {
	Pool *pgxpool.Pool
	// BootstrapToken authenticates the local person bootstrap as operator and reviewer. It has at least [MinBootstrapToken]
	// characters. Empty: there is none.
	BootstrapToken string
	// Issuers are the configured identity providers, whose people can sign in.
	Issuers []string
	// TokenTTL is how long a new personal token is valid. Zero: 90 days.
	TokenTTL time.Duration
	// SessionsKept is how long the row of an ended session is kept. Zero: 24 hours.
	SessionsKept time.Duration
	// SeparateRoles: operator and reviewer are never one person.
	SeparateRoles bool
	// TokensOff: personal tokens do not work, and none is made.
	TokensOff bool
	// Control keeps roles that wait for a second operator. Nil: none wait.
	Control *dualcontrol.Service
	// SessionsEnded is called with sessions in the transaction that ends them. Nil: nothing is called.
	SessionsEnded func(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error
	Logger        *slog.Logger
	Now           func() time.Time // for caches and [Service.EndsSoon]; all else goes by the database's clock
}

// Service manages people and their credentials. It is safe for concurrent use.
type Service struct {
	pool            *pgxpool.Pool
	log             *slog.Logger
	bootstrap       *secret.Hash // nil: no bootstrap token
	issuers         []string
	tokenTTL        time.Duration
	separate        bool
	tokensOff       bool
	control         *dualcontrol.Service
	sessionsKept    time.Duration
	now             func() time.Time
	sessionsEnded   func(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error
	accessByToken   *registry.Memory[secret.Hash, Access]
	accessBySession *registry.Memory[uuid.UUID, Access]
	eligible        *registry.Memory[Role, []Eligible]
	links           *registry.Memory[struct{}, map[uuid.UUID]uuid.UUID]
	vouched         *registry.Memory[vouchedKey, uuid.UUID]
	names           *registry.Memory[struct{}, nameIndex]
	announcements   *registry.Memory[struct{}, Announcements]
	duties          *registry.Memory[uuid.UUID, Duty]

	caches []interface { // all of the above
		Drop()
		Close()
	}

	mu            sync.Mutex
	changedSignal chan struct{} // closed at the next change
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.TokenTTL < 0 {
		return nil, errors.New("identity: TokenTTL must not be negative")
	}
	if cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("identity: Pool, Logger and Now are required")
	}
	s := &Service{
		pool: cfg.Pool, log: cfg.Logger, now: cfg.Now, issuers: append([]string{}, cfg.Issuers...),
		sessionsEnded: cfg.SessionsEnded, changedSignal: make(chan struct{}),
		separate: cfg.SeparateRoles, tokensOff: cfg.TokensOff, control: cfg.Control,
	}
	if s.control != nil {
		s.registerChanges()
	}
	s.accessByToken = newCache[secret.Hash, Access](s)
	s.accessBySession = newCache[uuid.UUID, Access](s)
	s.eligible = newCache[Role, []Eligible](s)
	s.links = newCache[struct{}, map[uuid.UUID]uuid.UUID](s)
	s.announcements = newCache[struct{}, Announcements](s)
	s.names = newCache[struct{}, nameIndex](s)
	s.duties = newCache[uuid.UUID, Duty](s)
	s.vouched = newCache[vouchedKey, uuid.UUID](s)
	s.tokenTTL, s.sessionsKept = cmp.Or(cfg.TokenTTL, DefaultTokenTTL), cmp.Or(cfg.SessionsKept, lifetime.DefaultSessions)
	if cfg.BootstrapToken != "" {
		if err := CheckBootstrapToken(cfg.BootstrapToken); err != nil {
			return nil, err
		}
		hash := secret.HashOf(cfg.BootstrapToken)
		s.bootstrap = &hash
		s.log.Warn("bootstrap token is configured: it gives the roles operator and reviewer", "person", Bootstrap)
	}
	return s, nil
}

// newCache makes a cache of the service, which [Service.Invalidate] drops.
func newCache[K comparable, V any](s *Service) *registry.Memory[K, V] {
	cache := registry.NewMemory[K](registry.Config[V]{TTL: registry.SafetyNet, Now: s.now})
	s.caches = append(s.caches, cache)
	return cache
}

// Invalidate drops everything cached. Call it on every notification of [registry.Channel].
func (s *Service) Invalidate() {
	for _, cache := range s.caches {
		cache.Drop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changedSignal)
	s.changedSignal = make(chan struct{})
}

// Changed returns a channel that is closed at the next change that may affect a person's access.
func (s *Service) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changedSignal
}

// Close stops the background work.
func (s *Service) Close() {
	for _, cache := range s.caches {
		cache.Close()
	}
}
