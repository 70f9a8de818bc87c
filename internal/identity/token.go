package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Token is a personal token, without its secret.
type Token struct {
	ID        uuid.UUID
	Person    Person
	Hint      string // the first characters of the secret
	Roles     []Role
	Agents    []string
	CreatedAt time.Time
	ExpiresAt time.Time
	RevokedAt *time.Time
}

// NewToken is a new token with its secret.
type NewToken struct {
	ID        uuid.UUID
	Secret    string // shown once
	Person    Person
	ExpiresAt time.Time
}

// DefaultTokenTTL is how long a new personal token is valid by default.
const DefaultTokenTTL = 90 * 24 * time.Hour

const tokenColumns = `t.id, t.hint, t.roles, t.agents, t.created_at, t.expires_at, t.revoked_at, ` + personColumns

// tokenValidSQL is the condition that a token t is valid.
const tokenValidSQL = `t.revoked_at IS NULL AND t.expires_at > holdpoint_now()` //nolint:gosec // G101: a condition

// Errors about who may make a token, and for whom.
var (
	// ErrOtherPerson: people make tokens only for themselves.
	ErrOtherPerson = errors.New("you cannot make a token for another person: invite them")
	// ErrNotFirst: the bootstrap token makes a token for only one person.
	ErrNotFirst = errors.New("the bootstrap token makes a token only for the first person, and only until there is a second operator")
	// ErrTokensOff: people have no personal tokens on this server.
	ErrTokensOff = errors.New("personal tokens are switched off on this server (--no-person-tokens): sign in with the identity provider")
	// ErrBootstrap: the bootstrap token's person has no personal tokens.
	ErrBootstrap = errors.New("the bootstrap token has no personal tokens: name yourself, the first person, with person (holdpoint token create --person NAME)")
)

// CreateToken makes a personal token for the local person with this name, who is created if necessary, and returns its secret,
// which is shown once. It is for the server's own commands: people use [Service.CreateOwnToken]. Without agents, an operator
// may act as every agent and a reviewer as none.
func (s *Service) CreateToken(ctx context.Context, by uuid.UUID, name string, roles []Role, agents []string) (id uuid.UUID, credential string, err error) {
	if roles, agents, err = validGrant(name, roles, agents); err != nil {
		return uuid.Nil, "", fmt.Errorf("create token for %q: %w", name, err)
	}
	if name == Bootstrap {
		return uuid.Nil, "", fmt.Errorf("create token for %q: %w", name,
			fault.Invalid("name", "is reserved for the bootstrap token"))
	}
	made, err := s.createToken(ctx, name, func(tx pgx.Tx) (NewToken, error) {
		person, err := ensurePersonInTx(ctx, tx, actorFor(by), name)
		if err != nil {
			return NewToken{}, err
		}
		return s.insertToken(ctx, tx, actorFor(by), person, roles, agents)
	})
	return made.ID, made.Secret, err
}

// CreateOwnToken makes a personal token for the person of an access, with no more rights than the access has. Without roles it
// has all of the access's. Without agents, an operator may act as every agent, as far as the access goes, and a reviewer as
// none. Errors: [ErrBootstrap], *[fault.InvalidError].
func (s *Service) CreateOwnToken(ctx context.Context, access Access, roles []Role, agents []string) (NewToken, error) {
	name := access.Person.ID.String()
	if access.isBootstrap() {
		return NewToken{}, fmt.Errorf("create token for %s: %w", name, ErrBootstrap)
	}
	if len(roles) == 0 {
		roles = access.Roles
	}
	chosen := len(agents) > 0
	roles, agents, err := validCredential(roles, agents)
	if err != nil {
		return NewToken{}, fmt.Errorf("create token for %s: %w", name, err)
	}
	for _, role := range roles {
		if !access.Has(role) {
			return NewToken{}, fmt.Errorf("create token for %s: %w", name,
				fault.Invalid("roles", fmt.Sprintf("must be among your own; you are no %s: another operator can make you one", role)))
		}
	}
	if !chosen && slices.Contains(agents, AnyAgent) && !access.MayActAs(AnyAgent) {
		agents = access.Agents
	}
	for _, agent := range agents {
		if !access.MayActAs(agent) {
			return NewToken{}, fmt.Errorf("create token for %s: %w", name,
				fault.Invalid("agents", fmt.Sprintf("must be among those that you may act as; %q is not", agent)))
		}
	}
	return s.createToken(ctx, name, func(tx pgx.Tx) (NewToken, error) {
		return s.insertToken(ctx, tx, audit.Person(access.Person.ID), access.Person, roles, agents)
	})
}

