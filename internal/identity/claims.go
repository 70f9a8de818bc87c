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
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Claims are the statements of an identity provider about a person.
type Claims struct {
	Issuer  string
	Subject string
	Name    string // empty: the subject
	Email   string // for display, and to match an invitation's
	// EmailVerified: the provider says that the address belongs to the person.
	EmailVerified bool

	Roles []Role
	Teams []string
	// ProofAge is how long ago the person authenticated to the provider (claim auth_time). A provider with a session of its
	// own may not have asked again. Nil: unknown.
	ProofAge *time.Duration
}

// Errors about people who authenticated and still have no access.
var (
	ErrBlocked = errors.New("an operator blocked this person")
	ErrNoRole  = errors.New("the person has no role")
)

// Bounds of stored claims. A subject may have 255 characters (OpenID Connect Core section 2).
const (
	maxSubject = 255
	maxClaim   = 256
	maxTeams   = 200
)

// SignIn stores the claims of an identity provider and begins a session. Errors: [ErrBlocked], and [ErrNoRole] if neither the
// provider nor an operator gives the person a role. The person is stored in both cases, so that an operator can let them in.
func (s *Service) SignIn(ctx context.Context, claims Claims, n NewSession) (Session, error) {
	return s.SignInInvited(ctx, claims, "", n)
}

