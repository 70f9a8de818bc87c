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
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Invitation lets one person in, once. With an issuer, it is for the person whom that identity provider identifies by subject
// or email. Without one, its holder becomes a local person whom no identity provider verifies.
type Invitation struct {
	ID         uuid.UUID
	Hint       string // the first characters of its secret
	Name       string // of the local person; with an issuer, only a label
	Issuer     string // empty: a local person
	Subject    string
	Email      string
	Roles      []Role
	Agents     []string // that the person may act as
	Limit      *Limit   // of the calls that they may decide as a reviewer; nil: all
	Waits      bool     // for a second operator; it cannot be redeemed before
	InvitedBy  uuid.UUID
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RedeemedAt *time.Time
	RedeemedBy uuid.UUID
	RevokedAt  *time.Time
}

// InvitationPath is the dashboard page that redeems an invitation.
const InvitationPath = "/invitation"

// InvitationURL returns the address that an invited person opens.
func InvitationURL(publicURL, secret string) string {
	return strings.TrimSuffix(publicURL, "/") + InvitationPath + "?" + url.Values{"key": {secret}}.Encode()
}

// NewInvitation describes an invitation to be made.
type NewInvitation struct {
	Name, Issuer, Subject, Email string
	Roles                        []Role
	Agents                       []string
	Limit                        *Limit
	TTL                          time.Duration // zero: [DefaultInvitationTTL]
}

const (
	// DefaultInvitationTTL is how long an invitation can be redeemed by default.
	DefaultInvitationTTL = 72 * time.Hour
	maxInvitationTTL     = 30 * 24 * time.Hour
)

// Errors about invitations.
var (
	// ErrInvitation: the invitation is unknown, redeemed, revoked or expired.
	ErrInvitation = errors.New("the invitation was used, revoked, or has expired")
	// ErrInvitedOther: the invitation is for another person.
	ErrInvitedOther = errors.New("the invitation is for another person")
	// ErrUnverifiedEmail: the identity provider does not call the email address of the invitation verified.
	ErrUnverifiedEmail = errors.New("the identity provider does not say that the e-mail address of the invitation is verified")
	// ErrInvitedByProvider: the invitation is redeemed by signing in with its identity provider.
	ErrInvitedByProvider = errors.New("the invitation is redeemed in the dashboard, by signing in with the identity provider")
)

// Invite makes an invitation and returns its secret, which is shown once. A local person who exists is invited again only by
// their first inviter. Errors: *[fault.InvalidError], *[KnownError].
func (s *Service) Invite(ctx context.Context, by audit.Actor, n NewInvitation) (Invitation, string, error) {
	err := n.checkFields(s.issuers)
	switch {
	case err != nil:
	case n.Issuer == "" && s.tokensOff:
		err = ErrTokensOff
	default:
		err = s.checkRoles(n.Roles)
	}
	if err != nil {
		return Invitation{}, "", fmt.Errorf("invite %q: %w", n.Name, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Invitation{}, "", fmt.Errorf("invite %q: %w", n.Name, err)
	}
	c := secret.NewCredential(secret.Invitation)
	var made Invitation
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if n.Issuer == "" {
			if err := mayInviteAgain(ctx, tx, n.Name, by.ID); err != nil {
				return err
			}
		}
		if made, err = postgres.CollectOne(ctx, tx, scanInvitation, `INSERT INTO invitations AS i (id, secret_hash, hint, name, issuer, subject, email, roles, agents, invited_by, expires_at, review_limit)
			VALUES ($1, $2, $3, $4, nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10, holdpoint_now() + $11 * interval '1 microsecond', $12)
			RETURNING `+invitationColumns, id, c.Hash[:], c.Hint, n.Name, n.Issuer, n.Subject, n.Email, n.Roles, n.Agents,
			postgres.OrNull(by.ID), n.TTL.Microseconds(), n.Limit); err != nil {
			return err
		}
		if _, err := s.proposeInvitation(ctx, tx, by, &made); err != nil {
			return err
		}
		return audit.Write(ctx, tx, made.auditEvent(by, audit.InvitationCreated))
	})
	if err != nil {
		return Invitation{}, "", fmt.Errorf("invite %q: %w", n.Name, err)
	}
	return made, c.Secret, nil
}

