package identity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Invitation lets one person in, once. With an issuer it is for whom that identity provider vouches for by the subject
// or the e-mail address; without one its holder becomes a local person, whom nobody verified.
type Invitation struct {
	ID         uuid.UUID
	Hint       string // the first characters of its secret
	Name       string // of the local person; else what the inviter calls them
	Issuer     string // empty: a local person
	Subject    string
	Email      string
	Roles      []Role
	Agents     []string // that they may act as
	InvitedBy  uuid.UUID
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RedeemedAt *time.Time
	RedeemedBy uuid.UUID
	RevokedAt  *time.Time
}

// InvitationPath is the dashboard's page on which an invitation is redeemed.
const InvitationPath = "/invitation"

// InvitationURL is what an invited person opens.
func InvitationURL(publicURL, secret string) string {
	return strings.TrimSuffix(publicURL, "/") + InvitationPath + "?" + url.Values{"key": {secret}}.Encode()
}

// NewInvitation is what an operator asks for.
type NewInvitation struct {
	Name, Issuer, Subject, Email string
	Roles                        []Role
	Agents                       []string
	TTL                          time.Duration // zero: [DefaultInvitationTTL]
}

const (
	// DefaultInvitationTTL is how long an invitation can be redeemed where nothing else is asked for.
	DefaultInvitationTTL = 72 * time.Hour
	maxInvitationTTL     = 30 * 24 * time.Hour
)

// Errors about invitations.
var (
	// ErrInvitation: the invitation is unknown, redeemed, revoked, or its time is over.
	ErrInvitation = errors.New("the invitation was used before or revoked, or its time is over")
	// ErrInvitedOther: the invitation is for another person than the one who signed in.
	ErrInvitedOther = errors.New("the invitation is for somebody else")
	// ErrUnverifiedEmail: the invitation is for an e-mail address that the identity provider does not call verified.
	ErrUnverifiedEmail = errors.New("the identity provider does not say that the e-mail address of the invitation is verified")
	// ErrInvitedByProvider: the invitation is redeemed by signing in with its identity provider.
	ErrInvitedByProvider = errors.New("the invitation is redeemed in the dashboard, by signing in with the identity provider")
)

const invitationColumns = `i.id, i.hint, i.name, coalesce(i.issuer, ''), coalesce(i.subject, ''), coalesce(i.email, ''), i.roles, i.agents,
	coalesce(i.invited_by, '00000000-0000-0000-0000-000000000000'), i.created_at, i.expires_at, i.redeemed_at,
	coalesce(i.redeemed_by, '00000000-0000-0000-0000-000000000000'), i.revoked_at`

// invitationOpen is SQL for an invitation i that can be redeemed.
const invitationOpen = `i.redeemed_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > holdpoint_now()
	AND NOT EXISTS (SELECT FROM people WHERE people.id = i.invited_by AND people.blocked_at IS NOT NULL)`

func scanInvitation(row pgx.CollectableRow) (Invitation, error) {
	var i Invitation
	err := row.Scan(&i.ID, &i.Hint, &i.Name, &i.Issuer, &i.Subject, &i.Email, &i.Roles, &i.Agents,
		&i.InvitedBy, &i.CreatedAt, &i.ExpiresAt, &i.RedeemedAt, &i.RedeemedBy, &i.RevokedAt)
	return i, err
}

// check also fills in what was left out.
func (n *NewInvitation) check(issuers []string) (err error) {
	if n.Roles, n.Agents, err = validGrant(n.Name, n.Roles, n.Agents); err != nil {
		return err
	}
	if n.TTL == 0 {
		n.TTL = DefaultInvitationTTL
	}
	switch {
	case n.Name == Bootstrap:
		return &InvalidError{"name", "is reserved for the bootstrap token"}
	case n.TTL < time.Minute || n.TTL > maxInvitationTTL:
		return &InvalidError{"ttl", "must be between 1 minute and 30 days"}
	case len(issuers) == 0 && n.Issuer == "" && n.Subject+n.Email != "":
		return &InvalidError{"issuer", "is missing: a subject or an e-mail address is an identity provider's, and none is configured"}
	case len(issuers) > 0 && n.Issuer == "" && len(issuers) == 1:
		n.Issuer = issuers[0]
	}
	switch {
	case n.Issuer == "" && len(issuers) == 0:
		return nil
	case !slices.Contains(issuers, n.Issuer):
		return &InvalidError{"issuer", "must be one of the identity providers here: " + strings.Join(issuers, ", ")}
	case (n.Subject == "") == (n.Email == ""):
		return &InvalidError{"subject", "name the person at the identity provider either by subject or by email"}
	case len(n.Subject) > maxSubject || cleanText(n.Subject, maxSubject) != n.Subject:
		return &InvalidError{"subject", fmt.Sprintf("must be 1 to %d bytes of text", maxSubject)}
	case n.Email != "" && (len(n.Email) > maxClaim || cleanText(n.Email, maxClaim) != n.Email || strings.Count(n.Email, "@") != 1):
		return &InvalidError{"email", "must be one e-mail address"}
	}
	return nil
}