// SignInAgain stores the claims of a new authentication in a session. It returns [ErrUnauthenticated] and changes nothing if
// the claims are of another person or the session has ended.
func (s *Service) SignInAgain(ctx context.Context, claims Claims, id uuid.UUID) (Session, error) {
	access, err := s.loadSession(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if access.Person.Issuer != claims.Issuer || access.Person.Subject != claims.Subject {
		return Session{}, ErrUnauthenticated
	}
	var session Session
	err = s.recordClaims(ctx, claims, "", func(tx pgx.Tx, person uuid.UUID) (err error) {
		session, err = renewProof(ctx, tx, id, person, ByProvider, claims.ProofAge)
		return err
	})
	return session, err
}

// SignInInvited is [Service.SignIn] with the secret of an invitation, which it redeems if it is for this person. Further errors,
// after which nothing has changed: [ErrInvitation], [ErrInvitedOther], [ErrUnverifiedEmail], [ErrSelfGrant].
func (s *Service) SignInInvited(ctx context.Context, claims Claims, invitation string, n NewSession) (Session, error) {
	var session Session
	err := s.recordClaims(ctx, claims, invitation, func(tx pgx.Tx, person uuid.UUID) (err error) {
		session, err = insertSession(ctx, tx, sessionRow{person: person, method: ByProvider, proof: claims.ProofAge, NewSession: n})
		return err
	})
	return session, err
}

// recordClaims stores claims, redeems the invitation if it is not empty, and calls welcome if the person has access.
func (s *Service) recordClaims(ctx context.Context, claims Claims, invitation string, welcome func(tx pgx.Tx, person uuid.UUID) error) error {
	claims, err := claims.normalizeClaims()
	if err != nil {
		return fmt.Errorf("sign in a person of %s: %w", claims.Issuer, err)
	}
	var person claimedPerson
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if person, err = upsertClaimed(ctx, tx, claims); err != nil {
			return err
		}
		if invitation != "" && !errors.Is(person.refused, ErrBlocked) {
			if err := s.redeemForSignIn(ctx, tx, invitation, claims, person.id); err != nil {
				return err
			}
			person.changed, person.refused = true, nil
		}
		if person.changed {
			if err := noteSoleRole(ctx, tx, person.id); err != nil {
				return err
			}
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

// claimedPerson is the person whose claims were stored.
type claimedPerson struct {
	id      uuid.UUID
	changed bool  // roles, teams or name are new
	refused error // ErrBlocked, ErrNoRole
}

func upsertClaimed(ctx context.Context, tx pgx.Tx, c Claims) (claimedPerson, error) {
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
		return claimedPerson{}, err
	}
	if unknown {
		if was.id, err = uuid.NewV7(); err != nil {
			return claimedPerson{}, err
		}
	}
	var id uuid.UUID
	var created bool
	err = tx.QueryRow(ctx, `INSERT INTO people (id, issuer, subject, name, email, verified_email, claimed_roles, claimed_teams)
		VALUES ($1, $2, $3, $4, nullif($5, ''), CASE WHEN $8 THEN nullif($5, '') END, $6, $7)
		ON CONFLICT (issuer, subject) DO UPDATE SET name = excluded.name, email = excluded.email, verified_email = excluded.verified_email,
			claimed_roles = excluded.claimed_roles, claimed_teams = excluded.claimed_teams RETURNING id, xmax = 0`,
		was.id, c.Issuer, c.Subject, c.Name, c.Email, c.Roles, c.Teams, c.EmailVerified).Scan(&id, &created)
	if err != nil {
		return claimedPerson{}, err
	}
	result := claimedPerson{id: id, changed: unknown || !slices.Equal(was.roles, c.Roles) || !slices.Equal(was.teams, c.Teams)}
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
		Actor: audit.Person(id), Action: audit.PersonClaimed, Subject: id, Data: map[string]any{"roles": c.Roles, "teams": c.Teams},
	}
	if created {
		event.Action = audit.PersonCreated
		event.Data["issuer"], event.Data["subject"] = c.Issuer, c.Subject
	}
	return result, audit.Write(ctx, tx, event)
}

// normalizeClaims validates and bounds claims. It leaves out invalid team names.
func (c Claims) normalizeClaims() (Claims, error) {
	if c.Subject == "" || len(c.Subject) > maxSubject || cleanText(c.Subject, maxSubject) != c.Subject {
		return c, fault.Invalid("subject", fmt.Sprintf("must be 1 to %d bytes of text", maxSubject))
	}
	if c.Issuer == "" || c.Issuer == LocalIssuer {
		return c, fault.Invalid("issuer", "must be an identity provider's")
	}
	c.Name, c.Email = cleanText(c.Name, maxClaim), cleanText(c.Email, maxClaim)
	if strings.TrimSpace(c.Name) == "" {
		c.Name = c.Subject
	}
	teams := slices.DeleteFunc(slices.Clone(c.Teams), func(team string) bool { return validTeam(team) != nil })
	c.Roles, c.Teams = unionSorted(c.Roles), unionSorted(teams)
	c.Teams = c.Teams[:min(len(c.Teams), maxTeams)]
	return c, nil
}

// validTeam refuses team names that could be mistaken for others when they are shown.
func validTeam(team string) error {
	if validName(team) != nil {
		return fault.Invalid("teams", fmt.Sprintf("%q: must be 1 to %d bytes of printable text without white space at its ends", team, maxName))
	}
	return nil
}

// Vouched returns the person of a verified access token, and creates the person if there is none. It begins no session and
// changes no role. From the cache. Errors: [ErrBlocked], *[fault.InvalidError].
func (s *Service) Vouched(ctx context.Context, c Claims) (uuid.UUID, error) {
	c.Roles, c.Teams = nil, nil
	c, err := c.normalizeClaims()
	if err != nil {
		return uuid.Nil, fmt.Errorf("find a person of %s: %w", c.Issuer, err)
	}
	return s.vouched.Get(ctx, vouchedKey{c.Issuer, c.Subject}, func(ctx context.Context) (uuid.UUID, error) {
		id, err := s.ensureVouched(ctx, c)
		if err != nil {
			return uuid.Nil, fmt.Errorf("find %s of %s: %w", c.Subject, c.Issuer, err)
		}
		return id, nil
	})
}

type vouchedKey struct{ issuer, subject string }

func (s *Service) ensureVouched(ctx context.Context, c Claims) (uuid.UUID, error) {
	id, err := findVouched(ctx, s.pool, c)
	if !errors.Is(err, ErrNotFound) {
		return id, err
	}
	added, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO people (id, issuer, subject, name, email) VALUES ($1, $2, $3, $4, nullif($5, ''))
			ON CONFLICT (issuer, subject) DO NOTHING`, added, c.Issuer, c.Subject, c.Name, c.Email)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			err = audit.Write(ctx, tx, audit.Event{
				Actor: audit.Person(added), Action: audit.PersonCreated, Subject: added,
				Data: map[string]any{"issuer": c.Issuer, "subject": c.Subject, "by": "access_token"},
			})
			if err != nil {
				return err
			}
		}
		id, err = findVouched(ctx, tx, c)
		return err
	})
	return id, err
}

func findVouched(ctx context.Context, db postgres.Querier, c Claims) (uuid.UUID, error) {
	rows, err := db.Query(ctx, `SELECT id, blocked_at IS NOT NULL FROM people WHERE issuer = $1 AND subject = $2`, c.Issuer, c.Subject)
	if err != nil {
		return uuid.Nil, err
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct {
		ID      uuid.UUID
		Blocked bool
	}])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return uuid.Nil, ErrNotFound
	case err != nil:
		return uuid.Nil, err
	case found.Blocked:
		return uuid.Nil, ErrBlocked
	}
	return found.ID, nil
}
