package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Claims are what an identity provider vouches for.
type Claims struct {
	Issuer  string
	Subject string
	Name    string // empty: the subject
	Email   string // shown, and compared with an invitation's
	// EmailVerified: the provider says that the address is the person's.
	EmailVerified bool

	Roles []Role
	Teams []string
	// ProofAge is how long ago the person proved to the provider who they are, which may know them from an earlier
	// sign-in and not have asked. Nil: it does not say.
	ProofAge *time.Duration
}

// Errors about people who are who they say and still do not get in.
var (
	ErrBlocked = errors.New("an operator blocked this person")
	ErrNoRole  = errors.New("the person has no role")
)

// Bounds of what is kept of a person; a subject may be 255 characters long (OpenID Connect Core, section 2).
const (
	maxSubject = 255
	maxClaim   = 256
	maxTeams   = 200
)

// clean makes of claims what the database takes. Teams that no one could mean are left out.
func (c Claims) clean() (Claims, error) {
	if c.Subject == "" || len(c.Subject) > maxSubject || cleanText(c.Subject, maxSubject) != c.Subject {
		return c, &InvalidError{"subject", fmt.Sprintf("must be 1 to %d bytes of text", maxSubject)}
	}
	if c.Issuer == "" || c.Issuer == LocalIssuer {
		return c, &InvalidError{"issuer", "must be an identity provider's"}
	}
	c.Name, c.Email = cleanText(c.Name, maxClaim), cleanText(c.Email, maxClaim)
	if strings.TrimSpace(c.Name) == "" {
		c.Name = c.Subject
	}
	teams := slices.DeleteFunc(slices.Clone(c.Teams), func(team string) bool { return validTeam(team) != nil })
	c.Roles, c.Teams = union(c.Roles), union(teams)
	c.Teams = c.Teams[:min(len(c.Teams), maxTeams)]
	return c, nil
}

// validTeam refuses names of teams that could be taken for another when they are shown.
func validTeam(team string) error {
	if validName(team) != nil {
		return &InvalidError{"teams", fmt.Sprintf("%q: want 1 to %d bytes of printable text without white space at its ends", team, maxName)}
	}
	return nil
}

// SignIn records what an identity provider vouches for, and begins a session. Errors: ErrBlocked, and ErrNoRole for somebody
// whom neither the provider nor an operator gives a role; both are known from then on, and an operator can let them in.
func (s *Service) SignIn(ctx context.Context, claims Claims, n NewSession) (Session, error) {
	var session Session
	err := s.claim(ctx, claims, func(tx pgx.Tx, person uuid.UUID) (err error) {
		session, err = insertSession(ctx, tx, sessionRow{person: person, method: ByProvider, proof: claims.ProofAge, NewSession: n})
		return err
	})
	return session, err
}

