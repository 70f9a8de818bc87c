package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/lookalike"
)

// Alike returns those of the people whose name equals, or looks like, the name of another person who is not linked to them.
// From the cache.
func (s *Service) Alike(ctx context.Context, people ...Person) (map[uuid.UUID]bool, error) {
	if len(people) == 0 {
		return map[uuid.UUID]bool{}, nil
	}
	known, err := s.names.Get(ctx, struct{}{}, s.readNames)
	if err != nil {
		return nil, err
	}
	alike := map[uuid.UUID]bool{}
	for _, p := range people {
		self, err := s.SameAs(ctx, p.ID)
		if err != nil {
			return nil, err
		}
		for _, key := range known.of[p.ID] {
			for _, id := range known.people[key] {
				other, err := s.SameAs(ctx, id)
				if err != nil {
					return nil, err
				}
				if other != self {
					alike[p.ID] = true
				}
			}
		}
	}
	return alike, nil
}

// nameIndex holds the lookalike keys of people's names as stored; a [Person] has invisible characters of a name as escapes.
type nameIndex struct {
	of     map[uuid.UUID][]string
	people map[string][]uuid.UUID // by key, without blocked people
}

func (s *Service) readNames(ctx context.Context) (nameIndex, error) {
	known := nameIndex{of: map[uuid.UUID][]string{}, people: map[string][]uuid.UUID{}}
	rows, err := s.pool.Query(ctx, `SELECT id, name, blocked_at IS NOT NULL FROM people`)
	if err != nil {
		return known, fmt.Errorf("read names of people: %w", err)
	}
	var id uuid.UUID
	var name string
	var blocked bool
	_, err = pgx.ForEachRow(rows, []any{&id, &name, &blocked}, func() error {
		keys := lookalike.Keys(name)
		known.of[id] = keys
		for _, key := range keys {
			if !blocked {
				known.people[key] = append(known.people[key], id)
			}
		}
		return nil
	})
	if err != nil {
		return known, fmt.Errorf("read names of people: %w", err)
	}
	return known, nil
}