// Invite makes an invitation, and returns its secret, which is shown once. A local person who is known is invited again
// only by the person who invited them first. Errors: *InvalidError, *KnownError.
func (s *Service) Invite(ctx context.Context, by audit.Actor, n NewInvitation) (Invitation, string, error) {
	if err := n.check(s.issuers); err != nil {
		return Invitation{}, "", fmt.Errorf("invite %q: %w", n.Name, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Invitation{}, "", fmt.Errorf("invite %q: %w", n.Name, err)
	}
	c := secret.NewCredential(secret.Invitation)
	var made Invitation
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if n.Issuer == "" {
			if err := mayInviteAgain(ctx, tx, n.Name, by.ID); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, `INSERT INTO invitations AS i (id, secret_hash, hint, name, issuer, subject, email, roles, agents, invited_by, expires_at)
			VALUES ($1, $2, $3, $4, nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10, holdpoint_now() + $11 * interval '1 microsecond')
			RETURNING `+invitationColumns, id, c.Hash[:], c.Hint, n.Name, n.Issuer, n.Subject, n.Email, n.Roles, n.Agents,
			postgres.OrNull(by.ID), n.TTL.Microseconds())
		if err != nil {
			return err
		}
		if made, err = pgx.CollectExactlyOneRow(rows, scanInvitation); err != nil {
			return err
		}
		return audit.Write(ctx, tx, made.event(by, "invitation.created"))
	})
	if err != nil {
		return Invitation{}, "", fmt.Errorf("invite %q: %w", n.Name, err)
	}
	return made, c.Secret, nil
}

func (i *Invitation) event(by audit.Actor, action string) audit.Event {
	data := map[string]any{"name": i.Name, "hint": i.Hint, "roles": i.Roles, "agents": i.Agents}
	for name, text := range map[string]string{"issuer": i.Issuer, "subject": i.Subject, "email": i.Email} {
		if text != "" {
			data[name] = text
		}
	}
	return audit.Event{Actor: by, Action: action, Subject: i.ID, Data: data}
}

// KnownError says that there is a person already who was to be made.
type KnownError struct{ Person uuid.UUID }

func (*KnownError) Error() string {
	return "there is a person of this name already; only the person who invited them can invite them again"
}

// mayInviteAgain lets a name pass that nobody has, or whose person is known only by the word of the same inviter.
func mayInviteAgain(ctx context.Context, tx pgx.Tx, name string, inviter uuid.UUID) error {
	known, err := findPerson(ctx, tx, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case known.InvitedBy == uuid.Nil || inviter == uuid.Nil:
		return &KnownError{known.ID}
	}
	same, err := Same(ctx, tx, known.InvitedBy, inviter)
	if err == nil && !same {
		err = &KnownError{known.ID}
	}
	return err
}

// openInvitation locks the invitation of a secret.
func openInvitation(ctx context.Context, tx pgx.Tx, credential string) (Invitation, error) {
	if !secret.Invitation.Is(credential) {
		return Invitation{}, ErrInvitation
	}
	hash := secret.HashOf(credential)
	rows, err := tx.Query(ctx, `SELECT `+invitationColumns+` FROM invitations i WHERE i.secret_hash = $1 AND `+invitationOpen+` FOR UPDATE OF i`, hash[:])
	if err != nil {
		return Invitation{}, err
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanInvitation)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrInvitation
	}
	return found, err
}

// OpenInvitation returns the invitation of a secret, which stays as it is. ErrInvitation.
func (s *Service) OpenInvitation(ctx context.Context, credential string) (found Invitation, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		found, err = openInvitation(ctx, tx, credential)
		return err
	})
	if err != nil {
		return Invitation{}, fmt.Errorf("read invitation: %w", err)
	}
	return found, nil
}