// checkFields validates the fields and sets defaults.
func (n *NewInvitation) checkFields(issuers []string) (err error) {
	if n.Roles, n.Agents, err = validGrant(n.Name, n.Roles, n.Agents); err != nil {
		return err
	}
	if err := n.Limit.check(); err != nil {
		return err
	}
	n.Limit = n.Limit.normalize()
	if n.TTL == 0 {
		n.TTL = DefaultInvitationTTL
	}
	switch {
	case n.Name == Bootstrap:
		return fault.Invalid("name", "is reserved for the bootstrap token")
	case n.TTL < time.Minute || n.TTL > maxInvitationTTL:
		return fault.Invalid("ttl", "must be between 1 minute and 30 days")
	case len(issuers) == 0 && n.Issuer == "" && n.Subject+n.Email != "":
		return fault.Invalid("issuer", "is missing: a subject or an e-mail address is an identity provider's, and none is configured")
	case len(issuers) > 0 && n.Issuer == "" && len(issuers) == 1:
		n.Issuer = issuers[0]
	}
	switch {
	case n.Issuer == "" && len(issuers) == 0:
		return nil
	case !slices.Contains(issuers, n.Issuer):
		return fault.Invalid("issuer", "must be one of the identity providers here: "+strings.Join(issuers, ", "))
	case (n.Subject == "") == (n.Email == ""):
		return fault.Invalid("subject", "name the person at the identity provider either by subject or by email")
	case len(n.Subject) > maxSubject || cleanText(n.Subject, maxSubject) != n.Subject:
		return fault.Invalid("subject", fmt.Sprintf("must be 1 to %d bytes of text", maxSubject))
	case n.Email != "" && (len(n.Email) > maxClaim || cleanText(n.Email, maxClaim) != n.Email || strings.Count(n.Email, "@") != 1):
		return fault.Invalid("email", "must be one e-mail address")
	}
	return nil
}

// mayInviteAgain accepts a name that no person has, or whose unverified person was invited by the same person.
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

// KnownError says that the person to be invited exists already.
type KnownError struct{ Person uuid.UUID }

func (*KnownError) Error() string {
	return "there is a person of this name already; only the person who invited them can invite them again"
}

// OpenInvitation returns the invitation of a secret without redeeming it. Error: [ErrInvitation].
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

// Redeem creates the local person of an invitation and their token. If the person exists, their other tokens and sessions end,
// so that no one takes over a name unnoticed. Errors: [ErrInvitation], [ErrInvitedByProvider], [ErrBlocked], *[KnownError].
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
		// The inviter is the actor of this event, and is not at this request's address.
		person, added, err := addPerson(clientaddr.WithAddr(ctx, netip.Addr{}), tx, actorFor(i.InvitedBy), i.Name, i.InvitedBy)
		if err != nil {
			return NewToken{}, err
		}
		if !added {
			if blocked, err := isBlocked(ctx, tx, person.ID); err != nil || blocked {
				return NewToken{}, errors.Join(err, ErrBlocked)
			}
		}
		by := audit.Person(person.ID)
		ctx := audit.WithCredential(ctx, by, i.auditCredential())
		if err := recordRedemption(ctx, tx, &i, by); err != nil {
			return NewToken{}, err
		}
		if err := s.endCredentials(ctx, tx, by, person.ID); err != nil {
			return NewToken{}, err
		}
		if err := limitInvited(ctx, tx, &i, person.ID); err != nil {
			return NewToken{}, err
		}
		return s.insertToken(ctx, tx, by, person, i.Roles, i.Agents)
	})
	if err != nil {
		return NewToken{}, fmt.Errorf("redeem invitation: %w", err)
	}
	return made, nil
}

// redeemForSignIn redeems an invitation for a person who has signed in with an identity provider.
func (s *Service) redeemForSignIn(ctx context.Context, tx pgx.Tx, credential string, c Claims, person uuid.UUID) error {
	i, err := openInvitation(ctx, tx, credential)
	if err != nil {
		return err
	}
	match := i.Subject != "" && i.Subject == c.Subject || i.Email != "" && plain.LowerASCII(i.Email) == plain.LowerASCII(c.Email)
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
	ctx = audit.WithCredential(ctx, by, i.auditCredential())
	_, err = tx.Exec(ctx, `UPDATE people SET
			granted_roles = ARRAY(SELECT DISTINCT unnest(granted_roles || $2) ORDER BY 1),
			granted_agents = ARRAY(SELECT DISTINCT unnest(granted_agents || $3) ORDER BY 1)
		WHERE id = $1`, person, i.Roles, i.Agents)
	if err != nil {
		return err
	}
	if err := limitInvited(ctx, tx, &i, person); err != nil {
		return err
	}
	if err := s.checkSeparate(ctx, tx, person); err != nil {
		return err
	}
	return recordRedemption(ctx, tx, &i, by)
}

