package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/lookalike"
)

// lookalikes are the people by the keys of their names.
type lookalikes map[string][]uuid.UUID

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
		for _, key := range lookalike.Keys(p.Name) {
			for _, id := range known[key] {
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
	rows, err := s.pool.Query(ctx, `SELECT id, name FROM people WHERE blocked_at IS NULL`)
	if err != nil {
		return nil, fmt.Errorf("read names of people: %w", err)
	}
	known := lookalikes{}
	var id uuid.UUID
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		for _, key := range lookalike.Keys(name) {
			known[key] = append(known[key], id)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read names of people: %w", err)
	}
	return known, nil
}
