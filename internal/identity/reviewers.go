package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Eligible is a person who has a role, or will have it after signing in.
type Eligible struct {
	Person uuid.UUID
	// Inviters are the people on whose word alone the person is known; see [Inviters]. Empty if the person is verified.
	Inviters []uuid.UUID
	Limit    *Limit // of the calls that they may decide as a reviewer; nil: all

	unverified bool
}

// Reviewers returns all people who can decide, now or after signing in. From the cache; callers must not change it.
func (s *Service) Reviewers(ctx context.Context) ([]Eligible, error) {
	return s.eligible.Get(ctx, Reviewer, func(ctx context.Context) ([]Eligible, error) {
		if s.bootstrap != nil { // its person may not exist yet
			if _, err := s.ensureLocalPerson(ctx, audit.System(), Bootstrap); err != nil {
				return nil, fmt.Errorf("list reviewers: %w", err)
			}
		}
		found, err := s.listHolders(ctx, s.pool, Reviewer)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if !found[i].unverified {
				continue
			}
			if found[i].Inviters, err = Inviters(ctx, s.pool, found[i].Person); err != nil {
				return nil, err
			}
		}
		return found, nil
	})
}

// listHolders returns the people who have a role through a usable credential: a configured identity provider, the bootstrap
// token, a personal token, a session that a sign-in link began, or an unused sign-in link.
func (s *Service) listHolders(ctx context.Context, db postgres.Querier, role Role) ([]Eligible, error) {
	found, err := postgres.Collect(ctx, db, func(row pgx.CollectableRow) (e Eligible, err error) {
		err = row.Scan(&e.Person, &e.unverified, &e.Limit)
		return e, err
	}, `
		SELECT p.id, p.issuer = $4 AND p.invited_by IS NOT NULL, p.review_limit
		FROM people p
		WHERE p.blocked_at IS NULL AND (NOT $7 OR `+lostRoleSQL+` IS DISTINCT FROM $1) AND (
			p.issuer = ANY($2) AND $1 = ANY(p.claimed_roles || p.granted_roles)
			OR $3 AND p.issuer = $4 AND p.subject = $5 AND $1 = ANY($8)
			OR NOT $6 AND EXISTS (SELECT FROM person_tokens t WHERE t.person_id = p.id AND `+tokenValidSQL+` AND $1 = ANY(t.roles))
			OR EXISTS (SELECT FROM person_sessions s WHERE s.person_id = p.id AND s.method = 'link' AND s.revoked_at IS NULL
				AND s.expires_at > holdpoint_now() AND $1 = ANY(s.roles || p.claimed_roles || p.granted_roles))
			OR EXISTS (SELECT FROM sign_in_links l WHERE l.person_id = p.id AND l.used_at IS NULL
				AND l.expires_at > holdpoint_now() AND $1 = ANY(l.roles || p.claimed_roles || p.granted_roles)))
		ORDER BY p.id`, role, s.issuers, s.bootstrap != nil, LocalIssuer, Bootstrap, s.tokensOff, s.separate, s.bootstrapRoles())
	if err != nil {
		return nil, fmt.Errorf("list holders of role %s: %w", role, err)
	}
	return found, nil
}
