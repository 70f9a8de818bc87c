package identity

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// canonical is SQL for the person whom an operator declared an id to be the same as, else the id.
func canonical(id string) string {
	return `coalesce((SELECT same_as FROM person_links WHERE person_id = ` + id + `), ` + id + `)`
}

// Inviters returns the people on whose word alone an unverified person is known: who invited them, who invited an
// unverified inviter, and so on. It is empty for everybody else. It reads db, not memory.
func Inviters(ctx context.Context, db postgres.Querier, person uuid.UUID) ([]uuid.UUID, error) {
	rows, err := db.Query(ctx, `WITH RECURSIVE inviters (id) AS (
			SELECT invited_by FROM people WHERE id = $1 AND issuer = $2 AND invited_by IS NOT NULL
			UNION
			SELECT p.invited_by FROM people p JOIN inviters i ON i.id = p.id WHERE p.issuer = $2 AND p.invited_by IS NOT NULL)
		SELECT DISTINCT `+canonical("id")+` FROM inviters`, person, LocalIssuer)
	if err != nil {
		return nil, fmt.Errorf("list inviters of person %s: %w", person, err)
	}
	inviters, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("list inviters of person %s: %w", person, err)
	}
	return inviters, nil
}

// SameAsAny reports whether one of the people is one of the others, by what operators declared. The first are as
// [Inviters] returns them. It reads db, not memory.
func SameAsAny(ctx context.Context, db postgres.Querier, inviters, others []uuid.UUID) (bool, error) {
	if len(inviters) == 0 || len(others) == 0 {
		return false, nil
	}
	rows, err := db.Query(ctx, `SELECT `+canonical("other")+` FROM unnest($1::uuid[]) AS o (other)`, others)
	if err != nil {
		return false, fmt.Errorf("compare people: %w", err)
	}
	same, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return false, fmt.Errorf("compare people: %w", err)
	}
	return slices.ContainsFunc(same, func(id uuid.UUID) bool { return slices.Contains(inviters, id) }), nil
}

// MayBeOne reports whether two names may stand for one person: they are the same by what operators declared, or only
// the word of one says who the other is. It reads db, not memory.
func MayBeOne(ctx context.Context, db postgres.Querier, a, b uuid.UUID) (bool, error) {
	tied, err := isTied(ctx, db, a, b)
	if err != nil || tied {
		return tied, err
	}
	return isVouchedFor(ctx, db, b, a)
}

// isTied reports whether what a person does for another is done for themself: the two are the same, or only the
// other's word says who the first is.
func isTied(ctx context.Context, db postgres.Querier, person, other uuid.UUID) (bool, error) {
	same, err := Same(ctx, db, person, other)
	if err != nil || same {
		return same, err
	}
	return isVouchedFor(ctx, db, person, other)
}

// isVouchedFor reports whether only the other's word says who a person is.
func isVouchedFor(ctx context.Context, db postgres.Querier, person, other uuid.UUID) (bool, error) {
	inviters, err := Inviters(ctx, db, person)
	if err != nil {
		return false, err
	}
	return SameAsAny(ctx, db, inviters, []uuid.UUID{other})
}
