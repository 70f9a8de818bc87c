package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/lookalike"
)

// lookalikes are the keys of people's names as they came: a [Person] has the hidden characters of a name as escapes.
type lookalikes struct {
	of     map[uuid.UUID][]string
	people map[string][]uuid.UUID // who are not blocked
}

// Alike returns those of the people whose name equals or looks like the name of another person, unless an operator
// declared the two to be the same. From memory.
func (s *Service) Alike(ctx context.Context, people ...Person) (map[uuid.UUID]bool, error) {
	if len(people) == 0 {
		return map[uuid.UUID]bool{}, nil
	}
	known, err := s.alike.Get(ctx, struct{}{}, s.readNames)
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

func (s *Service) readNames(ctx context.Context) (lookalikes, error) {
	known := lookalikes{of: map[uuid.UUID][]string{}, people: map[string][]uuid.UUID{}}
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