func (s *Service) createToken(ctx context.Context, name string, insert func(tx pgx.Tx) (NewToken, error)) (NewToken, error) {
	var made NewToken
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if made, err = insert(tx); err != nil {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err != nil {
		return NewToken{}, fmt.Errorf("create token for %s: %w", name, err)
	}
	s.Invalidate()
	return made, nil
}

func (s *Service) insertToken(ctx context.Context, tx pgx.Tx, by audit.Actor, person Person, roles []Role, agents []string) (NewToken, error) {
	if s.tokensOff {
		return NewToken{}, ErrTokensOff
	}
	if err := s.checkRoles(roles); err != nil {
		return NewToken{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return NewToken{}, err
	}
	c := secret.NewCredential(secret.PersonalToken)
	made := NewToken{ID: id, Secret: c.Secret, Person: person}
	err = tx.QueryRow(ctx, `INSERT INTO person_tokens (id, person_id, secret_hash, hint, roles, agents, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, holdpoint_now() + $7 * interval '1 microsecond') RETURNING expires_at`,
		id, person.ID, c.Hash[:], c.Hint, roles, agents, s.tokenTTL.Microseconds()).Scan(&made.ExpiresAt)
	if err != nil {
		return NewToken{}, err
	}
	if err := s.checkSeparate(ctx, tx, person.ID); err != nil {
		return NewToken{}, err
	}
	return made, audit.Write(ctx, tx, audit.Event{
		Actor: by, Action: audit.TokenCreated, Subject: person.ID,
		Data: map[string]any{"token": id, "hint": c.Hint, "roles": roles, "agents": agents, "expires_at": made.ExpiresAt.UTC()},
	})
}

// RevokeToken revokes a token and ends the sessions that it began, in every process. Error: [ErrNotFound].
func (s *Service) RevokeToken(ctx context.Context, by, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		people, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `UPDATE person_tokens SET revoked_at = holdpoint_now()
			WHERE id = $1 AND revoked_at IS NULL RETURNING person_id`, id)
		if err != nil {
			return err
		}
		if len(people) == 0 {
			return ErrNotFound
		}
		if _, err := s.endSessionsInTx(ctx, tx, actorFor(by), people[0], `token_id = $2`, id); err != nil {
			return err
		}
		if err := registry.Notify(ctx, tx); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: actorFor(by), Action: audit.TokenRevoked, Subject: people[0], Data: map[string]any{"token": id},
		})
	})
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, err)
	}
	s.Invalidate()
	return nil
}

// RevokeTokenOf is [Service.RevokeToken] for a valid token of this person. Error: [ErrNotFound].
func (s *Service) RevokeTokenOf(ctx context.Context, by, person uuid.UUID, id string) error {
	valid, err := s.TokensOf(ctx, person)
	if err != nil {
		return err
	}
	for i := range valid {
		if valid[i].ID.String() == id {
			return s.RevokeToken(ctx, by, valid[i].ID)
		}
	}
	return fmt.Errorf("revoke token %s: %w", id, ErrNotFound)
}

// endCredentials revokes all valid tokens of a person and ends their sessions.
func (s *Service) endCredentials(ctx context.Context, tx pgx.Tx, by audit.Actor, person uuid.UUID) error {
	revoked, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `UPDATE person_tokens AS t SET revoked_at = holdpoint_now() WHERE t.person_id = $1 AND `+tokenValidSQL+` RETURNING t.id`, person)
	if err != nil {
		return err
	}
	events := make([]audit.Event, len(revoked))
	for i, id := range revoked {
		events[i] = audit.Event{Actor: by, Action: audit.TokenRevoked, Subject: person, Data: map[string]any{"token": id}}
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return err
	}
	_, err = s.endSessionsInTx(ctx, tx, by, person, `id <> $2`, uuid.Nil)
	return err
}