// limitInvited gives a person the limit of an invitation, unless they have one.
func limitInvited(ctx context.Context, tx pgx.Tx, i *Invitation, person uuid.UUID) error {
	if i.Limit == nil {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE people SET review_limit = $2 WHERE id = $1 AND review_limit IS NULL`, person, i.Limit)
	if err != nil {
		return fmt.Errorf("limit invited person %s: %w", person, err)
	}
	return nil
}

// openInvitation locks and returns the invitation of a secret.
func openInvitation(ctx context.Context, tx pgx.Tx, credential string) (Invitation, error) {
	if !secret.Invitation.Is(credential) {
		return Invitation{}, ErrInvitation
	}
	hash := secret.HashOf(credential)
	found, err := postgres.CollectOne(ctx, tx, scanInvitation, `SELECT `+invitationColumns+` FROM invitations i WHERE i.secret_hash = $1 AND `+invitationOpenSQL+` FOR UPDATE OF i`, hash[:])
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrInvitation
	}
	return found, err
}

func recordRedemption(ctx context.Context, tx pgx.Tx, i *Invitation, by audit.Actor) error {
	_, err := tx.Exec(ctx, `UPDATE invitations SET redeemed_at = holdpoint_now(), redeemed_by = $2 WHERE id = $1`, i.ID, by.ID)
	if err != nil {
		return err
	}
	event := i.auditEvent(by, audit.InvitationRedeemed)
	event.Data["person"] = by.ID
	return audit.Write(ctx, tx, event)
}

// RevokeInvitation revokes an invitation that has not been redeemed. Error: [ErrNotFound].
func (s *Service) RevokeInvitation(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		revoked, err := postgres.CollectOne(ctx, tx, scanInvitation, `UPDATE invitations AS i SET revoked_at = holdpoint_now()
			WHERE i.id = $1 AND i.redeemed_at IS NULL AND i.revoked_at IS NULL RETURNING `+invitationColumns, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, revoked.auditEvent(by, audit.InvitationRevoked))
	})
	if err != nil {
		return fmt.Errorf("revoke invitation %s: %w", id, err)
	}
	return nil
}

// Invitations returns invitations older than before (uuid.Nil: all), the newest first, and the cursor of the next page;
// uuid.Nil: this is the last page. open selects those that can be redeemed.
func (s *Service) Invitations(ctx context.Context, before uuid.UUID, limit int, open bool) ([]Invitation, uuid.UUID, error) {
	limit = postgres.PageLength(limit)
	found, err := postgres.Collect(ctx, s.pool, scanInvitation, `SELECT `+invitationColumns+` FROM invitations i
		WHERE ($1::uuid IS NULL OR i.id < $1) AND (NOT $2 OR `+invitationOpenSQL+`) ORDER BY i.id DESC LIMIT $3`,
		postgres.OrNull(before), open, limit+1)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list invitations: %w", err)
	}
	if len(found) <= limit {
		return found, uuid.Nil, nil
	}
	return found[:limit], found[limit-1].ID, nil
}

func (i *Invitation) auditEvent(by audit.Actor, action audit.Action) audit.Event {
	data := map[string]any{"name": i.Name, "hint": i.Hint, "roles": i.Roles, "agents": i.Agents}
	for name, text := range map[string]string{"issuer": i.Issuer, "subject": i.Subject, "email": i.Email} {
		if text != "" {
			data[name] = text
		}
	}
	return audit.Event{Actor: by, Action: action, Subject: i.ID, Data: data}
}

func (i *Invitation) auditCredential() audit.Credential {
	return audit.Credential{Kind: audit.Invitation, ID: i.ID.String()}
}

const invitationColumns = `i.review_limit, i.waits, i.id, i.hint, i.name, coalesce(i.issuer, ''), coalesce(i.subject, ''), coalesce(i.email, ''), i.roles, i.agents,
	coalesce(i.invited_by, '00000000-0000-0000-0000-000000000000'), i.created_at, i.expires_at, i.redeemed_at,
	coalesce(i.redeemed_by, '00000000-0000-0000-0000-000000000000'), i.revoked_at`

// invitationOpenSQL is the condition that an invitation i can be redeemed.
const invitationOpenSQL = `i.redeemed_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > holdpoint_now() AND NOT i.waits
	AND NOT EXISTS (SELECT FROM people WHERE people.id = i.invited_by AND people.blocked_at IS NOT NULL)`

func scanInvitation(row pgx.CollectableRow) (Invitation, error) {
	var i Invitation
	err := row.Scan(&i.Limit, &i.Waits, &i.ID, &i.Hint, &i.Name, &i.Issuer, &i.Subject, &i.Email, &i.Roles, &i.Agents,
		&i.InvitedBy, &i.CreatedAt, &i.ExpiresAt, &i.RedeemedAt, &i.RedeemedBy, &i.RevokedAt)
	return i, err
}
