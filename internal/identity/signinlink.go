package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// CreateSignInLink makes a one-time sign-in link for the local person with this name, who is created if necessary, and returns
// its secret.
func (s *Service) CreateSignInLink(ctx context.Context, name string, roles []Role, ttl time.Duration) (credential string, err error) {
	roles, _, err = validGrant(name, roles, nil)
	if err == nil && ttl <= 0 {
		err = fault.Invalid("ttl", "must be positive")
	}
	if err != nil {
		return "", fmt.Errorf("create sign-in link for %q: %w", name, err)
	}
	c := secret.NewCredential(secret.SignIn)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		person, err := ensurePersonInTx(ctx, tx, audit.System(), name)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO sign_in_links (secret_hash, person_id, roles, expires_at)
			VALUES ($1, $2, $3, holdpoint_now() + $4 * interval '1 microsecond')`,
			c.Hash[:], person.ID, roles, ttl.Microseconds())
		if err != nil {
			return err
		}
		err = audit.Write(ctx, tx, audit.Event{
			Actor: audit.System(), Action: audit.SignInLinkCreated, Subject: person.ID,
			Data: map[string]any{"roles": roles, "hint": c.Hint},
		})
		if err != nil {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err != nil {
		return "", fmt.Errorf("create sign-in link for %s: %w", name, err)
	}
	s.Invalidate()
	return c.Secret, nil
}

const (
	// FirstPerson is the name of the local person whom the first sign-in link is for.
	FirstPerson = "operator"
	// FirstLinkTTL is how long this link works.
	FirstLinkTTL = 10 * time.Minute
)

// HasPeople reports whether anyone has signed in or has a token.
func (s *Service) HasPeople(ctx context.Context) (bool, error) {
	arrived, err := postgres.CollectOne(ctx, s.pool, pgx.RowTo[bool], `SELECT EXISTS (SELECT FROM person_tokens) OR EXISTS (SELECT FROM person_sessions)
		OR EXISTS (SELECT FROM sign_in_links WHERE used_at IS NOT NULL) OR EXISTS (SELECT FROM people WHERE issuer <> $1)`, LocalIssuer)
	if err != nil {
		return false, fmt.Errorf("look for people: %w", err)
	}
	return arrived, nil
}

// CreateFirstLink makes a sign-in link for the first person, an operator and, unless roles are separate, a reviewer. Error: [ErrNotFirst].
func (s *Service) CreateFirstLink(ctx context.Context) (credential string, err error) {
	arrived, err := s.HasPeople(ctx)
	if err == nil && arrived {
		err = ErrNotFirst
	}
	if err != nil {
		return "", fmt.Errorf("create the first sign-in link: %w", err)
	}
	return s.CreateSignInLink(ctx, FirstPerson, s.bootstrapRoles(), FirstLinkTTL)
}

// UseSignInLink redeems the secret of a link, which works once. Agents are those of a token without agents, see
// [Service.CreateToken]. Error: [ErrUnauthenticated].
func (s *Service) UseSignInLink(ctx context.Context, credential string) (Access, error) {
	if !secret.SignIn.Is(credential) {
		return Access{}, ErrUnauthenticated
	}
	var access Access
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		access, err = redeemLink(ctx, tx, secret.HashOf(credential))
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(access.Person.ID), Action: audit.SignInLinkUsed, Subject: access.Person.ID,
		})
	})
	if err != nil {
		return Access{}, fmt.Errorf("use sign-in link: %w", err)
	}
	return access, nil
}

func redeemLink(ctx context.Context, tx pgx.Tx, hash secret.Hash) (Access, error) {
	var person uuid.UUID
	var access Access
	err := tx.QueryRow(ctx, `UPDATE sign_in_links SET used_at = holdpoint_now()
		WHERE secret_hash = $1 AND used_at IS NULL AND expires_at > holdpoint_now()
			AND person_id IN (SELECT id FROM people WHERE blocked_at IS NULL)
		RETURNING person_id, roles`, hash[:]).Scan(&person, &access.Roles)
	if errors.Is(err, pgx.ErrNoRows) {
		return Access{}, ErrUnauthenticated
	}
	if err != nil {
		return Access{}, err
	}
	people, err := collectPeople(ctx, tx, `SELECT `+personColumns+` FROM people p WHERE p.id = $1`, person)
	if err == nil && len(people) != 1 {
		err = ErrNotFound
	}
	if err != nil {
		return Access{}, err
	}
	access.Person, access.Agents = people[0], defaultAgents(access.Roles)
	return access, nil
}
