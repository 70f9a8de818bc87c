// Package identity is being assembled.
package identity

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Service knows people and their credentials.
type Service struct{}

// Authenticate validates a person's bearer token (a personal token, or the configured
// bootstrap token). ErrUnauthenticated when it is none.
func (s *Service) Authenticate(ctx context.Context, token string) (Access, error) { panic("soon") }

// CreateToken makes a personal token for the local person of that name (created if new) and returns
// its secret, which is shown once.
func (s *Service) CreateToken(ctx context.Context, by uuid.UUID, name string, roles []Role, agents []string) (id uuid.UUID, secret string, err error) {
	panic("soon")
}

// RevokeToken ends a token. ErrNotFound when there is none with this id.
func (s *Service) RevokeToken(ctx context.Context, by, id uuid.UUID) error { panic("soon") }

// People returns those of the ids that exist.
func (s *Service) People(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Person, error) {
	panic("soon")
}

// CreateSignInLink makes the secret of a one-time sign-in link for the local person of that name.
func (s *Service) CreateSignInLink(ctx context.Context, name string, roles []Role, ttl time.Duration) (secret string, err error) {
	panic("soon")
}

// UseSignInLink consumes a link's secret: it works once, before it expires.
func (s *Service) UseSignInLink(ctx context.Context, secret string) (Access, error) { panic("soon") }
