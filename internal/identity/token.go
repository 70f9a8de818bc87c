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
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const tokenColumns = `t.id, t.hint, t.roles, t.agents, t.created_at, t.expires_at, t.revoked_at, ` + personColumns

func scanToken(row pgx.CollectableRow) (Token, error) {
	var t Token
	targets := []any{&t.ID, &t.Hint, &t.Roles, &t.Agents, &t.CreatedAt, &t.ExpiresAt, &t.RevokedAt}
	err := row.Scan(append(targets, t.Person.targets()...)...)
	return t, err
}

// DefaultTokenTTL is how long a new personal token is valid where nothing else is set.
const DefaultTokenTTL = 90 * 24 * time.Hour

// tokenValid is SQL for a token t that can be used.
const tokenValid = `t.revoked_at IS NULL AND t.expires_at > holdpoint_now()` //nolint:gosec // G101: a condition

// NewToken is a token that was just made.
type NewToken struct {
	ID        uuid.UUID
	Secret    string // shown once
	Person    Person
	ExpiresAt time.Time
}

// Errors about who may make a token, and for whom.
var (
	// ErrOtherPerson: people make tokens for themselves only.
	ErrOtherPerson = errors.New("nobody makes a token for another person")
	// ErrNotFirst: the bootstrap token makes a token for one person only.
	ErrNotFirst = errors.New("the bootstrap token makes a token only for the first person, and only until there is a second operator")
	// ErrBootstrap: the bootstrap token's person has no personal tokens.
	ErrBootstrap = errors.New("the bootstrap token has no personal tokens: name yourself, the first person, with person (holdpoint token create --person NAME)")
)

// CreateToken makes, on the word of the server itself, a personal token for the local person of that name (created if
// new) and returns its secret, which is shown once. Without agents, an operator may act as every agent and a reviewer
// as none. What people make for themselves is [Service.CreateOwnToken].
func (s *Service) CreateToken(ctx context.Context, by uuid.UUID, name string, roles []Role, agents []string) (id uuid.UUID, credential string, err error) {
	if roles, agents, err = validGrant(name, roles, agents); err != nil {
		return uuid.Nil, "", fmt.Errorf("create token for %q: %w", name, err)
	}
	if name == Bootstrap {
		return uuid.Nil, "", fmt.Errorf("create token for %q: %w", name,
			&InvalidError{"name", "is reserved for the bootstrap token"})
	}
	made, err := s.createToken(ctx, name, func(tx pgx.Tx) (NewToken, error) {
		person, err := ensurePerson(ctx, tx, actor(by), name)
		if err != nil {
			return NewToken{}, err
		}
		return s.insertToken(ctx, tx, actor(by), person, roles, agents)
	})
	return made.ID, made.Secret, err
}

// CreateOwnToken makes a personal token for the person of an access, with no more than that allows. Without roles it
// has all of the access's; without agents, an operator may act as every agent and a reviewer as none, as far as the
// access goes. Errors: ErrBootstrap, *InvalidError.
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
				&InvalidError{"roles", fmt.Sprintf("must be among your own; you are no %s: another operator can make you one", role)})
		}
	}
	if !chosen && slices.Contains(agents, AnyAgent) && !access.MayActAs(AnyAgent) {
		agents = access.Agents
	}
	for _, agent := range agents {
		if !access.MayActAs(agent) {
			return NewToken{}, fmt.Errorf("create token for %s: %w", name,
				&InvalidError{"agents", fmt.Sprintf("must be among those that you may act as; %q is not", agent)})
		}
	}
	return s.createToken(ctx, name, func(tx pgx.Tx) (NewToken, error) {
		return s.insertToken(ctx, tx, audit.Person(access.Person.ID), access.Person, roles, agents)
	})
}

// CreateFirstToken makes a personal token for the first person: the one who holds the bootstrap token, by a name of
// their own. The two are the same person from then on. Errors: ErrNotFirst, ErrOtherPerson for an access of anybody
// else, *InvalidError.
func (s *Service) CreateFirstToken(ctx context.Context, access Access, name string, roles []Role, agents []string) (NewToken, error) {
	if !access.isBootstrap() {
		return NewToken{}, fmt.Errorf("create token for %q: %w", name, ErrOtherPerson)
	}
	if len(roles) == 0 {
		roles = bootstrapRoles()
	}
	roles, agents, err := validGrant(name, roles, agents)
	if err != nil {
		return NewToken{}, fmt.Errorf("create token for %q: %w", name, err)
	}
	if name == Bootstrap {
		return NewToken{}, fmt.Errorf("create token for %q: %w", name, &InvalidError{"name", "is reserved for the bootstrap token"})
	}
	return s.createToken(ctx, name, func(tx pgx.Tx) (NewToken, error) {
		person, err := s.firstPerson(ctx, tx, access.Person.ID, name)
		if err != nil {
			return NewToken{}, err
		}
		return s.insertToken(ctx, tx, audit.Person(access.Person.ID), person, roles, agents)
	})
}

