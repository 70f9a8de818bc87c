package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Bootstrap is the subject of the local person that the bootstrap token authenticates. This person has no personal tokens.
const Bootstrap = "bootstrap"

// MinBootstrapToken is the minimum length of a bootstrap token. Operators choose the token, so its length is the only bound on
// guessing it.
const MinBootstrapToken = 32

// CheckBootstrapToken refuses tokens that are too short.
func CheckBootstrapToken(token string) error {
	if n := utf8.RuneCountInString(token); n < MinBootstrapToken {
		return fmt.Errorf("bootstrap token: must have at least %d characters, not %d, like the output of: openssl rand -hex 32", MinBootstrapToken, n)
	}
	return nil
}

func (s *Service) loadBootstrap(ctx context.Context, _ secret.Hash) (Access, error) {
	person, err := s.ensureLocalPerson(ctx, audit.System(), Bootstrap)
	if err != nil {
		return Access{}, fmt.Errorf("authenticate bootstrap: %w", err)
	}
	if blocked, err := s.Blocked(ctx, person.ID); err != nil || blocked {
		return Access{}, errors.Join(err, ErrUnauthenticated)
	}
	return Access{Person: person, Roles: s.bootstrapRoles(), Agents: []string{AnyAgent}, Credential: Bootstrap}, nil
}

// bootstrapRoles returns the roles of the bootstrap token.
func (s *Service) bootstrapRoles() []Role {
	if s.separate {
		return []Role{Operator}
	}
	return []Role{Operator, Reviewer}
}

// CreateFirstToken makes a personal token for the first person: the holder of the bootstrap token, under a name of their own.
// From then on the two are linked as the same person. Errors: [ErrNotFirst], [ErrOtherPerson] if the access is not of the
// bootstrap token, *[fault.InvalidError].
func (s *Service) CreateFirstToken(ctx context.Context, access Access, name string, roles []Role, agents []string) (NewToken, error) {
	if !access.isBootstrap() {
		return NewToken{}, fmt.Errorf("create token for %q: %w", name, ErrOtherPerson)
	}
	if len(roles) == 0 {
		roles = s.bootstrapRoles()
	}
	roles, agents, err := validGrant(name, roles, agents)
	if err != nil {
		return NewToken{}, fmt.Errorf("create token for %q: %w", name, err)
	}
	if name == Bootstrap {
		return NewToken{}, fmt.Errorf("create token for %q: %w", name, fault.Invalid("name", "is reserved for the bootstrap token"))
	}
	return s.createToken(ctx, name, func(tx pgx.Tx) (NewToken, error) {
		person, err := s.ensureFirstPerson(ctx, tx, access.Person.ID, name)
		if err != nil {
			return NewToken{}, err
		}
		return s.insertToken(ctx, tx, audit.Person(access.Person.ID), person, roles, agents)
	})
}

// ensureFirstPerson returns the first person. It creates that person if there is no other person yet.
func (s *Service) ensureFirstPerson(ctx context.Context, tx pgx.Tx, bootstrap uuid.UUID, name string) (Person, error) {
	if _, err := tx.Exec(ctx, peopleLock); err != nil {
		return Person{}, err
	}
	alone, err := s.isOnlyOperator(ctx, tx)
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
	reviewers, err := s.listHolders(ctx, tx, Reviewer)
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
		return Person{}, fault.Invalid("name", "must be a name that no person has yet")
	}
	if _, err := tx.Exec(ctx, `UPDATE people SET first = true WHERE id = $1`, person.ID); err != nil {
		return Person{}, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO person_links (person_id, same_as) VALUES ($1, $2)`, person.ID, bootstrap); err != nil {
		return Person{}, err
	}
	person.First = true
	return person, audit.Write(ctx, tx, audit.Event{
		Actor: by, Action: audit.PersonFirst, Subject: person.ID, Data: map[string]any{"same_as": bootstrap},
	})
}

// FirstPerson returns the first person while there is no second operator, and [ErrNotFound] otherwise.
func (s *Service) FirstPerson(ctx context.Context) (Person, error) {
	first, err := collectPeople(ctx, s.pool, `SELECT `+personColumns+` FROM people p WHERE p.first AND p.blocked_at IS NULL`)
	if err != nil {
		return Person{}, err
	}
	if len(first) == 0 {
		return Person{}, ErrNotFound
	}
	alone, err := s.isOnlyOperator(ctx, s.pool)
	if err == nil && !alone {
		err = ErrNotFound
	}
	return first[0], err
}

// isBootstrapAlone reports whether the person is the bootstrap token's and there is no second operator.
func (s *Service) isBootstrapAlone(ctx context.Context, tx pgx.Tx, id uuid.UUID) (bool, error) {
	people, err := collectPeople(ctx, tx, `SELECT `+personColumns+` FROM people p WHERE p.id = $1`, id)
	if err != nil || len(people) == 0 || !(Access{Person: people[0]}).isBootstrap() {
		return false, err
	}
	return s.isOnlyOperator(ctx, tx)
}

// isOnlyOperator reports whether there is no operator besides the bootstrap token's person and the first person.
func (s *Service) isOnlyOperator(ctx context.Context, db postgres.Querier) (bool, error) {
	operators, err := s.listHolders(ctx, db, Operator)
	if err != nil {
		return false, err
	}
	ids := make([]uuid.UUID, len(operators))
	for i := range operators {
		ids[i] = operators[i].Person
	}
	others, err := postgres.CollectOne(ctx, db, pgx.RowTo[int], `SELECT count(*) FROM people
		WHERE id = ANY($1) AND NOT first AND NOT (issuer = $2 AND subject = $3)`, ids, LocalIssuer, Bootstrap)
	if err != nil {
		return false, fmt.Errorf("count operators: %w", err)
	}
	return others == 0, nil
}
