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
)

// SameAs returns the person that an operator declared to be the same as this one, or person itself. Linked people share their
// connections to skills. From the cache.
func (s *Service) SameAs(ctx context.Context, person uuid.UUID) (uuid.UUID, error) {
	if person == uuid.Nil {
		return uuid.Nil, nil
	}
	links, err := s.links.Get(ctx, struct{}{}, func(ctx context.Context) (map[uuid.UUID]uuid.UUID, error) { return readLinks(ctx, s.pool, "") })
	if err != nil {
		return uuid.Nil, err
	}
	if same, ok := links[person]; ok {
		return same, nil
	}
	return person, nil
}

// Same reports whether operators declared two people to be the same. It reads the database.
func Same(ctx context.Context, db postgres.Querier, a, b uuid.UUID) (bool, error) {
	if a == b {
		return true, nil
	}
	same, err := postgres.CollectOne(ctx, db, pgx.RowTo[bool], `SELECT coalesce((SELECT same_as FROM person_links WHERE person_id = $1), $1)
		= coalesce((SELECT same_as FROM person_links WHERE person_id = $2), $2)`, a, b)
	if err != nil {
		return false, fmt.Errorf("compare people: %w", err)
	}
	return same, nil
}

// Ties say whether two people may be one.
type Ties struct {
	Same     bool        // operators declared them to be the same
	Inviters []uuid.UUID // the [Inviters] of the second
	Limit    *Limit      // of the second as a reviewer; nil: none
}

// QueueTies adds the read of the ties of two people to a batch. a is an SQL expression in which $3 is arg; NULL if only the inviters of b
// are asked for.
func QueueTies(batch *pgx.Batch, a string, arg any, b uuid.UUID, into *Ties) {
	batch.Queue(`SELECT coalesce(`+canonicalSQL(a)+` = `+canonicalSQL("$1")+`, false), ARRAY(`+invitersSQL+`), (SELECT review_limit FROM people WHERE id = $1)`, b, LocalIssuer, arg).Query(func(rows pgx.Rows) (err error) {
		if *into, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Ties]); err != nil {
			return fmt.Errorf("compare people: %w", err)
		}
		return nil
	})
}

// QueueNamed adds to a batch the question whether another system's names for a user mean a person. If they do, it sets named. names is a
// query of one row of texts, or null, in which $2 is arg. Names are compared with ids, subjects and email addresses, and like these in any case
// and without a scheme such as "mailto:": a name that fits two people means both.
func QueueNamed(batch *pgx.Batch, names string, arg any, person uuid.UUID, named *bool) {
	batch.Queue(`SELECT EXISTS (SELECT FROM (`+names+`) AS n (first, second), unnest(ARRAY[n.first, n.second]) AS t (name), people AS p
		WHERE p.id = ANY (ARRAY(SELECT `+canonicalSQL("$1")+` UNION SELECT person_id FROM person_links WHERE same_as = `+canonicalSQL("$1")+`))
			AND lower(regexp_replace(trim(t.name), '^(mailto|acct):', '', 'i')) IN (lower(trim(p.email)), lower(p.subject), p.id::text))`, person, arg).QueryRow(func(row pgx.Row) error {
		var found bool
		if err := row.Scan(&found); err != nil {
			return fmt.Errorf("compare a subject with a person: %w", err)
		}
		*named = *named || found
		return nil
	})
}

// Sames returns, by person, the other person that an operator declared to be the same. It reads the database.
func Sames(ctx context.Context, db postgres.Querier, people []uuid.UUID) (map[uuid.UUID]uuid.UUID, error) {
	return readLinks(ctx, db, ` WHERE person_id = ANY($1)`, people)
}

func readLinks(ctx context.Context, db postgres.Querier, where string, args ...any) (map[uuid.UUID]uuid.UUID, error) {
	rows, err := db.Query(ctx, `SELECT person_id, same_as FROM person_links`+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read links of people: %w", err)
	}
	links := map[uuid.UUID]uuid.UUID{}
	var person, same uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&person, &same}, func() error { links[person] = same; return nil })
	if err != nil {
		return nil, fmt.Errorf("read links of people: %w", err)
	}
	return links, nil
}

// Link is an operator's declaration that a person is the same as another.
type Link struct {
	SameAs uuid.UUID
	By     uuid.UUID // uuid.Nil: the system
	At     time.Time
}

// Links returns the links of the people who have one. It reads the database.
func (s *Service) Links(ctx context.Context, people []uuid.UUID) (map[uuid.UUID]Link, error) {
	rows, err := s.pool.Query(ctx, `SELECT person_id, same_as, linked_by, linked_at FROM person_links WHERE person_id = ANY($1)`, people)
	if err != nil {
		return nil, fmt.Errorf("read links of people: %w", err)
	}
	links := make(map[uuid.UUID]Link)
	var person uuid.UUID
	var by *uuid.UUID
	var link Link
	_, err = pgx.ForEachRow(rows, []any{&person, &link.SameAs, &by, &link.At}, func() error {
		link.By = uuid.Nil
		if by != nil {
			link.By = *by
		}
		links[person] = link
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read links of people: %w", err)
	}
	return links, nil
}

// Link declares that a person is the same as another, whose connections they use from then on. Errors: [ErrNotFound],
// [ErrSelfLink], [ErrBothRoles], *[fault.InvalidError].
func (s *Service) Link(ctx context.Context, by audit.Actor, person, same uuid.UUID) error {
	if person == same {
		return fault.Invalid("same_as", "must be another person")
	}
	return s.changeLinks(ctx, func(tx pgx.Tx) error {
		people, err := collectPeople(ctx, tx, `SELECT `+personColumns+` FROM people p WHERE p.id = ANY($1)`, []uuid.UUID{person, same})
		if err != nil {
			return err
		}
		if len(people) != 2 {
			return ErrNotFound
		}
		var chained bool
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM person_links WHERE person_id = $2 OR same_as = $1)`, person, same).Scan(&chained)
		if err != nil {
			return err
		}
		if chained {
			return fault.Invalid("same_as", "must be a person without a link, and no one may be linked to the person")
		}
		if err := s.checkLinker(ctx, tx, by, person, same); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO person_links (person_id, same_as, linked_by) VALUES ($1, $2, $3)
			ON CONFLICT (person_id) DO UPDATE SET same_as = excluded.same_as, linked_by = excluded.linked_by, linked_at = holdpoint_now()`,
			person, same, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		if err := s.checkSeparate(ctx, tx, person); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.PersonLinked, Subject: person, Data: map[string]any{"same_as": same}})
	})
}

