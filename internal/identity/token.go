package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const tokenColumns = `t.id, t.hint, t.roles, t.agents, t.created_at, t.revoked_at, ` + personColumns

func scanToken(row pgx.CollectableRow) (Token, error) {
	var t Token
	targets := []any{&t.ID, &t.Hint, &t.Roles, &t.Agents, &t.CreatedAt, &t.RevokedAt}
	err := row.Scan(append(targets, t.Person.targets()...)...)
	return t, err
}

// CreateToken makes a personal token for the local person of that name (created if new) and returns
// its secret, which is shown once. Without agents, an operator may act as every agent and a reviewer
// as none.
func (s *Service) CreateToken(ctx context.Context, by uuid.UUID, name string, roles []Role, agents []string) (id uuid.UUID, credential string, err error) {
	return s.createLocalToken(ctx, by, name, roles, agents, func(tx pgx.Tx) (Person, error) {
		return ensurePerson(ctx, tx, actor(by), name)
	})
}

// KnownError says that there is a person already who was to be made.
type KnownError struct{ Person uuid.UUID }

func (*KnownError) Error() string { return "there is a person of this name already" }

// CreateTokenForNew is CreateToken for a name that nobody has yet: *KnownError when somebody does.
func (s *Service) CreateTokenForNew(ctx context.Context, by uuid.UUID, name string, roles []Role, agents []string) (id uuid.UUID, credential string, err error) {
	return s.createLocalToken(ctx, by, name, roles, agents, func(tx pgx.Tx) (Person, error) {
		person, added, err := addPerson(ctx, tx, actor(by), name)
		if err == nil && !added {
			err = &KnownError{person.ID}
		}
		return person, err
	})
}

func (s *Service) createLocalToken(ctx context.Context, by uuid.UUID, name string, roles []Role, agents []string,
	find func(tx pgx.Tx) (Person, error),
) (id uuid.UUID, credential string, err error) {
	if roles, agents, err = validGrant(name, roles, agents); err != nil {
		return uuid.Nil, "", fmt.Errorf("create token for %q: %w", name, err)
	}
	if name == Bootstrap {
		return uuid.Nil, "", fmt.Errorf("create token for %q: %w", name,
			&InvalidError{"name", "is reserved for the bootstrap token"})
	}
	return s.createToken(ctx, by, name, roles, agents, find)
}

// CreateTokenFor makes a personal token for somebody who is known, likewise. ErrNotFound when nobody has the id.
func (s *Service) CreateTokenFor(ctx context.Context, by, person uuid.UUID, roles []Role, agents []string) (id uuid.UUID, credential string, err error) {
	if roles, agents, err = validCredential(roles, agents); err != nil {
		return uuid.Nil, "", fmt.Errorf("create token for %s: %w", person, err)
	}
	return s.createToken(ctx, by, person.String(), roles, agents, func(tx pgx.Tx) (Person, error) {
		people, err := collectPeople(ctx, tx, `SELECT `+personColumns+` FROM people p WHERE p.id = $1`, person)
		switch {
		case err != nil:
			return Person{}, err
		case len(people) == 0:
			return Person{}, ErrNotFound
		case people[0].Issuer == LocalIssuer && people[0].Subject == Bootstrap:
			return Person{}, &InvalidError{"person", "is reserved for the bootstrap token"}
		}
		return people[0], nil
	})
}

func (s *Service) createToken(ctx context.Context, by uuid.UUID, name string, roles []Role, agents []string,
	find func(tx pgx.Tx) (Person, error),
) (uuid.UUID, string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("create token for %s: %w", name, err)
	}
	c := secret.NewCredential(secret.PersonalToken)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		person, err := find(tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO person_tokens (id, person_id, secret_hash, hint, roles, agents)
			VALUES ($1, $2, $3, $4, $5, $6)`, id, person.ID, c.Hash[:], c.Hint, roles, agents)
		if err != nil {
			return err
		}
		err = audit.Write(ctx, tx, audit.Event{
			Actor: actor(by), Action: "token.created", Subject: person.ID,
			Data: map[string]any{"token": id, "hint": c.Hint, "roles": roles, "agents": agents},
		})
		if err != nil {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("create token for %s: %w", name, err)
	}
	s.Invalidate()
	return id, c.Secret, nil
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
		WHERE t.person_id = $1 AND t.revoked_at IS NULL ORDER BY t.id DESC`, person)
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
	limit = pageLength(limit)
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