// firstPerson returns the first person, whom it creates if there is nobody yet.
func (s *Service) firstPerson(ctx context.Context, tx pgx.Tx, bootstrap uuid.UUID, name string) (Person, error) {
	if _, err := tx.Exec(ctx, peopleLock); err != nil {
		return Person{}, err
	}
	alone, err := s.isAlone(ctx, tx)
	if err != nil {
		return Person{}, err
	}
	first, err := collectPeople(ctx, tx, `SELECT `+personColumns+` FROM people p WHERE p.first`)
	if err != nil {
		return Person{}, err
	}
	switch {
	case !alone:
		return Person{}, ErrNotFirst
	case len(first) == 1 && first[0].Issuer == LocalIssuer && first[0].Subject == name:
		return first[0], nil
	case len(first) == 1:
		return Person{}, ErrNotFirst
	}
	reviewers, err := s.holders(ctx, tx, Reviewer)
	if err != nil {
		return Person{}, err
	}
	if slices.ContainsFunc(reviewers, func(e Eligible) bool { return e.Person != bootstrap }) {
		return Person{}, ErrNotFirst
	}
	by := audit.Person(bootstrap)
	person, added, err := addPerson(ctx, tx, by, name, uuid.Nil)
	if err != nil {
		return Person{}, err
	}
	if !added {
		return Person{}, &InvalidError{"name", "must be one that nobody has yet"}
	}
	if _, err := tx.Exec(ctx, `UPDATE people SET first = true WHERE id = $1`, person.ID); err != nil {
		return Person{}, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO person_links (person_id, same_as) VALUES ($1, $2)`, person.ID, bootstrap); err != nil {
		return Person{}, err
	}
	person.First = true
	return person, audit.Write(ctx, tx, audit.Event{
		Actor: by, Action: "person.first", Subject: person.ID, Data: map[string]any{"same_as": bootstrap},
	})
}

// isAlone reports whether nobody but the person of the bootstrap token is an operator.
func (s *Service) isAlone(ctx context.Context, db postgres.Querier) (bool, error) {
	operators, err := s.holders(ctx, db, Operator)
	if err != nil {
		return false, err
	}
	ids := make([]uuid.UUID, len(operators))
	for i := range operators {
		ids[i] = operators[i].Person
	}
	rows, err := db.Query(ctx, `SELECT count(*) FROM people
		WHERE id = ANY($1) AND NOT first AND NOT (issuer = $2 AND subject = $3)`, ids, LocalIssuer, Bootstrap)
	if err != nil {
		return false, fmt.Errorf("count operators: %w", err)
	}
	others, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return false, fmt.Errorf("count operators: %w", err)
	}
	return others == 0, nil
}

// FirstPerson returns the person who took their roles by the bootstrap token, as long as there is no second operator.
// ErrNotFound: there is none, or another operator by now.
func (s *Service) FirstPerson(ctx context.Context) (Person, error) {
	first, err := collectPeople(ctx, s.pool, `SELECT `+personColumns+` FROM people p WHERE p.first AND p.blocked_at IS NULL`)
	if err != nil {
		return Person{}, err
	}
	if len(first) == 0 {
		return Person{}, ErrNotFound
	}
	alone, err := s.isAlone(ctx, s.pool)
	if err == nil && !alone {
		err = ErrNotFound
	}
	return first[0], err
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
	return made, audit.Write(ctx, tx, audit.Event{
		Actor: by, Action: "token.created", Subject: person.ID,
		Data: map[string]any{"token": id, "hint": c.Hint, "roles": roles, "agents": agents, "expires_at": made.ExpiresAt.UTC()},
	})
}

// RevokeToken ends a token and the sessions that it began, in every process at once. ErrNotFound when there is none with
// this id that is still valid.
func (s *Service) RevokeToken(ctx context.Context, by, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE person_tokens SET revoked_at = holdpoint_now()
			WHERE id = $1 AND revoked_at IS NULL RETURNING person_id`, id)
		if err != nil {
			return err
		}
		people, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		if len(people) == 0 {
			return ErrNotFound
		}
		if _, err := s.endIn(ctx, tx, actor(by), people[0], `token_id = $2`, id); err != nil {
			return err
		}
		if err := registry.Notify(ctx, tx); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: actor(by), Action: "token.revoked", Subject: people[0], Data: map[string]any{"token": id},
		})
	})
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, err)
	}
	s.Invalidate()
	return nil
}