// Token returns a personal token, or [ErrNotFound].
func (s *Service) Token(ctx context.Context, id uuid.UUID) (Token, error) {
	found, err := s.queryTokens(ctx, `t.id = $1`, id)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Token{}, fmt.Errorf("read token %s: %w", id, err)
	}
	return found[0], nil
}

// TokensOf returns the valid personal tokens of a person, the newest first.
func (s *Service) TokensOf(ctx context.Context, person uuid.UUID) ([]Token, error) {
	return s.queryTokens(ctx, `t.person_id = $1 AND `+tokenValidSQL+` ORDER BY t.id DESC`, person)
}

// Tokens returns personal tokens older than before (uuid.Nil: all), revoked ones included, the newest first, and the cursor of
// the next page; uuid.Nil: this is the last page.
func (s *Service) Tokens(ctx context.Context, before uuid.UUID, limit int) ([]Token, uuid.UUID, error) {
	limit = postgres.PageLength(limit)
	tokens, err := s.queryTokens(ctx, `$1::uuid IS NULL OR t.id < $1 ORDER BY t.id DESC LIMIT $2`, postgres.OrNull(before), limit+1)
	if err != nil || len(tokens) <= limit {
		return tokens, uuid.Nil, err
	}
	return tokens[:limit], tokens[limit-1].ID, nil
}

// EndingSoon is how long before its expiry a token is announced.
const EndingSoon = 14 * 24 * time.Hour

// EndsSoon reports whether a token's expiry is to be announced, by this process's clock.
func (s *Service) EndsSoon(end time.Time) bool { return end.Sub(s.now()) <= EndingSoon }

// EndingTokens returns the valid tokens of a person, or of all people (uuid.Nil), that expire within [EndingSoon], the first
// to expire first.
func (s *Service) EndingTokens(ctx context.Context, person uuid.UUID) ([]Token, error) {
	return s.queryTokens(ctx, tokenValidSQL+` AND t.expires_at <= holdpoint_now() + $1 * interval '1 microsecond' AND p.blocked_at IS NULL
			AND ($2::uuid IS NULL OR p.id = $2)
		ORDER BY t.expires_at, t.id LIMIT $3`, EndingSoon.Microseconds(), postgres.OrNull(person), postgres.MaxPage)
}

func (s *Service) queryTokens(ctx context.Context, where string, args ...any) ([]Token, error) {
	tokens, err := postgres.Collect(ctx, s.pool, scanToken, `SELECT `+tokenColumns+` FROM person_tokens t JOIN people p ON p.id = t.person_id WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return tokens, nil
}

func scanToken(row pgx.CollectableRow) (Token, error) {
	var t Token
	targets := []any{&t.ID, &t.Hint, &t.Roles, &t.Agents, &t.CreatedAt, &t.ExpiresAt, &t.RevokedAt}
	err := row.Scan(append(targets, t.Person.scanTargets()...)...)
	return t, err
}

// validGrant validates the name of a person and the rights of a credential, and sets default agents.
func validGrant(name string, roles []Role, agents []string) ([]Role, []string, error) {
	if err := validName(name); err != nil {
		return nil, nil, err
	}
	return validCredential(roles, agents)
}

// validCredential validates the rights of a credential and sets default agents.
func validCredential(roles []Role, agents []string) ([]Role, []string, error) {
	if len(roles) == 0 {
		return nil, nil, fault.Invalid("roles", "must name reviewer, operator or both")
	}
	for _, role := range roles {
		if role != Reviewer && role != Operator {
			return nil, nil, fault.Invalid("roles", fmt.Sprintf("%q is neither reviewer nor operator", role))
		}
	}
	for _, agent := range agents {
		if err := validName(agent); err != nil {
			return nil, nil, fault.Invalid("agents", fmt.Sprintf("%q is not an agent's name", agent))
		}
	}
	if len(agents) == 0 {
		agents = defaultAgents(roles)
	}
	roles = slices.Clone(roles)
	slices.Sort(roles)
	return slices.Compact(roles), agents, nil
}
