package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// SameAs is the person whom an operator declared to be the same as this one, or the
// person themself. Their connections to skills are one person's. From memory.
func (s *Service) SameAs(ctx context.Context, person uuid.UUID) (uuid.UUID, error) {
	if person == uuid.Nil {
		return uuid.Nil, nil
	}
	links, err := s.links.Get(ctx, struct{}{}, s.readLinks)
	if err != nil {
		return uuid.Nil, err
	}
	if same, ok := links[person]; ok {
		return same, nil
	}
	return person, nil
}

// Same reports whether two people are one, by what operators declared. It reads db, not memory.
func Same(ctx context.Context, db postgres.Querier, a, b uuid.UUID) (bool, error) {
	if a == b {
		return true, nil
	}
	rows, err := db.Query(ctx, `SELECT coalesce((SELECT same_as FROM person_links WHERE person_id = $1), $1)
		= coalesce((SELECT same_as FROM person_links WHERE person_id = $2), $2)`, a, b)
	if err != nil {
		return false, fmt.Errorf("compare people: %w", err)
	}
	same, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil {
		return false, fmt.Errorf("compare people: %w", err)
	}
	return same, nil
}

// Sames returns, for those of the people whom an operator declared to be the same as another, that other. It reads
// db, not memory.
func Sames(ctx context.Context, db postgres.Querier, people []uuid.UUID) (map[uuid.UUID]uuid.UUID, error) {
	rows, err := db.Query(ctx, `SELECT person_id, same_as FROM person_links WHERE person_id = ANY($1)`, people)
	if err != nil {
		return nil, fmt.Errorf("read links of people: %w", err)
	}
	sames := map[uuid.UUID]uuid.UUID{}
	var person, same uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&person, &same}, func() error { sames[person] = same; return nil })
	if err != nil {
		return nil, fmt.Errorf("read links of people: %w", err)
	}
	return sames, nil
}

func (s *Service) readLinks(ctx context.Context) (map[uuid.UUID]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, `SELECT person_id, same_as FROM person_links`)
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

// Link says whom an operator declared a person to be the same as.
type Link struct {
	SameAs uuid.UUID
	By     uuid.UUID // uuid.Nil: the system
	At     time.Time
}

// Links returns the links of those people who have one. From the database.
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

// Link declares, as an operator's act, that a person is the same as another, whose connections
// they use from then on. Errors: ErrNotFound, ErrSelfLink, *InvalidError.
func (s *Service) Link(ctx context.Context, by audit.Actor, person, same uuid.UUID) error {
	if person == same {
		return &InvalidError{"same_as", "must be another person"}
	}
	return s.relink(ctx, func(tx pgx.Tx) error {
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
			return &InvalidError{"same_as", "must be a person who is linked to nobody, as must the person nobody is linked to"}
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
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: "person.linked", Subject: person, Data: map[string]any{"same_as": same}})
	})
}

// Unlink takes a link back. ErrNotFound when there is none; ErrSelfLink.
func (s *Service) Unlink(ctx context.Context, by audit.Actor, person uuid.UUID) error {
	return s.relink(ctx, func(tx pgx.Tx) error {
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
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: "person.unlinked", Subject: person, Data: map[string]any{"same_as": same}})
	})
}

// checkLinker refuses people who would link or unlink themselves, or those on whose word alone they are known: a link
// lets one use the connections of the other, and the end of a link lets them decide each other's calls. As with grants,
// the bootstrap token may until there is a second operator.
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

func (s *Service) relink(ctx context.Context, f func(tx pgx.Tx) error) error {
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
