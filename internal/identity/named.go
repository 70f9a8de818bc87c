package identity

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Named returns the people whom a name, an e-mail address, a subject or an id may mean. Names are not
// unique: it is for looking for something, never for deciding who somebody is.
func (s *Service) Named(ctx context.Context, name string) ([]uuid.UUID, error) {
	if !utf8.ValidString(name) || strings.Contains(name, "\x00") {
		return []uuid.UUID{}, nil
	}
	people, err := collectPeople(ctx, s.pool, `SELECT `+personColumns+` FROM people p
		WHERE p.name = $1 OR p.email = $1 OR p.subject = $1 OR p.id::text = $1`, name)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(people))
	for i := range people {
		ids[i] = people[i].ID
	}
	return ids, nil
}
