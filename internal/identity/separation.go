package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// ErrBothRoles means that operator and reviewer are never one person on this server.
var ErrBothRoles = errors.New("a person is either operator or reviewer on this server, also under linked accounts (--separate-roles): take the other role away first")

// lostRoleSQL is the role of person p that does not count where roles are separate; NULL: all count. Of two roles, the one counts that the person
// had first. If that is unknown, or linked people have the roles, it is operator: nobody decides a call on the word of a person who also
// makes the rules. Only roles of valid credentials count.
const lostRoleSQL = `(WITH same AS (
		SELECT o.id, o.claimed_roles || o.granted_roles
			|| ARRAY(SELECT unnest(t.roles) FROM person_tokens t WHERE t.person_id = o.id AND ` + tokenValidSQL + `)
			|| ARRAY(SELECT unnest(s.roles) FROM person_sessions s WHERE s.person_id = o.id AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now()) AS roles
		FROM people o WHERE o.blocked_at IS NULL
			AND coalesce((SELECT same_as FROM person_links WHERE person_id = o.id), o.id) = coalesce((SELECT same_as FROM person_links WHERE person_id = p.id), p.id))
	SELECT CASE
		WHEN NOT (EXISTS (SELECT FROM same WHERE 'operator' = ANY(roles)) AND EXISTS (SELECT FROM same WHERE 'reviewer' = ANY(roles))) THEN NULL
		WHEN p.sole_role = 'reviewer' AND NOT EXISTS (SELECT FROM same WHERE id <> p.id AND 'operator' = ANY(roles)) THEN 'operator'
		ELSE 'reviewer' END)`

// separateRoles returns the roles of a person that count.
func (s *Service) separateRoles(ctx context.Context, db postgres.Querier, person uuid.UUID, roles []Role) ([]Role, error) {
	if !s.separate || len(roles) == 0 {
		return roles, nil
	}
	lost, err := readLostRole(ctx, db, person)
	if err != nil || lost == "" {
		return roles, err
	}
	return slices.DeleteFunc(slices.Clone(roles), func(role Role) bool { return role == lost }), nil
}

func readLostRole(ctx context.Context, db postgres.Querier, person uuid.UUID) (Role, error) {
	lost, err := postgres.CollectOne(ctx, db, pgx.RowTo[Role], `SELECT coalesce(`+lostRoleSQL+`, '') FROM people p WHERE p.id = $1`, person)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("separate roles of person %s: %w", person, err)
	}
	return lost, nil
}

// checkSeparate refuses a person who would be operator and reviewer, also under linked identities.
func (s *Service) checkSeparate(ctx context.Context, tx pgx.Tx, person uuid.UUID) error {
	if !s.separate {
		return nil
	}
	lost, err := readLostRole(ctx, tx, person)
	if err == nil && lost != "" {
		err = ErrBothRoles
	}
	return err
}

// checkRoles refuses a credential with both roles.
func (s *Service) checkRoles(roles []Role) error {
	if s.separate && slices.Contains(roles, Operator) && slices.Contains(roles, Reviewer) {
		return ErrBothRoles
	}
	return nil
}

// noteSoleRole stores the role of a person who has one role by their groups and operators. It stays if they get the other one too.
func noteSoleRole(ctx context.Context, tx pgx.Tx, person uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE people SET sole_role = (claimed_roles || granted_roles)[1]
		WHERE id = $1 AND (SELECT count(DISTINCT role) FROM unnest(claimed_roles || granted_roles) AS role) = 1
			AND sole_role IS DISTINCT FROM (claimed_roles || granted_roles)[1]`, person)
	if err != nil {
		return fmt.Errorf("note role of person %s: %w", person, err)
	}
	return nil
}

// StartSeparation notes whether roles are separate. It refuses to separate them while there are not one operator and another reviewer; a
// server that had them separate starts in any case.
func (s *Service) StartSeparation(ctx context.Context) error {
	err := dualcontrol.Switch(ctx, s.pool, "separate_roles", s.separate, func(tx pgx.Tx) error {
		for _, role := range []Role{Operator, Reviewer} {
			holders, err := s.listHolders(ctx, tx, role)
			if err != nil {
				return err
			}
			if len(holders) == 0 {
				return fmt.Errorf("must be off until one person is an operator and another one a reviewer: nobody would be %s", role)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("--separate-roles: %w", err)
	}
	return nil
}

// PersonWithBoth is a person who has a role that does not count, because roles are separate.
type PersonWithBoth struct {
	Person Person
	Lost   Role
}

// ListWithBoth returns the people who are operator and reviewer by their groups, their credentials or linked identities, where roles are
// separate.
func (s *Service) ListWithBoth(ctx context.Context) ([]PersonWithBoth, error) {
	if !s.separate {
		return nil, nil
	}
	found, err := postgres.Collect(ctx, s.pool, func(row pgx.CollectableRow) (PersonWithBoth, error) {
		var p PersonWithBoth
		err := row.Scan(append(p.Person.scanTargets(), &p.Lost)...)
		return p, err
	}, `SELECT `+personColumns+`, `+lostRoleSQL+` FROM people p WHERE p.blocked_at IS NULL AND `+lostRoleSQL+` IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("list people with both roles: %w", err)
	}
	return found, nil
}