// SignInAgain records that the person of a session proved again to an identity provider who they are, and what it
// says of them now. ErrUnauthenticated, and nothing changes, if that is another person or the session is over.
func (s *Service) SignInAgain(ctx context.Context, claims Claims, id uuid.UUID) (Session, error) {
	access, err := s.loadSession(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if access.Person.Issuer != claims.Issuer || access.Person.Subject != claims.Subject {
		return Session{}, ErrUnauthenticated
	}
	var session Session
	err = s.claim(ctx, claims, func(tx pgx.Tx, person uuid.UUID) (err error) {
		session, err = reauthenticate(ctx, tx, id, person, ByProvider, claims.ProofAge)
		return err
	})
	return session, err
}

// SignInInvited is SignIn for a person who brings an invitation, which is redeemed if it is theirs. Errors: ErrInvitation,
// ErrInvitedOther, ErrUnverifiedEmail and ErrSelfGrant, beside those of SignIn; then nothing changes.
func (s *Service) SignInInvited(ctx context.Context, claims Claims, invitation string, n NewSession) (Session, error) {
	var session Session
	err := s.claimInvited(ctx, claims, invitation, func(tx pgx.Tx, person uuid.UUID) (err error) {
		session, err = insertSession(ctx, tx, sessionRow{person: person, method: ByProvider, proof: claims.ProofAge, NewSession: n})
		return err
	})
	return session, err
}

// claim records claims, and does what follows for somebody who may come in.
func (s *Service) claim(ctx context.Context, claims Claims, welcome func(tx pgx.Tx, person uuid.UUID) error) error {
	return s.claimInvited(ctx, claims, "", welcome)
}

func (s *Service) claimInvited(ctx context.Context, claims Claims, invitation string, welcome func(tx pgx.Tx, person uuid.UUID) error) error {
	claims, err := claims.clean()
	if err != nil {
		return fmt.Errorf("sign in a person of %s: %w", claims.Issuer, err)
	}
	var person claimed
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if person, err = upsertClaimed(ctx, tx, claims); err != nil {
			return err
		}
		if invitation != "" && !errors.Is(person.refused, ErrBlocked) {
			if err := redeemClaimed(ctx, tx, invitation, claims, person.id); err != nil {
				return err
			}
			person.changed, person.refused = true, nil
		}
		if person.changed {
			if err := registry.Notify(ctx, tx); err != nil {
				return err
			}
		}
		if person.refused == nil {
			err = welcome(tx, person.id)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sign in %s of %s: %w", claims.Subject, claims.Issuer, err)
	}
	if person.changed {
		s.Invalidate()
	} else {
		s.eligible.Drop()
	}
	return person.refused
}

// claimed is what became of a person by what was claimed.
type claimed struct {
	id      uuid.UUID
	changed bool  // what they may do, or what they are called
	refused error // ErrBlocked, ErrNoRole
}

func upsertClaimed(ctx context.Context, tx pgx.Tx, c Claims) (claimed, error) {
	var was struct {
		id      uuid.UUID
		roles   []Role
		teams   []string
		granted []Role
		blocked *time.Time
	}
	err := tx.QueryRow(ctx, `SELECT id, claimed_roles, claimed_teams, granted_roles, blocked_at FROM people
		WHERE issuer = $1 AND subject = $2 FOR UPDATE`, c.Issuer, c.Subject).Scan(&was.id, &was.roles, &was.teams, &was.granted, &was.blocked)
	unknown := errors.Is(err, pgx.ErrNoRows)
	if err != nil && !unknown {
		return claimed{}, err
	}
	if unknown {
		if was.id, err = uuid.NewV7(); err != nil {
			return claimed{}, err
		}
	}
	var id uuid.UUID
	var created bool
	err = tx.QueryRow(ctx, `INSERT INTO people (id, issuer, subject, name, email, claimed_roles, claimed_teams)
		VALUES ($1, $2, $3, $4, nullif($5, ''), $6, $7)
		ON CONFLICT (issuer, subject) DO UPDATE SET name = excluded.name, email = excluded.email,
			claimed_roles = excluded.claimed_roles, claimed_teams = excluded.claimed_teams RETURNING id, xmax = 0`,
		was.id, c.Issuer, c.Subject, c.Name, c.Email, c.Roles, c.Teams).Scan(&id, &created)
	if err != nil {
		return claimed{}, err
	}
	result := claimed{id: id, changed: unknown || !slices.Equal(was.roles, c.Roles) || !slices.Equal(was.teams, c.Teams)}
	switch {
	case was.blocked != nil:
		result.refused = ErrBlocked
	case len(c.Roles)+len(was.granted) == 0:
		result.refused = ErrNoRole
	}
	if !result.changed {
		return result, nil
	}
	event := audit.Event{
		Actor: audit.Person(id), Action: "person.claimed", Subject: id, Data: map[string]any{"roles": c.Roles, "teams": c.Teams},
	}
	if created {
		event.Action = "person.created"
		event.Data["issuer"], event.Data["subject"] = c.Issuer, c.Subject
	}
	return result, audit.Write(ctx, tx, event)
}