// Redeem makes the local person of an invitation, and their first token. A person who is invited again has that token
// alone: the others, and their sessions, end, so that nobody takes a name over unnoticed. Errors: ErrInvitation,
// ErrInvitedByProvider, ErrBlocked, *KnownError.
func (s *Service) Redeem(ctx context.Context, credential string) (NewToken, error) {
	made, err := s.createToken(ctx, "an invited person", func(tx pgx.Tx) (NewToken, error) {
		if _, err := tx.Exec(ctx, peopleLock); err != nil {
			return NewToken{}, err
		}
		i, err := openInvitation(ctx, tx, credential)
		switch {
		case err != nil:
			return NewToken{}, err
		case i.Issuer != "":
			return NewToken{}, ErrInvitedByProvider
		}
		if err := mayInviteAgain(ctx, tx, i.Name, i.InvitedBy); err != nil {
			return NewToken{}, err
		}
		// On the inviter's word, who is not the client of this request.
		person, added, err := addPerson(clientaddr.WithAddr(ctx, netip.Addr{}), tx, actor(i.InvitedBy), i.Name, i.InvitedBy)
		if err != nil {
			return NewToken{}, err
		}
		if !added {
			if blocked, err := isBlocked(ctx, tx, person.ID); err != nil || blocked {
				return NewToken{}, errors.Join(err, ErrBlocked)
			}
		}
		by := audit.Person(person.ID)
		ctx := audit.WithCredential(ctx, by, i.credential())
		if err := redeemed(ctx, tx, &i, by); err != nil {
			return NewToken{}, err
		}
		if err := s.endCredentials(ctx, tx, by, person.ID); err != nil {
			return NewToken{}, err
		}
		return s.insertToken(ctx, tx, by, person, i.Roles, i.Agents)
	})
	if err != nil {
		return NewToken{}, fmt.Errorf("redeem invitation: %w", err)
	}
	return made, nil
}

func (i *Invitation) credential() audit.Credential {
	return audit.Credential{Kind: audit.Invitation, ID: i.ID.String()}
}

func redeemed(ctx context.Context, tx pgx.Tx, i *Invitation, by audit.Actor) error {
	_, err := tx.Exec(ctx, `UPDATE invitations SET redeemed_at = holdpoint_now(), redeemed_by = $2 WHERE id = $1`, i.ID, by.ID)
	if err != nil {
		return err
	}
	event := i.event(by, "invitation.redeemed")
	event.Data["person"] = by.ID
	return audit.Write(ctx, tx, event)
}

// redeemClaimed gives the person of a sign-in what their invitation says.
func redeemClaimed(ctx context.Context, tx pgx.Tx, credential string, c Claims, person uuid.UUID) error {
	i, err := openInvitation(ctx, tx, credential)
	if err != nil {
		return err
	}
	match := i.Subject != "" && i.Subject == c.Subject || i.Email != "" && lowerASCII(i.Email) == lowerASCII(c.Email)
	switch {
	case i.Issuer == "" || i.Issuer != c.Issuer || !match:
		return ErrInvitedOther
	case i.Email != "" && !c.EmailVerified:
		return ErrUnverifiedEmail
	}
	if i.InvitedBy != uuid.Nil {
		tied, err := isTied(ctx, tx, i.InvitedBy, person)
		if err != nil {
			return err
		}
		if tied {
			return ErrSelfGrant
		}
	}
	by := audit.Person(person)
	ctx = audit.WithCredential(ctx, by, i.credential())
	_, err = tx.Exec(ctx, `UPDATE people SET
			granted_roles = ARRAY(SELECT DISTINCT unnest(granted_roles || $2) ORDER BY 1),
			granted_agents = ARRAY(SELECT DISTINCT unnest(granted_agents || $3) ORDER BY 1)
		WHERE id = $1`, person, i.Roles, i.Agents)
	if err != nil {
		return err
	}
	return redeemed(ctx, tx, &i, by)
}

// lowerASCII leaves other letters as they are: some of them only look like the same address.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// RevokeInvitation ends an invitation that nobody redeemed. ErrNotFound.
func (s *Service) RevokeInvitation(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE invitations AS i SET revoked_at = holdpoint_now()
			WHERE i.id = $1 AND i.redeemed_at IS NULL AND i.revoked_at IS NULL RETURNING `+invitationColumns, id)
		if err != nil {
			return err
		}
		revoked, err := pgx.CollectExactlyOneRow(rows, scanInvitation)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, revoked.event(by, "invitation.revoked"))
	})
	if err != nil {
		return fmt.Errorf("revoke invitation %s: %w", id, err)
	}
	return nil
}

// Invitations returns invitations, newest first, older than before (uuid.Nil: from the newest on), and the cursor of the
// next page (uuid.Nil: none). With open, only those that can be redeemed.
func (s *Service) Invitations(ctx context.Context, before uuid.UUID, limit int, open bool) ([]Invitation, uuid.UUID, error) {
	limit = postgres.PageLength(limit)
	rows, err := s.pool.Query(ctx, `SELECT `+invitationColumns+` FROM invitations i
		WHERE ($1::uuid IS NULL OR i.id < $1) AND (NOT $2 OR `+invitationOpen+`) ORDER BY i.id DESC LIMIT $3`,
		postgres.OrNull(before), open, limit+1)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list invitations: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanInvitation)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list invitations: %w", err)
	}
	if len(found) <= limit {
		return found, uuid.Nil, nil
	}
	return found[:limit], found[limit-1].ID, nil
}