// Unlink deletes the link of a person. Errors: [ErrNotFound], [ErrSelfLink].
func (s *Service) Unlink(ctx context.Context, by audit.Actor, person uuid.UUID) error {
	return s.changeLinks(ctx, func(tx pgx.Tx) error {
		if err := s.checkLinker(ctx, tx, by, person); err != nil {
			return err
		}
		var same uuid.UUID
		err := tx.QueryRow(ctx, `DELETE FROM person_links WHERE person_id = $1 RETURNING same_as`, person).Scan(&same)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.PersonUnlinked, Subject: person, Data: map[string]any{"same_as": same}})
	})
}

// checkLinker refuses people who would link or unlink themselves, or people whose identity rests on their word alone: a link
// gives access to the other's connections, and its end lets the two decide each other's calls. The bootstrap token may do so
// until there is a second operator.
func (s *Service) checkLinker(ctx context.Context, tx pgx.Tx, by audit.Actor, people ...uuid.UUID) error {
	if by.Kind != audit.KindPerson {
		return nil
	}
	for _, person := range people {
		tied, err := isTied(ctx, tx, by.ID, person)
		if err != nil {
			return err
		}
		if !tied {
			continue
		}
		alone, err := s.isBootstrapAlone(ctx, tx, by.ID)
		if err == nil && !alone {
			err = ErrSelfLink
		}
		return err
	}
	return nil
}

func (s *Service) changeLinks(ctx context.Context, f func(tx pgx.Tx) error) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_links', 0))`); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("link people: %w", err)
	}
	s.links.Drop()
	return nil
}

// MayBeOne reports whether two records may be one person: operators declared them the same, or the identity of one rests on
// the word of the other alone. It reads the database.
func MayBeOne(ctx context.Context, db postgres.Querier, a, b uuid.UUID) (bool, error) {
	tied, err := isTied(ctx, db, a, b)
	if err != nil || tied {
		return tied, err
	}
	return isVouchedFor(ctx, db, b, a)
}

// isTied reports whether an act of person for other may be an act for themselves: the two are the same, or person's identity
// rests on other's word alone.
func isTied(ctx context.Context, db postgres.Querier, person, other uuid.UUID) (bool, error) {
	same, err := Same(ctx, db, person, other)
	if err != nil || same {
		return same, err
	}
	return isVouchedFor(ctx, db, person, other)
}

// isVouchedFor reports whether a person's identity rests on other's word alone.
func isVouchedFor(ctx context.Context, db postgres.Querier, person, other uuid.UUID) (bool, error) {
	inviters, err := Inviters(ctx, db, person)
	if err != nil {
		return false, err
	}
	return SameAsAny(ctx, db, inviters, []uuid.UUID{other})
}

// Inviters returns the people on whose word alone an unverified person is known: the inviter, the inviter of an unverified
// inviter, and so on. It is empty for verified people. It reads the database.
func Inviters(ctx context.Context, db postgres.Querier, person uuid.UUID) ([]uuid.UUID, error) {
	inviters, err := postgres.Collect(ctx, db, pgx.RowTo[uuid.UUID], invitersSQL, person, LocalIssuer)
	if err != nil {
		return nil, fmt.Errorf("list inviters of person %s: %w", person, err)
	}
	return inviters, nil
}

// invitersSQL selects the inviters of person $1. $2 is [LocalIssuer].
//
//nolint:gochecknoglobals // a constant
var invitersSQL = `WITH RECURSIVE inviters (id) AS (
		SELECT invited_by FROM people WHERE id = $1 AND issuer = $2 AND invited_by IS NOT NULL
		UNION
		SELECT p.invited_by FROM people p JOIN inviters i ON i.id = p.id WHERE p.issuer = $2 AND p.invited_by IS NOT NULL)
	SELECT DISTINCT ` + canonicalSQL("id") + ` FROM inviters`

// SameAsAny reports whether one of inviters, as [Inviters] returns them, is the same person as one of others. It reads the
// database.
func SameAsAny(ctx context.Context, db postgres.Querier, inviters, others []uuid.UUID) (bool, error) {
	if len(inviters) == 0 || len(others) == 0 {
		return false, nil
	}
	same, err := postgres.Collect(ctx, db, pgx.RowTo[uuid.UUID], `SELECT `+canonicalSQL("other")+` FROM unnest($1::uuid[]) AS o (other)`, others)
	if err != nil {
		return false, fmt.Errorf("compare people: %w", err)
	}
	return slices.ContainsFunc(same, func(id uuid.UUID) bool { return slices.Contains(inviters, id) }), nil
}

// canonicalSQL returns the person that an id is linked to, or the id itself.
func canonicalSQL(id string) string {
	return `coalesce((SELECT same_as FROM person_links WHERE person_id = ` + id + `), ` + id + `)`
}