// endCredentials revokes all valid tokens of a person, and ends their sessions.
func (s *Service) endCredentials(ctx context.Context, tx pgx.Tx, by audit.Actor, person uuid.UUID) error {
	rows, err := tx.Query(ctx, `UPDATE person_tokens AS t SET revoked_at = holdpoint_now() WHERE t.person_id = $1 AND `+tokenValid+` RETURNING t.id`, person)
	if err != nil {
		return err
	}
	revoked, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	events := make([]audit.Event, len(revoked))
	for i, id := range revoked {
		events[i] = audit.Event{Actor: by, Action: "token.revoked", Subject: person, Data: map[string]any{"token": id}}
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return err
	}
	_, err = s.endIn(ctx, tx, by, person, `id <> $2`, uuid.Nil)
	return err
}

// RevokeTokenOf is RevokeToken for a token of one person. ErrNotFound when they have none that is valid with this id.
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

// Token returns one personal token. ErrNotFound when there is none with this id.
func (s *Service) Token(ctx context.Context, id uuid.UUID) (Token, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+` FROM person_tokens t JOIN people p ON p.id = t.person_id WHERE t.id = $1`, id)
	if err != nil {
		return Token{}, fmt.Errorf("read token %s: %w", id, err)
	}
	token, err := pgx.CollectExactlyOneRow(rows, scanToken)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Token{}, fmt.Errorf("read token %s: %w", id, err)
	}
	return token, nil
}

// TokensOf returns the valid personal tokens of a person, newest first.
func (s *Service) TokensOf(ctx context.Context, person uuid.UUID) ([]Token, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+` FROM person_tokens t JOIN people p ON p.id = t.person_id
		WHERE t.person_id = $1 AND `+tokenValid+` ORDER BY t.id DESC`, person)
	if err != nil {
		return nil, fmt.Errorf("list tokens of %s: %w", person, err)
	}
	tokens, err := pgx.CollectRows(rows, scanToken)
	if err != nil {
		return nil, fmt.Errorf("list tokens of %s: %w", person, err)
	}
	return tokens, nil
}

// Tokens returns personal tokens, newest first, older than before (uuid.Nil: from the newest on),
// and the cursor of the next page (uuid.Nil: none). Revoked ones are among them.
func (s *Service) Tokens(ctx context.Context, before uuid.UUID, limit int) ([]Token, uuid.UUID, error) {
	limit = postgres.PageLength(limit)
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+`
		FROM person_tokens t JOIN people p ON p.id = t.person_id
		WHERE $1 = '00000000-0000-0000-0000-000000000000'::uuid OR t.id < $1 ORDER BY t.id DESC LIMIT $2`,
		before, limit+1)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens, err := pgx.CollectRows(rows, scanToken)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list tokens: %w", err)
	}
	if len(tokens) <= limit {
		return tokens, uuid.Nil, nil
	}
	return tokens[:limit], tokens[limit-1].ID, nil
}

// EndingSoon is how long before its end a token is announced.
const EndingSoon = 14 * 24 * time.Hour

// EndsSoon reports whether the end of a token is to be announced, by this process's clock.
func (s *Service) EndsSoon(end time.Time) bool { return end.Sub(s.now()) <= EndingSoon }

// EndingTokens returns the valid tokens that end within [EndingSoon], the first to end first: those of a person, or of
// everybody (uuid.Nil).
func (s *Service) EndingTokens(ctx context.Context, person uuid.UUID) ([]Token, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+` FROM person_tokens t JOIN people p ON p.id = t.person_id
		WHERE `+tokenValid+` AND t.expires_at <= holdpoint_now() + $1 * interval '1 microsecond' AND p.blocked_at IS NULL
			AND ($2::uuid IS NULL OR p.id = $2)
		ORDER BY t.expires_at, t.id LIMIT $3`, EndingSoon.Microseconds(), postgres.OrNull(person), postgres.MaxPage)
	if err != nil {
		return nil, fmt.Errorf("list tokens that end soon: %w", err)
	}
	tokens, err := pgx.CollectRows(rows, scanToken)
	if err != nil {
		return nil, fmt.Errorf("list tokens that end soon: %w", err)
	}
	return tokens, nil
}

// validGrant checks what a credential is to allow, and fills in the agents.
func validGrant(name string, roles []Role, agents []string) ([]Role, []string, error) {
	if err := validName(name); err != nil {
		return nil, nil, err
	}
	return validCredential(roles, agents)
}

// validCredential checks the same of a person who is known.
func validCredential(roles []Role, agents []string) ([]Role, []string, error) {
	if len(roles) == 0 {
		return nil, nil, &InvalidError{"roles", "must name reviewer, operator or both"}
	}
	for _, role := range roles {
		if role != Reviewer && role != Operator {
			return nil, nil, &InvalidError{"roles", fmt.Sprintf("%q is neither reviewer nor operator", role)}
		}
	}
	for _, agent := range agents {
		if err := validName(agent); err != nil {
			return nil, nil, &InvalidError{"agents", fmt.Sprintf("%q is no agent's name", agent)}
		}
	}
	if len(agents) == 0 {
		agents = defaultAgents(roles)
	}
	roles = slices.Clone(roles)
	slices.Sort(roles)
	return slices.Compact(roles), agents, nil
}
